"""What each HLO opcode takes and gives: how many operands of which kinds, what kind of result.

A row reads `opcode … | operands | result`.  Kinds are

* `array`; `scalar`, an array of rank 0; `tuple`; `token`; `any`;
* `arrays`, of results: an array, or a tuple of one or more of them.

`kind*` stands for any number of operands, `kind+` for one or more, `kind?` for one or none.
The rest of typing, in `ops`, may rely on it.

Source: XLA `hlo_parser.cc` (numbers of operands) and `hlo_verifier.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NoReturn

from hloscope.errors import VerifyError
from hloscope.hlo_parser.opcodes import OPCODES, SPELLINGS
from hloscope.hlo_parser.types import print_type
from hloscope.ir import BufferType, Op, TensorType, TokenType, TupleType, Type
from hloscope.lazy import dataclass
from hloscope.ops import AsyncStart, Elementwise

_ROWS: Final = """
    parameter constant             |                                        | any
    iota                           |                                        | array
    tuple                          | any*                                   | tuple
    get-tuple-element              | tuple                                  | any
    call fusion custom-call        | any*                                   | any
    while                          | any                                    | any
    conditional                    | scalar any*                            | any
    async-start                    | any*                                   | tuple
    async-update                   | any+                                   | any
    async-done copy-done           | any                                    | any
    copy-start                     | array                                  | tuple
    after-all                      | any*                                   | token
    add-dependency                 | any token                              | any
    opt-barrier                    | any                                    | any
    domain                         | any                                    | any
    copy                           | any                                    | any

    bitcast                        | any                                    | any
    broadcast reshape transpose reverse bitcast-convert | array             | array
    dynamic-reshape                | array scalar*                          | array
    concatenate map                | array+                                 | array
    pad                            | array scalar                           | array
    slice                          | array                                  | array
    dynamic-slice                  | array array*                           | array
    dynamic-update-slice           | array array array*                     | array
    get-dimension-size             | array                                  | scalar
    set-dimension-size             | array scalar                           | array
    gather                         | array array                            | array
    scatter                        | array array array array*               | arrays
    reduce reduce-window           | array array array*                     | arrays
    scan                           | array*                                 | any
    sort                           | array+                                 | arrays
    topk                           | array                                  | tuple
    select-and-scatter             | array array scalar                     | array
    convolution                    | array array                            | array
    dot                            | array array array*                     | array
    ragged-dot                     | array array array                      | array
    scaled-dot                     | array array array array                | array
    batch-norm-training            | array array array                      | tuple
    batch-norm-inference           | array array array array array          | array
    batch-norm-grad                | array array array array array          | tuple

    cholesky fft                   | array                                  | array
    triangular-solve               | array array                            | array
    rng                            | scalar scalar array?                   | array
    rng-bit-generator              | array                                  | arrays
    rng-get-and-update-state       |                                        | array

    all-gather all-reduce reduce-scatter all-to-all collective-broadcast | array+ | arrays
    ragged-all-to-all              | array array array array array array    | array
    collective-permute             | any+                                   | arrays
    partition-id replica-id        |                                        | scalar
    send                           | any token                              | tuple
    send-done                      | tuple                                  | token
    recv                           | token                                  | tuple
    recv-done                      | tuple                                  | tuple
    infeed                         | token                                  | tuple
    outfeed                        | any token                              | token
"""

_WORDS: Final = {
    "array": "an array",
    "arrays": "an array or a tuple of arrays",
    "scalar": "an array of rank 0",
    "tuple": "a tuple",
    "token": "a token",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """What an opcode takes and gives.

    Attributes:
        operands: Kinds of the operands that there have to be.
        more: Kind of those that may follow, or nothing.
        result: Kind of the result.
        most: How many there may be, if there is a limit.
    """

    operands: tuple[str, ...]
    more: str
    result: str
    most: int | None = None

    def takes(self, operands: Sequence[Type]) -> bool:
        """Are number and kinds of the operands as they should be?"""
        needed, found = self.operands, len(operands)
        if found < len(needed) or (self.most is not None and found > self.most):
            return False
        for i, type_ in enumerate(operands):
            kind = needed[i] if i < len(needed) else self.more
            if not (type(type_) is TensorType and kind == "array") and not _is(type_, kind):
                return False
        return True

    def gives(self, result: Type) -> bool:
        """Is the result of the right kind?"""
        kind = self.result
        return (type(result) is TensorType and kind == "array") or _is(result, kind)

    def refuse(self, opcode: str, operands: Sequence[Type], result: Type | None = None) -> NoReturn:
        """Say what is wrong: with the operands, else with the result.

        Raises:
            VerifyError: With what was found, and what is needed.
        """
        found, needed = len(operands), len(self.operands)
        if found < needed or (self.most is not None and found > self.most):
            more = " or more" if self.most is None else f" or {self.most}" * (self.most > needed)
            raise VerifyError(f"`{opcode}` has {found} operands, needs {needed}{more}")
        for i, type_ in enumerate(operands):
            kind = self.operands[i] if i < needed else self.more
            if not _is(type_, kind):
                raise VerifyError(f"operand {i} of `{opcode}` is {_wrong(type_, kind)}")
        assert result is not None
        raise VerifyError(f"`{opcode}` is declared {_wrong(result, self.result)}")


def _is(type_: Type, kind: str) -> bool:
    match kind:
        case "array":
            return isinstance(type_, TensorType | BufferType)
        case "scalar":
            return isinstance(type_, TensorType) and type_.rank == 0
        case "arrays":
            if not isinstance(type_, TupleType):
                return _is(type_, "array")
            return bool(type_.elements) and all(_is(t, "array") for t in type_.elements)
        case "tuple":
            return isinstance(type_, TupleType)
        case "token":
            return isinstance(type_, TokenType)
        case _:
            return True


def _wrong(type_: Type, kind: str) -> str:
    return f"{print_type(type_, layout=False)}, needs {_WORDS[kind]}"


def _signatures() -> Iterator[tuple[str, Signature]]:
    for row in filter(str.strip, _ROWS.splitlines()):
        opcodes, operands, result = row.split("|")
        kinds = operands.split()
        more = kinds.pop() if kinds and kinds[-1][-1] in "*+?" else ""
        needed = (*kinds, more[:-1]) if more.endswith("+") else tuple(kinds)
        most = None if more[-1:] in ("*", "+") else len(needed) + bool(more)
        for opcode in opcodes.split():
            yield opcode, Signature(needed, more[:-1], result.strip(), most)
    for opcode, spelling in SPELLINGS.items():
        if issubclass(spelling.op, Elementwise) and spelling.op.name != "copy":
            arity = spelling.op.arity
            yield opcode, Signature(("array",) * arity, "", "array", arity)


SIGNATURES: Final = dict(_signatures())
"""The signature of each opcode; that of a sugared asynchronous one follows from its op's."""

PAIRED: Final = ("all_gather", "collective_permute")
"""Ops whose start has the type (operand, result, …), without a tuple around a single operand."""

_BY_OP: Final = {op: SIGNATURES[opcode] for op, opcode in OPCODES.items()}


def signature(op: Op) -> Signature | None:
    """What an op takes and gives in HLO; `None` where nothing is known of it.

    >>> from hloscope.ops import OPS
    >>> signature(OPS["iota"](0)).takes([TokenType()])
    False
    """
    if isinstance(op, AsyncStart) and op.wrapped is not None:
        known = _BY_OP.get(type(op.wrapped))
        kind = "arrays" if op.wrapped.name == "all_reduce" else "tuple"  # of all-reduce's own type
        return known and replace(known, result=kind)
    return _BY_OP.get(type(op))
