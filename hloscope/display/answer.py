"""The answer of an indexing question, as the forms of this room take it: data, and its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, Literal, TypeAlias

from hloscope.display.parts import runtime_map
from hloscope.errors import UnsupportedError
from hloscope.fusion.origins import origin_text
from hloscope.hlo_parser.spelling import write_op
from hloscope.hlo_parser.types import print_type
from hloscope.indexing import Access, Accesses, IndexingMap
from hloscope.indexing.layout import placed_sizes
from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.types import Dims, TensorType, Type
from hloscope.proof import Check

SCHEMA: Final = "hloscope.index/1"
Direction: TypeAlias = Literal["output_to_input", "input_to_output"]
Order: TypeAlias = Literal["logical", "physical", "linear"]


@dataclass(frozen=True, slots=True)
class OperandAnswer:
    """What is touched of one operand; in the other direction, what an operand's element touches.

    Attributes:
        number: Which operand.
        name: What it is called.
        type: Its type.
        accesses: The maps, each with its precision.
        leaf: Asked from an operand: which of its tensors.
        check: The proof of the maps, if one was asked for.
    """

    number: int
    name: str
    type: Type
    accesses: Accesses
    leaf: int = 0
    check: Check | None = None

    def __iter__(self) -> Iterator[Access]:
        return iter(self.accesses)


@dataclass(frozen=True, slots=True)
class OutputAnswer:
    """One output of the instruction, with the operands asked about."""

    number: int
    type: Type
    operands: Sequence[OperandAnswer]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one instruction touches.

    Attributes:
        instruction: The instruction asked about.
        opcode: Its opcode as HLO spells it.
        direction: From output elements to operand elements, or the other way.
        outputs: One for each output asked about.
        order: What the indices are: logical indices; indices in memory order, slowest-varying
            dimension first; or positions in memory, counted in elements.
        what: The tensors touched are operands of the instruction, or parameters of its computation.
        computation: The instruction's computation, where they are its parameters.
    """

    instruction: Instruction
    opcode: str
    direction: Direction
    outputs: Sequence[OutputAnswer]
    order: Order = "logical"
    what: Literal["operand", "parameter"] = "operand"
    computation: Computation | None = None

    def sizes(self, type: Type) -> Dims:
        """What the dimension variables run over when an element of `type` is asked about.

        Empty where nobody knows.
        """
        if not isinstance(type, TensorType):
            return ()
        if self.order == "logical":
            return type.shape
        try:
            placed = placed_sizes(type)
        except UnsupportedError:
            return ()
        return placed if self.order == "physical" else (prod(placed),)


def shape_text(type: Type) -> str:
    """A type without layouts, `f32[8,128]`."""
    return print_type(type, layout=False)


def opcode_of(ins: Instruction) -> str:
    """The opcode as HLO spells it, `dynamic-slice`; StableHLO's name of an op HLO lacks.

    An op whose fields are no values of HLO's (they may be wrong) has StableHLO's name as well.
    """
    try:
        return write_op(ins)[0]
    except (UnsupportedError, ValueError):
        return ins.op.name


def to_json(answer: Answer, file: str) -> dict[str, Any]:
    """The answer as an object of schema `hloscope.index/1`."""
    return {
        "schema": SCHEMA,
        "file": file,
        "instruction": answer.instruction.name,
        "opcode": answer.opcode,
        "direction": answer.direction,
        "outputs": [
            {
                "output": output.number,
                "operands": [
                    {
                        "operand": operand.number,
                        "name": operand.name,
                        "shape": shape_text(operand.type),
                        "maps": [access_json(access) for access in operand.accesses],
                        **({"proof": operand.check.to_json()} if operand.check else {}),
                    }
                    for operand in output.operands
                ],
            }
            for output in answer.outputs
        ],
    }


def access_json(access: Access) -> dict[str, Any]:
    """One map of an answer; `leaf` is there for an array inside a tuple other than the first."""
    m = access.map
    return {
        "map": None if m is None else str(m),
        "precision": str(access.precision),
        "reason": access.reason or None,
        "runtime_variables": [] if m is None else _runtime_json(m),
        "replica_id_map": None if access.replica is None else str(access.replica),
        **({"leaf": access.leaf} if access.leaf else {}),
    }


def _runtime_json(m: IndexingMap) -> list[dict[str, Any]]:
    names = list(m.names.values())[len(m.dims) + len(m.ranges) :]
    return [
        {
            "name": name,
            "origin": None if variable.origin is None else origin_text(variable.origin),
            "map": runtime_map(m, variable),
        }
        for name, variable in zip(names, m.runtime, strict=True)
    ]
