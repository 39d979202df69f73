"""Selection of instructions by opcode, name, type and source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from hloscope.api.invalid import check_part
from hloscope.cost import Flops, Footprints
from hloscope.display import Provenance, SourcePattern, glob, opcode_of, provenance_of, shape_text
from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis, bytes_moved
from hloscope.ir import Computation, Instruction, Module
from hloscope.ops import Fusion
from hloscope.support.devices import DEFAULT, device_of
from hloscope.support.lazy import once_for_each

if TYPE_CHECKING:
    from hloscope.display import Key, Place

SORTS: Final = ("line", "bytes", "flops", "users")
"""Names of the orders in which instructions can be sorted."""


class Selection(Struct, frozen=True):
    """Conditions on instructions. In patterns `*` is any text and `?` any character.

    Attributes:
        opcode: Pattern of the opcode as HLO spells it.
        name: Pattern of the instruction's name.
        op_name: Pattern of the framework's path of the op; without `*`, a part of it.
        source: `FILE`, `FILE:LINE` or `FILE:FIRST-LAST`, in any frame of the stack.
        shape: Pattern of the type without layouts.
        calls: Pattern of the name of a called computation.
    """

    opcode: str | None = None
    name: str | None = None
    op_name: str | None = None
    source: str | None = None
    shape: str | None = None
    calls: str | None = None

    @property
    def is_empty(self) -> bool:
        """Is no condition set?"""
        return all(getattr(self, name) is None for name in self.__struct_fields__)

    def of(
        self, module: Module, computations: Iterable[Computation], *, fusions: bool = False
    ) -> Iterator[Place]:
        """Yield the instructions that satisfy all conditions, each with its computation.

        Args:
            module: The module of the computations.
            computations: The computations to search.
            fusions: Yield only fusions.
        """
        tests = list(self._tests(module))
        if fusions:
            tests.append(lambda ins: isinstance(ins.op, Fusion))
        for computation in computations:
            for ins in computation:
                if all(test(ins) for test in tests):
                    yield computation, ins

    def _tests(self, module: Module) -> Iterator[Callable[[Instruction], bool]]:
        if self.name is not None:
            name = glob(self.name.removeprefix("%")).fullmatch
            yield lambda ins: name(ins.name) is not None
        if self.opcode is not None:
            opcode = glob(self.opcode).fullmatch
            yield lambda ins: opcode(opcode_of(ins)) is not None
        if self.shape is not None:
            shape = glob(self.shape.replace(" ", "")).fullmatch
            yield lambda ins: shape(shape_text(ins.type).replace(" ", "")) is not None
        if self.calls is not None:
            called = glob(self.calls.removeprefix("%")).fullmatch
            yield lambda ins: any(called(computation.name) for computation in ins.calls)
        if self.op_name is not None:
            wanted = self.op_name if "*" in self.op_name else f"*{self.op_name}*"
            op_name = glob(wanted).fullmatch
            yield lambda ins: op_name(provenance_of(ins, module).op_name) is not None
        if self.source is not None:
            at = SourcePattern.parse(self.source)
            # Thousands of instructions share an origin, so each origin is matched once.
            is_from: Callable[[Provenance], bool] = once_for_each(
                lambda origin: any(map(at.matches, origin.trace))
            )
            yield lambda ins: is_from(provenance_of(ins, module))


def sort_key(by: str, module: Module) -> Key:
    """Return a function that computes an instruction's sort key; its first argument is ignored.

    Bytes, flops and users sort from large to small, lines upwards.

    Args:
        by: An order of `SORTS`.
        module: The module of the instructions.
    """
    match by:
        case "line":
            return lambda _, ins: ins.span.start if ins.span else 0
        case "bytes":
            bytes_of = _bytes_of(module)
            return lambda _, ins: -bytes_of(ins)
        case "flops":
            flops = Flops()
            return lambda _, ins: -flops.of(ins).flops
        case _:
            users = users_of(module)
            return lambda _, ins: -users[ins]


def _bytes_of(module: Module) -> Callable[[Instruction], int]:
    """Return a function from an instruction to the bytes that it moves at least.

    For an invalid instruction it returns the bytes of operands and value.
    """
    analysis = Analysis(has_regions=module.has_tree, refuse=lambda ins: check_part(module, [ins]))
    footprints = Footprints(analysis, device_of(DEFAULT))

    def moved(ins: Instruction) -> int:
        try:
            return footprints.of_equal(ins).bytes
        except HloscopeError:
            return bytes_moved(ins)

    return moved


def users_of(module: Module) -> Counter[Instruction]:
    """Return, for each value that is read, the number of instructions that read it."""
    every = (ins for computation in module for ins in computation)
    return Counter(operand for ins in every for operand in dict.fromkeys(ins.operands))
