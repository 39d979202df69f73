"""Modules read from bytecode, with the names and positions that their printed text has.

Printing a module and parsing its text takes longer than reading the bytecode. So names are set
without printing. The text is printed when a position is first used.
"""

from __future__ import annotations

from typing import Any, Final

from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Operation, SourceModule, equality_key
from hloscope.mlir.locations import UNKNOWN
from hloscope.mlir.text.functions import REREAD, WRITERS
from hloscope.mlir.text.numbering import mlir_names
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import Locations, print_mlir
from hloscope.support.system import shared_lock

_PLACING: Final = shared_lock()
_PLACE: Final = "source", "start", "end"
_KNOWN: Final = frozenset({"builtin", "func", "stablehlo", "chlo", "sdy"})
"""Dialects whose ops are the same in bytecode and in text."""


class PrintedText:
    """The text that printing a module from bytecode gives.

    It is made when a position is first used.
    """

    def __init__(self, module: Operation, dialects: Dialects, name: str) -> None:
        """Set the module, its dialects, and the name of the text in messages."""
        self._module: Final = module
        self._dialects: Final = dialects
        self._name: Final = name
        self._has_positions = False

    def set_positions(self) -> None:
        """Print the module, and set the positions of its ops to those in the printed text."""
        with _PLACING:  # other threads wait until all ops have positions
            if self._has_positions:
                return
            locations: Locations = "given" if has_locations(self._module) else False
            text = print_mlir(self._module, dialects=self._dialects, locations=locations)
            read = parse_mlir(text, self._name, dialects=self._dialects)
            # `name_as_printed` has made the module equal to its parsed text, so both have equal ops
            # in equal order.
            for own, other in zip(self._module.walk(), read.walk(), strict=True):
                own.source, own.start, own.end = other.source, other.start, other.end
                for mine, others in zip(own.blocks, other.blocks, strict=True):
                    for argument, written in zip(mine.arguments, others.arguments, strict=True):
                        argument.at = written.at
            self._has_positions = True


class BytecodeOperation(Operation):
    """An op from bytecode, whose position is that in the printed text of its module.

    Attributes:
        printed: The text that defines `source`, `start` and `end`; these are looked up on first
            use.
    """

    __slots__ = ("printed",)

    printed: PrintedText

    def __getattr__(self, name: str) -> Any:
        """Find `source`, `start` or `end` in the printed text on first use."""
        return _looked_up(self, name)


class BytecodeModule(SourceModule):
    """A module from bytecode, with the attribute `printed` of a `BytecodeOperation`."""

    __slots__ = ("printed",)

    printed: PrintedText

    def __getattr__(self, name: str) -> Any:
        """Find `source`, `start` or `end` in the printed text on first use."""
        return _looked_up(self, name)


def _looked_up(op: BytecodeOperation | BytecodeModule, name: str) -> Any:
    if name not in _PLACE:
        raise AttributeError(name, name=name, obj=op)
    op.printed.set_positions()
    return object.__getattribute__(op, name)


def has_locations(module: Operation) -> bool:
    """Does any op in a module have a location?"""
    return any(op.location != UNKNOWN for op in module.walk())


def name_as_printed(module: Operation, dialects: Dialects, name: str) -> bool:
    """Change a module from bytecode to equal the parse of its printed text, without printing.

    Args:
        module: The module. It is changed, so no other code may use it.
        dialects: The known dialects.
        name: Name of the text in messages.

    Returns:
        True if the module is equal now. False, and the module unchanged, if only parsing the text
            shows the result: it has ops of other dialects, regions of several blocks, resources, or
            values that no op defines.
    """
    ops = [*module.walk()]
    if not isinstance(module, BytecodeModule) or module.resources:
        return False
    if not all([_is_plain(op, dialects) for op in ops]):
        return False
    for value, text in mlir_names(module, dialects, generic=False).values.items():
        value.name = text[1:].partition("#")[0]
    printed = PrintedText(module, dialects, name)
    first: dict[object, Operation] = {}
    for op in ops:
        assert isinstance(op, BytecodeOperation | BytecodeModule)
        op.printed = printed
        # Python calls `__getattr__` for a missing attribute, which finds the position on first use.
        del op.source, op.start, op.end
        form = dialects.forms.get(op.name)
        reread = REREAD.get(op.name) if form is None else form.reread
        if reread is not None:
            reread(op)
        if not op.regions:
            op.shared_key = first.setdefault(equality_key(op), op)
    return True


def _is_plain(op: Operation, dialects: Dialects) -> bool:
    """Does reading the printed text of an op, apart from its regions, give an equal op?

    `dialects` are the dialects of the parser.
    """
    return (
        isinstance(op, BytecodeOperation | BytecodeModule)
        and op.name.partition(".")[0] in _KNOWN
        and (op.name in dialects.ops or op.name in WRITERS)
        and not op.successors
        and all([len(region.blocks) < 2 for region in op.regions])
        and all([value.owner is not None for value in op.operands])
    )
