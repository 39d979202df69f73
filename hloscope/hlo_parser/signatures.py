"""What each HLO opcode takes and gives: how many operands of which kinds, what kind of result.

A row reads `opcode … | operands | result`.  Kinds are

* `array`; `scalar`, an array of rank 0; `tuple`; `token`; `any`;
* `arrays`, of results: an array, or a tuple of one or more of them.

`kind*` stands for any number of operands, `kind+` for one or more.
The rest of typing, in `ops`, may rely on it.

Source: XLA `hlo_parser.cc` (numbers of operands) and `hlo_verifier.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hloscope.errors import VerifyError
from hloscope.hlo_parser.opcodes import OPCODES, SPELLINGS
from hloscope.hlo_parser.types import print_type
from hloscope.ir.op import Op
from hloscope.ir.types import BufferType, TensorType, TokenType, TupleType, Type
from hloscope.ops.control import AsyncStart
from hloscope.ops.elementwise import Elementwise

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
    opt-barrier                    | any+                                   | any
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
    rng                            | scalar scalar array*                   | array
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
    """

    operands: tuple[str, ...]
    more: str
    result: str

    def check(self, opcode: str, operands: Sequence[Type], result: Type | None = None) -> None:
        """Check number and kinds.

        Raises:
            VerifyError: With what was found, and what is needed.
        """
        found, needed = len(operands), len(self.operands)
        if found < needed or (found > needed and not self.more):
            more = " or more" if self.more else ""
            raise VerifyError(f"`{opcode}` has {found} operands, needs {needed}{more}")
        for i, type_ in enumerate(operands):
            kind = self.operands[i] if i < needed else self.more
            if not _is(type_, kind):
                raise VerifyError(f"operand {i} of `{opcode}` is {_wrong(type_, kind)}")
        if result is not None and not _is(result, self.result):
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
        more = kinds.pop() if kinds and kinds[-1][-1] in "*+" else ""
        needed = (*kinds, more[:-1]) if more.endswith("+") else tuple(kinds)
        for opcode in opcodes.split():
            yield opcode, Signature(needed, more[:-1], result.strip())
    for opcode, spelling in SPELLINGS.items():
        if issubclass(spelling.op, Elementwise) and spelling.op.name != "copy":
            yield opcode, Signature(("array",) * spelling.op.arity, "", "array")


SIGNATURES: Final = dict(_signatures())
"""The signature of each opcode; that of a sugared asynchronous one follows from its op's."""

OF_OWN_TYPE: Final = ("all_reduce", "all_gather", "collective_permute")
"""Ops whose start may have the type of the op itself; that of all-reduce always has."""

_BY_OP: Final = {op: SIGNATURES[opcode] for op, opcode in OPCODES.items()}


def check_signature(
    op: Op, opcode: str, operands: Sequence[Type], result: Type | None = None
) -> None:
    """Check numbers and kinds of the operands of an op, and the kind of its result if it is known.

    >>> from hloscope.ops import OPS
    >>> check_signature(OPS["iota"](0), "iota", [TokenType()])
    Traceback (most recent call last):
    hloscope.errors.VerifyError: error: `iota` has 1 operands, needs 0

    Raises:
        VerifyError: With what was found, and what is needed.
    """
    if isinstance(op, AsyncStart) and op.wrapped is not None:
        of_op = _BY_OP.get(type(op.wrapped))
        kind = "any" if op.wrapped.name in OF_OWN_TYPE else "tuple"
        known = of_op and Signature(of_op.operands, of_op.more, kind)
    else:
        known = _BY_OP.get(type(op))
    if known is not None:
        known.check(opcode, operands, result)
