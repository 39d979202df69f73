"""Printing of modules as HLO text, as XLA prints it.

Everything that was read is printed, including unknown attributes, headers and tables. Reading and
printing a printed text gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.hlo_parser.literals import literal_text
from hloscope.hlo_parser.spelling import CALL, template
from hloscope.hlo_parser.types import brief_list, brief_type, joined, print_type
from hloscope.ir import Computation, Instruction, Module, Op, TensorType, Type
from hloscope.ops import Constant, Parameter, Scatter


class Style(Struct, frozen=True):
    """Choice of the parts of printed text and of its form; the defaults are XLA's long form.

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
        most: Longer tuple types and operand lists are shortened in the middle, longer backend
            configs at the end. Such text cannot be read back. 0 shortens nothing.
        canonical: Instructions are named `tmp_0`, `tmp_1` …; called computations are printed inside
            their callers, too.
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
"""XLA's printing styles by name, and `brief`, which is shorter than `short`."""

_CHARACTERS: Final = 8
"""Maximum characters of a backend config, per unit of `Style.most`."""

_MOST_ELEMENTS: Final = 10
"""Maximum number of elements of a constant that counts as small and is always written out."""

_LAST: Final = ("statistics", "metadata", "backend_config")
"""Attributes that are printed after the control predecessors."""


def print_hlo(module: Module, *, style: str | Style = "default", metadata: bool = True) -> str:
    """Return the HLO text of a module.

    Args:
        module: The module to print.
        style: A `Style`, or the name of one of XLA's: `default`, `short` (no `%`, no signatures,
            no metadata), `canonical` (`short` with operand types, renumbered names and inlined
            bodies), `verbose` (`default` with operand types).
        metadata: If false, metadata and its tables are omitted.

    Raises:
        UnsupportedError: An op cannot be written in HLO text.
        ValueError: The style is unknown.
    """
    if isinstance(style, str):
        if style not in STYLES:
            raise ValueError(f"no style `{style}`; there are {', '.join(STYLES)}")
        style = STYLES[style]
    if not metadata:
        style = replace(style, metadata=False)
    return "".join(_Printer(module, style).chunks())


def print_instruction(ins: Instruction, *, style: str | Style = "default") -> str:
    """Return the text of one instruction, without indentation and `ROOT`.

    `style` is a `Style` or the name of one of XLA's, as for `print_hlo`.
    """
    style = STYLES[style] if isinstance(style, str) else style
    return _Printer(None, replace(style, canonical=False)).line(ins)


def instruction_printer(style: Style) -> Callable[[Instruction], str]:
    """Return a function that prints instructions in a style, as `print_instruction` does.

    The function caches the texts of types and ops.
    """
    return _Printer(None, replace(style, canonical=False)).line


def rest_printer(style: Style) -> Callable[[Instruction], str]:
    """Return a function that prints the attributes of an instruction, without the operands.

    `style` is the style of the text. For an instruction without operands, the text begins after the
    opening parenthesis, as `0), sharding={replicated}` of a parameter does.
    """
    return _Printer(None, replace(style, canonical=False)).rest


class _Printer:
    """Prints modules and instructions in one style.

    It caches the texts of types and ops by identity.
    """

    def __init__(self, module: Module | None, style: Style) -> None:
        self.module = module
        self.style = style
        self.sign = "%" if style.percent else ""
        self.types: dict[int, str] = {}
        self.names: dict[int, str] = {}
        """Canonical names, by the `id` of the instruction."""
        self.attributes: dict[int, tuple[str, str]] = {}
        """Opcode and text of the attributes, by the `id` of an op without called computations."""
        self.alive: list[Type | Op] = []
        """The objects whose `id` is a key above; they stay alive so that no `id` is reused."""

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
        """Yield pieces of the text of a body in braces, then of the computation's attributes.

        `indent` is the indentation of the closing brace.
        """
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
        """Return the text of an instruction after its operands.

        Without operands, it begins after the opening parenthesis.
        """
        _, attributes = self.after(ins, "")
        return attributes.removeprefix(", ") if ins.operands else f"{self.inside(ins)}){attributes}"

    def inside(self, ins: Instruction) -> str:
        """Return an instruction's text in parentheses: its operands, or a constant's value."""
        if ins.operands:
            return self.operands(ins.operands)
        if isinstance(ins.op, Constant):
            return self.literal(ins.op, ins.type)
        return str(ins.op.number) if isinstance(ins.op, Parameter) else ""

    def after(self, ins: Instruction, indent: str) -> tuple[str, str]:
        """Return the opcode of an instruction, and the text of the attributes after parentheses.

        `indent` is the indentation of the instruction, for called computations printed inside it.
        """
        op = ins.op
        known = self.attributes.get(id(op))
        if known is not None and not ins.calls:
            opcode, attributes = known
        else:
            if (
                isinstance(op, Scatter)
                and not op.by_window
                and op.may_exceed_bounds(tuple([o.type for o in ins.operands]))
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
        """Return the text of attributes with the called computations in place of the placeholders.

        The attributes of an unknown op already contain the names of its callees. `indent` is the
        indentation of the instruction, for computations printed inside it.
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
