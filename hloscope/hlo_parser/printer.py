"""Modules → HLO text as XLA prints it.

Everything read is printed: attributes an op does not know, headers and tables as they were
written.  Printing what was read from a print gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.hlo_parser.literals import literal_text
from hloscope.hlo_parser.spelling import CALL, template
from hloscope.hlo_parser.types import brief_list, brief_type, print_type
from hloscope.ir import Computation, Instruction, Module, Op, TensorType, Type
from hloscope.ops import Constant, Parameter, Scatter


class Style(Struct, frozen=True):
    """What is printed, and how; the defaults are XLA's long form.

    Attributes:
        percent: Names begin with `%`.
        signature: Computations show the types of parameters and result.
        operand_types: Operands show their types.
        layouts: Types of instructions show their layouts.
        metadata: Instructions show their metadata, the module its stack frame tables.
        backend_config: Instructions show the backend's data.
        control: Instructions show their control predecessors.
        operand_index: Every fifth operand shows its number.
        large_constants: Constants of more than ten elements are written out.
        most: Of longer tuple types and lists of operands the middle, of longer backend configs the
            rest is left out: it is to be looked at, not read back; 0 leaves out nothing.
        canonical: Instructions are named `tmp_0`, `tmp_1` …; called computations are printed where
            they are called, too.
    """

    percent: bool = True
    signature: bool = True
    operand_types: bool = False
    layouts: bool = True
    metadata: bool = True
    backend_config: bool = True
    control: bool = True
    operand_index: bool = True
    large_constants: bool = True
    most: int = 0
    canonical: bool = False


_SHORT: Final = Style(
    percent=False, signature=False, metadata=False, control=False, operand_index=False
)
STYLES: Final[dict[str, Style]] = {
    "default": Style(),
    "verbose": Style(operand_types=True),
    "short": _SHORT,
    "brief": replace(_SHORT, most=8),
    "canonical": replace(_SHORT, operand_types=True, backend_config=False, canonical=True),
}
"""The styles of XLA's printer by name, and `brief`, which is shorter than `short`."""

_CHARACTERS: Final = 8
"""Characters of a backend config for each of `Style.most`."""

_MOST_ELEMENTS: Final = 10
"""Constants with more elements count as large."""

_LAST: Final = ("statistics", "metadata", "backend_config")
"""Extras that follow the control predecessors."""


def print_hlo(module: Module, *, style: str | Style = "default", metadata: bool = True) -> str:
    """Return the HLO text of a module.

    Args:
        module: What to print.
        style: A `Style`, or the name of one of XLA's: `default`, `short` (no `%`, no signatures,
            no metadata), `canonical` (`short` with operand types, renumbered names and inlined
            bodies), `verbose` (`default` with operand types).
        metadata: Without it metadata and the tables it refers to are left out.

    Raises:
        UnsupportedError: An op cannot be written in HLO text.
        ValueError: No such style.
    """
    if isinstance(style, str):
        if style not in STYLES:
            raise ValueError(f"no style `{style}`; there are {', '.join(STYLES)}")
        style = STYLES[style]
    if not metadata:
        style = replace(style, metadata=False)
    return "".join(_Printer(module, style).chunks())


def print_instruction(ins: Instruction, *, style: str | Style = "default") -> str:
    """Return the line of one instruction, without indentation and `ROOT`."""
    style = STYLES[style] if isinstance(style, str) else style
    return _Printer(None, replace(style, canonical=False)).line(ins)


def instruction_printer(style: Style) -> Callable[[Instruction], str]:
    """Return what prints many instructions as `print_instruction` does one, and remembers types."""
    return _Printer(None, replace(style, canonical=False)).line


def rest_printer(style: Style) -> Callable[[Instruction], str]:
    """Return what prints of many instructions only what stands after the operands.

    Where there are none it begins after the opening parenthesis.
    """
    return _Printer(None, replace(style, canonical=False)).rest


def joined(parts: list[str]) -> str:
    """Return `a, b, c, d, e, /*index=5*/f`."""
    if len(parts) <= 5:
        return ", ".join(parts)
    marked = (f"/*index={i}*/{part}" if i and i % 5 == 0 else part for i, part in enumerate(parts))
    return ", ".join(marked)


class _Printer:
    """One print; remembers texts of shared types and ops by identity."""

    def __init__(self, module: Module | None, style: Style) -> None:
        self.module = module
        self.style = style
        self.sign = "%" if style.percent else ""
        self.types: dict[int, str] = {}
        self.names: dict[int, str] = {}
        """Canonical names by identity of the instruction."""
        self.attributes: dict[int, tuple[str, str]] = {}
        """Opcode and attributes by identity of an op without calls."""
        self.alive: list[Type | Op] = []
        """What the tables know by identity; nothing else may get its identity meanwhile."""

    def chunks(self) -> Iterator[str]:
        module, style = self.module, self.style
        assert module is not None
        header = [module.name, *(f"{name}={value}" for name, value in module.extras)]
        yield f"HloModule {', '.join(header)}\n\n"
        if module.preamble.strip() and style.metadata:
            yield f"{module.preamble.strip()}\n\n\n"
        for computation in module:
            if computation is module.entry:
                yield "ENTRY "
            yield f"{self.sign}{computation.name} "
            if style.signature:
                yield f"{self.signature(computation)} "
            yield from self.body(computation, "")
            yield "\n\n"

    def signature(self, computation: Computation) -> str:
        parameters = [
            f"{p.name}: {print_type(p.type, layout=False)}" for p in computation.parameters
        ]
        return f"({', '.join(parameters)}) -> {print_type(computation.root.type, layout=False)}"

    def body(self, computation: Computation, indent: str) -> Iterator[str]:
        """The instructions in braces, and the computation's attributes."""
        if self.style.canonical:
            self.names |= {id(ins): f"tmp_{i}" for i, ins in enumerate(computation)}
        root = computation.root
        yield "{\n"
        for ins in computation:
            yield f"{indent}  ROOT " if ins is root else f"{indent}  "
            yield self.line(ins, indent)
            yield "\n"
        yield f"{indent}}}"
        for name, value in computation.extras:
            yield f", {name}={value}"

    def line(self, ins: Instruction, indent: str = "") -> str:
        opcode, attributes = self.after(ins, indent)
        type_ = self.types.get(id(ins.type)) or self.type_text(ins.type)
        return f"{self.sign}{self.name(ins)} = {type_} {opcode}({self.inside(ins)}){attributes}"

    def rest(self, ins: Instruction) -> str:
        """What stands after the operands; where there are none, after the opening parenthesis."""
        _, attributes = self.after(ins, "")
        return attributes.removeprefix(", ") if ins.operands else f"{self.inside(ins)}){attributes}"

    def inside(self, ins: Instruction) -> str:
        """What stands in parentheses."""
        if ins.operands:
            return self.operands(ins.operands)
        if isinstance(ins.op, Constant):
            return self.literal(ins.op, ins.type)
        return str(ins.op.number) if isinstance(ins.op, Parameter) else ""

    def after(self, ins: Instruction, indent: str) -> tuple[str, str]:
        """The opcode, and what stands after the parentheses."""
        op = ins.op
        known = self.attributes.get(id(op))
        if known is not None and not ins.calls:
            opcode, attributes = known
        else:
            if (
                isinstance(op, Scatter)
                and not op.by_window
                and op.sticks_out(tuple([o.type for o in ins.operands]))
            ):
                raise UnsupportedError(
                    f"`{ins.name}`: HLO's `scatter` drops a window that is not wholly inside,"
                    " StableHLO's the elements outside"
                )
            opcode, texts = template(op, len(ins.calls))
            attributes = "".join(f", {text}" for text in texts)
            if ins.calls:
                attributes = self.filled(attributes, ins.calls, indent)
            else:
                self.attributes[id(op)] = opcode, attributes
                self.alive.append(op)
        if ins.extras or ins.control_predecessors:
            attributes += self.extras(ins)
        return opcode, attributes

    def name(self, ins: Instruction) -> str:
        return self.names.get(id(ins), ins.name) if self.style.canonical else ins.name

    def type_text(self, type_: Type) -> str:
        most = self.style.most
        text = self.types[id(type_)] = (
            brief_type(type_, most, layout=self.style.layouts)
            if most
            else print_type(type_, layout=self.style.layouts)
        )
        self.alive.append(type_)
        return text

    def operands(self, operands: tuple[Instruction, ...]) -> str:
        style, sign = self.style, self.sign
        if 0 < style.most < len(operands):
            return brief_list(operands, lambda o: sign + self.name(o), style.most)
        if style.operand_types:
            types = self.types
            parts = [
                f"{types.get(id(o.type)) or self.type_text(o.type)} {sign}{self.name(o)}"
                for o in operands
            ]
        else:
            parts = [sign + o.name for o in operands]
        return joined(parts) if style.operand_index else ", ".join(parts)

    def literal(self, op: Constant, type_: Type) -> str:
        if self.style.large_constants or not isinstance(type_, TensorType):
            return literal_text(op.literal, type_)
        return literal_text(op.literal, type_) if type_.num_elements <= _MOST_ELEMENTS else "{...}"

    def extras(self, ins: Instruction) -> str:
        style = self.style
        parts: list[str] = []
        last: list[str] = []
        for name, value in ins.extras:
            if name == "metadata" and not style.metadata:
                continue
            if name == "backend_config" and not style.backend_config:
                continue
            if name == "backend_config" and 0 < style.most * _CHARACTERS < len(value):
                kept = value[: style.most * _CHARACTERS]
                value = f"{kept}… ({len(value):,} characters)"
            (last if last or name in _LAST else parts).append(f", {name}={value}")
        if ins.control_predecessors and style.control:
            names = ", ".join(self.sign + self.name(p) for p in ins.control_predecessors)
            parts.append(f", control-predecessors={{{names}}}")
        return "".join(parts + last)

    def filled(self, attributes: str, calls: tuple[Computation, ...], indent: str) -> str:
        """Return attributes with the called computations in their places.

        Those of an unknown op name what they call as it was written.
        """
        if CALL not in attributes:
            return attributes
        if self.style.canonical:
            inner = indent + "  "
            texts = [f"\n{inner}" + "".join(self.body(call, inner)) for call in calls]
        else:
            texts = [self.sign + call.name for call in calls]
        first, *pieces = attributes.split(CALL)
        if len(pieces) > len(texts):
            raise VerifyError(f"{len(pieces)} computations are needed, {len(texts)} are called")
        return first + "".join(text + piece for text, piece in zip(texts, pieces, strict=False))
