"""Data of an indexing result, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import POS_INF
from hloscope.display.parts import in_sizes, runtime_map, source_text
from hloscope.display.provenance import Provenance
from hloscope.errors import UnsupportedError
from hloscope.fusion import Convention, leaf_types, origin_text
from hloscope.hlo_parser import brief_type, opcode_of as hlo_opcode, print_type
from hloscope.indexing import Access, Accesses, IndexingMap, RuntimeVariable
from hloscope.ir import Computation, Dims, Instruction, Op, TensorType, Type
from hloscope.support.lazy import lazy, once_for_each

if TYPE_CHECKING:
    import json

    from hloscope.proof import Check
else:
    json = lazy("json")

INDEX_SCHEMA: Final = "hloscope.index/3"
MAX_ELEMENTS_PRINTED: Final = 1024
"""Maximum number of elements of a tuple type that are printed; of more, only the number is."""
_NAMED: Final = 6
"""Maximum number of operands that the `repr` of an output names."""
MAX_ELEMENTS_PRINTED_IN_ALL: Final = 1 << 16
"""Maximum number of tuple elements that are printed for all outputs together.

Each output prints at least `MIN_ELEMENTS_PRINTED`.
"""
MIN_ELEMENTS_PRINTED: Final = 8
Direction: TypeAlias = Literal["output_to_input", "input_to_output"]
Order: TypeAlias = Literal["logical", "physical", "linear"]


class OperandAnswer(Struct, frozen=True):
    """Accesses of one operand; for `indexing_from`, accesses from one of its elements to an output.

    Attributes:
        number: Number of the operand.
        name: Its name.
        type: Its type.
        accesses: The maps, each with its precision.
        leaf: For `indexing_from`: number of the tensor in the operand.
        check: The proof of the maps; `None` if none was requested.
    """

    number: int
    name: str
    type: Type
    accesses: Accesses
    leaf: int = 0
    check: Check | None = None

    def __repr__(self) -> str:
        maps = "; ".join([f"{a.precision} {a.map}" if a.map else str(a.precision) for a in self])
        proof = f"; {self.check.outcome}" if self.check else ""
        return f"<Operand {self.number} {self.name}: {maps or 'nothing'}{proof}>"

    def __iter__(self) -> Iterator[Access]:
        return iter(self.accesses)

    def proved(self, check: Check) -> OperandAnswer:
        """Return this result with the given proof."""
        return replace(self, check=check)


class OperandAnswers(Sequence[OperandAnswer]):
    """The results for the operands of one output; those without accesses are created on demand.

    The root of a training step has thousands of outputs and operands, and each output reads one
    operand: only results with accesses or proofs are stored.
    """

    def __init__(
        self,
        values: Sequence[Instruction],
        numbers: range,
        results: Mapping[int, OperandAnswer],
        rest: Check | None = None,
    ) -> None:
        """Store all operands, and the numbers of those that were requested.

        Args:
            values: All operands.
            numbers: The numbers of the requested ones.
            results: The results with accesses or a proof of their own, by operand number.
            rest: The common proof that no other operand is read; `None` without one.
        """
        self._values = values
        self._numbers = numbers
        self._told = {k: results[k] for k in sorted(results) if k in numbers}
        self.touched: Final = [o for o in self._told.values() if o.accesses]
        self.rest: Final = rest

    def proved(self, results: Sequence[OperandAnswer], rest: Check | None) -> OperandAnswers:
        """Return these results with the proofs in `results`; the proof `rest` covers all others."""
        numbers = {operand.number: operand for operand in results}
        return OperandAnswers(self._values, self._numbers, numbers, rest)

    @property
    def checked_untouched(self) -> list[OperandAnswer]:
        """Return the operands without accesses that have a proof of their own."""
        return [o for o in self._told.values() if o.check is not None and not o.accesses]

    @property
    def left(self) -> int:
        """Return the number of operands that the common proof `rest` covers."""
        return len(self._numbers) - len(self._told)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> OperandAnswer: ...
    @overload
    def __getitem__(self, at: slice) -> list[OperandAnswer]: ...
    def __getitem__(self, at: int | slice) -> OperandAnswer | list[OperandAnswer]:
        if isinstance(at, slice):
            return list(map(self._of, self._numbers[at]))
        return self._of(self._numbers[at])

    def of_number(self, number: int) -> list[OperandAnswer]:
        """Return a list with the result for operand `number`; empty if it was not requested."""
        return [self._of(number)] if number in self._numbers else []

    def _of(self, number: int) -> OperandAnswer:
        value = self._values[number]
        known = self._told.get(number)
        return known or OperandAnswer(number, value.name, value.type, (), check=self.rest)


class TensorAnswers(OperandAnswers):
    """Results for the tensors of a tuple operand, in an `indexing_from` query."""

    def __init__(
        self,
        operand: OperandAnswer,
        numbers: range,
        results: Mapping[int, OperandAnswer],
        rest: Check | None = None,
    ) -> None:
        """Store the operand, the numbers of the requested tensors, and their results.

        Args:
            operand: The operand.
            numbers: Numbers of the requested tensors.
            results: The results with accesses or a proof of their own, by tensor number.
            rest: The common proof that no other tensor is read; `None` without one.
        """
        super().__init__((), numbers, results, rest)
        self.operand: Final = operand

    def proved(self, results: Sequence[OperandAnswer], rest: Check | None) -> TensorAnswers:
        """Return these results with the proofs in `results`; the proof `rest` covers all others."""
        return TensorAnswers(self.operand, self._numbers, {o.leaf: o for o in results}, rest)

    def _of(self, number: int) -> OperandAnswer:
        known = self._told.get(number)
        return known or replace(self.operand, leaf=number, check=self.rest)


class OutputAnswer(Struct, frozen=True):
    """The results for one output of the instruction: one for each operand.

    For `indexing_from`, there is one for each tensor of the operand.
    """

    number: int
    type: Type
    operands: OperandAnswers

    @property
    def touched(self) -> Sequence[OperandAnswer]:
        """Return the results of the operands that have accesses."""
        return self.operands.touched

    def __repr__(self) -> str:
        touched = ", ".join([operand.name for operand in self.touched[:_NAMED]])
        more = f" and {len(self.touched) - _NAMED} more" if len(self.touched) > _NAMED else ""
        return f"<Output {self.number} {brief_type(self.type)}: {touched or 'nothing'}{more}>"

    @property
    def checked_untouched(self) -> Sequence[OperandAnswer]:
        """Return the operands without accesses that have a proof of their own."""
        return self.operands.checked_untouched

    @property
    def proved_together(self) -> tuple[Check, int] | None:
        """Return the common proof that operands are not read, and their number.

        `None` without one.
        """
        rest, left = self.operands.rest, self.operands.left
        return None if rest is None or not left else (rest, left)


class Answer(Struct, frozen=True):
    """The result of an indexing query about one instruction.

    Attributes:
        instruction: The instruction.
        opcode: Its opcode as HLO spells it.
        direction: `output_to_input`: maps from output elements to operand elements;
            `input_to_output`: the reverse.
        outputs: The results of each requested output.
        order: Kind of the indices: `logical`; `physical` (in memory order, slowest-varying
            dimension first); or `linear` (positions in memory, counted in elements).
        what: `operand` if maps lead to operands, `parameter` if they lead to parameters of the
            instruction's computation.
        computation: The computation of the parameters; `None` for operands.
        inside: The computation of the instruction; `None` if unknown.
        origin: Origin of the instruction in the source of the program.
        convention: Which input elements a reduction's output reads; see `Program.by_convention`.
    """

    instruction: Instruction
    opcode: str
    direction: Direction
    outputs: Sequence[OutputAnswer]
    order: Order = "logical"
    what: Literal["operand", "parameter"] = "operand"
    computation: Computation | None = None
    inside: Computation | None = None
    origin: Provenance = field(default_factory=Provenance)
    convention: Convention = "structural"

    def __repr__(self) -> str:
        way = self.direction.replace("_", " ")
        return f"<Answer {self.instruction.name}, {way}: {len(self.outputs)} outputs>"

    def sizes(self, type: Type) -> Dims:
        """Return the sizes of a map's dimensions if they index a tensor of `type`, in this order.

        They are logical sizes, physical sizes, or the number of positions in memory, as `order`
        states. Empty if positions in memory are unknown; a size without a bound counts as the
        largest integer.
        """
        if not isinstance(type, TensorType):
            return ()
        shape = tuple([POS_INF if size is None else size for size in type.most])
        if self.order == "logical":
            return shape
        if self.order == "physical":
            return tuple([shape[k] for k in indexing.major_to_minor(type)])
        try:
            return (prod(indexing.padded_physical_sizes(type)),)
        except UnsupportedError:
            return ()


def asked_from(answer: Answer) -> dict[int, OperandAnswer]:
    """Return the tensors of the queried operand on which an output depends, by flat tuple index.

    `answer` is the result of an `indexing_from` query. An operand that is a tensor has its own
    name; tensors of a tuple are `p{0}`, `p{1}`, …. If no output depends on any tensor, the first
    requested one is returned.
    """
    source = next((o for output in answer.outputs for o in output.operands), None)
    if source is None:
        return {}
    reaching = {o.leaf for output in answer.outputs for o in output.touched} or {source.leaf}
    types = leaf_types(source.type)
    return {
        leaf: replace(
            source,
            name=source.name if len(types) == 1 else f"{source.name}{{{leaf}}}",
            type=types[leaf],
            leaf=leaf,
        )
        for leaf in sorted(reaching)
    }


def shape_text(type: Type) -> str:
    """Return a type as text without layouts: `f32[8,128]`."""
    return print_type(type, layout=False)


def opcode_of(ins: Instruction) -> str:
    """Return the opcode as HLO spells it; the StableHLO name if HLO lacks the op."""
    return _opcode(ins.op)


def opcodes() -> Callable[[Instruction], str]:
    """Return the function `opcode_of` with a cache by op; many instructions share op objects."""
    opcode = once_for_each(_opcode)
    return lambda ins: opcode(ins.op)


def _opcode(op: Op) -> str:
    try:
        return hlo_opcode(op)
    except UnsupportedError:
        return op.name


def to_json(answer: Answer, file: str) -> dict[str, Any]:
    """Return the result as an object of schema `hloscope.index/3`; `file` is the program's name.

    Operands without accesses are counted, not listed. Equal maps and equal results are stored once,
    because many outputs of a training step read equal elements of the same parameters.
    """
    found: dict[str, Any] = {
        "schema": INDEX_SCHEMA,
        "file": file,
        "instruction": answer.instruction.name,
        "opcode": answer.opcode,
        **({"computation": answer.inside.name} if answer.inside else {}),
        **answer.origin.to_json(),
        "direction": answer.direction,
        **({"convention": answer.convention} if answer.convention != "structural" else {}),
    }
    outputs = answer.outputs
    if answer.direction == "input_to_output":
        outputs = [o for o in outputs if o.touched or o.checked_untouched]
        found["unreached"] = sum(not output.touched for output in answer.outputs)
    most = max(
        MIN_ELEMENTS_PRINTED,
        min(MAX_ELEMENTS_PRINTED, MAX_ELEMENTS_PRINTED_IN_ALL // max(1, len(outputs))),
    )
    shared = _Shared(most)
    found["outputs"] = [_output_json(answer, output, shared) for output in outputs]
    found["operands"] = shared.operands
    found["maps"] = shared.maps
    return found


def _output_json(answer: Answer, output: OutputAnswer, shared: _Shared) -> dict[str, Any]:
    """Return the results for one output as JSON; operands are numbers in `shared`.

    Args:
        answer: The result of the query.
        output: The output.
        shared: Collects the distinct results for operands.
    """
    touched, untouched = output.touched, output.checked_untouched
    wrong = [o for o in untouched if o.check and o.check.is_refuted]
    found: dict[str, Any] = {
        "output": output.number,
        "shape": shared.shape(output.type),
        "operands": [shared.operand(o) for o in (*touched, *wrong)],
    }
    if answer.direction == "output_to_input":
        found["unread"] = len(output.operands) - len(touched)
    together = output.proved_together
    if untouched or together:
        proofs = Counter(json.dumps(o.check.to_json()) for o in untouched if o.check)
        if together is not None:
            proofs[json.dumps(together[0].to_json())] += together[1]
        found["proofs_of_nothing"] = [
            {"count": count, "proof": json.loads(text)} for text, count in proofs.items()
        ]
    return found


class _Shared:
    """Collects the distinct results for operands, and the distinct maps; each gets a number.

    Attributes:
        operands: The distinct results, as JSON.
        maps: The distinct maps, as JSON.
        shape: Function that returns the text of a type.
    """

    def __init__(self, most: int) -> None:
        """Collect nothing yet; `most` limits the tuple elements in the text of a type."""
        self.operands: list[dict[str, Any]] = []
        self.maps: list[dict[str, Any]] = []
        self.shape: Final[Callable[[Type], str]] = once_for_each(lambda t: brief_type(t, most))
        self._known: dict[int, tuple[OperandAnswer, int]] = {}
        self._numbers: dict[tuple[int, int, tuple[int, ...], str], int] = {}
        self._numbers_of_maps: dict[Access, int] = {}

    def operand(self, operand: OperandAnswer) -> int:
        """Return the number of an operand's result in `operands`; add it if it is new."""
        # Not `once_for_each(self._number)`: an object that refers to itself waits for the garbage
        # collector, and `index --all`, which makes one for each instruction, takes 25 % longer.
        known = self._known.get(id(operand))
        if known is None:
            known = self._known[id(operand)] = operand, self._number(operand)
        return known[1]

    def _number(self, operand: OperandAnswer) -> int:
        maps = tuple([self._map(access) for access in operand.accesses])
        check = operand.check.to_json() if operand.check else None
        key = operand.number, operand.leaf, maps, json.dumps(check) if check else ""
        number = self._numbers.setdefault(key, len(self.operands))
        if number == len(self.operands):
            self.operands.append(
                {
                    "operand": operand.number,
                    "name": operand.name,
                    "shape": self.shape(operand.type),
                    **({"leaf": operand.leaf} if operand.leaf else {}),
                    "maps": list(maps),
                    **({"proof": check} if check else {}),
                }
            )
        return number

    def _map(self, access: Access) -> int:
        """Return the number of an access in `maps`; add it if it is new."""
        number = self._numbers_of_maps.setdefault(access, len(self.maps))
        if number == len(self.maps):
            self.maps.append(access_json(access))
        return number


def access_json(access: Access, *, plain: bool = False) -> dict[str, Any]:
    """Return one access as JSON; keys without a value are omitted.

    `leaf` is the flat tuple index, omitted if it is 0. With `plain`, parts of the map have no
    names, as in XLA's texts.
    """
    m = access.map
    return {
        "map": None if m is None else m.text(plain=True) if plain else str(m),
        **({"in_sizes": said} if m is not None and (said := in_sizes(m)) else {}),
        "precision": str(access.precision),
        **({"reason": access.reason} if access.reason else {}),
        **({"runtime_variables": _runtime_json(m)} if m is not None and m.runtime else {}),
        **({} if access.replica is None else {"replica_id_map": str(access.replica)}),
        **({"collectives": [ins.name for ins in access.via]} if access.via else {}),
        **({"leaf": access.leaf} if access.leaf else {}),
    }


def _runtime_json(m: IndexingMap) -> list[dict[str, Any]]:
    """Return the runtime variables of a map as JSON: name, origin, and the map to its tensor."""
    names = list(m.names.values())[len(m.dims) + len(m.ranges) :]
    return [
        {
            "name": name,
            "origin": _origin(variable),
            "map": runtime_map(m, variable.index),
            **_device_json(m, variable),
        }
        for name, variable in zip(names, m.runtime, strict=True)
    ]


def _origin(variable: RuntimeVariable) -> str | None:
    if variable.collective is not None:
        return source_text(variable)
    return None if variable.origin is None else origin_text(variable.origin)


def _device_json(m: IndexingMap, variable: RuntimeVariable) -> dict[str, Any]:
    """Return, as JSON, the device from which a runtime variable is read.

    Empty if it is the own device. `m` is the map that has the variable.
    """
    if not variable.via:
        return {}
    return {
        "replica_id_map": runtime_map(m, variable.positions),
        "collectives": [ins.name for ins in variable.via],
    }
