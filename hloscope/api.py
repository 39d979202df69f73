"""What `import hloscope` gives: read a program, ask about its instructions.

>>> import hloscope
>>> program = hloscope.read('''
... ENTRY e {
...   p = f32[4,8] parameter(0)
...   t = f32[8,4] transpose(p), dimensions={1,0}
...   ROOT n = f32[8,4] negate(t)
... }''')
>>> program["t"].indexing()
t = f32[8,4] transpose(p)
<BLANKLINE>
Element (d0, d1) of the output, f32[8,4], reads
<BLANKLINE>
  operand 0  f32[4,8]  p
    (d0, d1) -> (d1, d0)   exact
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from hloscope.display.answer import (
    Answer,
    Direction,
    OperandAnswer,
    Order,
    OutputAnswer,
    shape_text,
    to_json,
)
from hloscope.display.html import html_fragment
from hloscope.display.html import to_html as _to_html
from hloscope.display.reads import to_svg as _to_svg
from hloscope.display.text import headline, to_print_indexing, to_text
from hloscope.errors import (
    InputError,
    ParseError,
    UnknownNameError,
    UnsupportedError,
    did_you_mean,
)
from hloscope.fusion.analysis import Analysis
from hloscope.fusion.physical import linear as _linear
from hloscope.fusion.physical import physical as _physical
from hloscope.fusion.region import Region, grouped
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.printer import print_hlo
from hloscope.hlo_parser.sniff import decode
from hloscope.hlo_parser.spelling import write_op
from hloscope.indexing import Access, Accesses, IndexingMap
from hloscope.ir.graph import Computation, Instruction, Module
from hloscope.ir.types import Type
from hloscope.ops.control import Fusion


@runtime_checkable
class TextFile(Protocol):
    """An open file."""

    def read(self) -> str | bytes:
        """Everything in it."""


@runtime_checkable
class Lowered(Protocol):
    """What `jax.jit(f).lower(...)` and its `.compile()` give."""

    def as_text(self) -> str | None:
        """The program as text."""


Readable: TypeAlias = str | bytes | os.PathLike[str] | TextFile | Lowered
"""What `read` accepts."""


def read(source: Readable, *, name: str | None = None, strict: bool = False) -> Program:
    """Read a program.

    Args:
        source: A path; HLO text as `str` or `bytes`; an open file; or the result of
            `jax.jit(f).lower(...)` or of `.compile()` after it.
        name: What error messages call the program; a path is its own name.
        strict: Read every part now.  By default parts are read when something asks for them, and
            errors in them show then.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        ParseError: The text is not HLO; the message points at the place.
        UnsupportedError: The text is in a language that is not read yet.

    >>> read("ENTRY e { ROOT p = f32[2] parameter(0) }").root
    <p = f32[2] parameter(0)>
    """
    text, found = _text_of(source)
    name = name or found
    if not text.strip():
        raise InputError(f"{name} is empty")
    if _MLIR.match(text):
        raise UnsupportedError(f"{name}: StableHLO text is not read yet")
    return Program(parse_hlo(text, name=name, strict=strict), file=name)


_MLIR: Final = re.compile(
    r"\s*(?://[^\n]*\n\s*)*"
    r'(?:"?builtin\.module\b|module\s*(?:@|\{|attributes\b)|func\.func\b|"?stablehlo\.|[#!]\w+ *= )'
)


def _text_of(source: Readable) -> tuple[str, str]:
    """The text and what to call it."""
    if isinstance(source, str):
        if _is_text(source):
            return source, "<string>"
        return _text_of_file(Path(source)), source
    if isinstance(source, bytes | bytearray | memoryview):
        return _decoded(bytes(source), "<bytes>"), "<bytes>"
    if isinstance(source, os.PathLike):
        return _text_of_file(Path(source)), os.fspath(source)
    if hasattr(source, "compiler_ir") or hasattr(source, "as_text"):
        return _text_of_jax(source), f"<{type(source).__name__}>"
    if isinstance(source, TextFile):
        name = str(getattr(source, "name", "<file>"))
        content = source.read()
        return (content if isinstance(content, str) else _decoded(content, name)), name
    raise TypeError(
        "expected a path, text, bytes, an open file or a jax Lowered or Compiled object, "
        f"not {type(source).__name__}"
    )


def _is_text(source: str) -> bool:
    """Is it a program, not a path?"""
    return not source.strip() or "\n" in source or "{" in source or "HloModule" in source


def _text_of_jax(source: Any) -> str:
    """HLO text of a jax object: what is lowered is asked for HLO, what is compiled has it."""
    text = source.as_text(dialect="hlo") if hasattr(source, "compile") else source.as_text()
    if not isinstance(text, str):
        raise InputError(f"{type(source).__name__}.as_text() gives no text")
    return text


def _text_of_file(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"no file `{path}`{_near_files(path)}") from None
    except IsADirectoryError:
        raise InputError(f"`{path}` is a directory{_files_in(path)}") from None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror or error}") from None


def _near_files(path: Path) -> str:
    if not path.parent.is_dir():
        return f": there is no directory `{path.parent}`"
    return did_you_mean(path.name, os.listdir(path.parent))


def _files_in(path: Path) -> str:
    names = sorted(n for n in os.listdir(path) if "hlo" in n.lower() or n.endswith(".txt"))
    return f" with {', '.join(names[:3])} … in it" if names else ""


def _decoded(data: bytes, name: str) -> str:
    if data.startswith(b"ML\xefR"):
        raise UnsupportedError(f"{name}: MLIR bytecode is not read yet")
    try:
        return decode(data, name)
    except ParseError as error:
        raise InputError(error.message, span=error.span) from None


class Program:
    """A program that was read, and everything that is found out about it.

    `program["fusion.12"]` is an instruction; `program["fused_computation/add.3"]` one inside a
    computation.  Iteration goes over all instructions, computation by computation.
    """

    def __init__(self, module: Module, *, file: str = "<string>") -> None:
        self.module: Final = module
        self.file: Final = file
        self.analysis: Final = Analysis()

    @property
    def name(self) -> str:
        """The module's name."""
        return self.module.name

    @property
    def entry(self) -> ComputationView:
        """The entry computation."""
        return ComputationView(self, self.module.entry)

    @property
    def root(self) -> InstructionView:
        """The root of the entry computation."""
        return InstructionView(self, self.module.entry.root)

    @property
    def computations(self) -> tuple[ComputationView, ...]:
        """All computations."""
        return tuple([ComputationView(self, c) for c in self.module])

    def fusions(self) -> Iterator[InstructionView]:
        """All fusions, those inside other computations included."""
        return (ins for ins in self if isinstance(ins.ir.op, Fusion))

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self, ins) for computation in self.module for ins in computation)

    def __getitem__(self, name: str) -> InstructionView:
        return InstructionView(self, find(self.module, name)[1])

    def __contains__(self, name: str) -> bool:
        try:
            find(self.module, name)
        except UnknownNameError:
            return False
        return True

    def text(self, *, metadata: bool = True) -> str:
        """The program as HLO text."""
        return print_hlo(self.module, metadata=metadata)

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.module.computations)} computations, {self.file}>"


def find(module: Module, name: str) -> tuple[Computation, Instruction]:
    """The instruction `name`, or `computation/name`, with or without `%`, and where it is.

    The entry computation comes first, then all others.

    Raises:
        UnknownNameError: There is none, or several outside the entry computation.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if slash:
        if where not in module.computations:
            near = did_you_mean(where, module.computations)
            raise UnknownNameError(f"no computation `{where}`{near}")
        computation = module.computations[where]
        if plain not in computation.body.by_name:
            near = did_you_mean(plain, computation.body.by_name)
            raise UnknownNameError(f"no instruction `{plain}` in `{where}`{near}")
        return computation, computation[plain]
    if plain in module.entry.body.by_name:
        return module.entry, module.entry[plain]
    places = [c for c in module if plain in c.body.by_name]
    if not places:
        near = did_you_mean(plain, (i.name for c in [module.entry, *module] for i in c))
        raise UnknownNameError(f"no instruction `{plain}` in {module.name}{near}")
    if len(places) > 1:
        names = ", ".join(f"`{c.name}/{plain}`" for c in places[:3])
        raise UnknownNameError(f"{len(places)} computations have a `{plain}`: say {names} …")
    return places[0], places[0][plain]


class ComputationView:
    """A computation of a program."""

    def __init__(self, program: Program, ir: Computation) -> None:
        self.program: Final = program
        self.ir: Final = ir

    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def root(self) -> InstructionView:
        """The instruction whose value is returned."""
        return InstructionView(self.program, self.ir.root)

    @property
    def parameters(self) -> tuple[InstructionView, ...]:
        """Parameters by number."""
        return tuple([InstructionView(self.program, p) for p in self.ir.parameters])

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self.program, ins) for ins in self.ir)

    def __len__(self) -> int:
        return len(self.ir)

    def __getitem__(self, name: str) -> InstructionView:
        plain = name.removeprefix("%")
        if plain not in self.ir.body.by_name:
            near = did_you_mean(plain, self.ir.body.by_name)
            raise UnknownNameError(f"no instruction `{plain}` in `{self.name}`{near}")
        return InstructionView(self.program, self.ir[plain])

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self)} instructions>"


class InstructionView:
    """An instruction of a program: ask it what it touches."""

    def __init__(self, program: Program, ir: Instruction) -> None:
        self.program: Final = program
        self.ir: Final = ir

    @property
    def name(self) -> str:
        return self.ir.name

    @cached_property
    def opcode(self) -> str:
        """The opcode as HLO spells it."""
        return write_op(self.ir)[0]

    @property
    def shape(self) -> str:
        """The type without layouts, `f32[8,128]`."""
        return shape_text(self.ir.type)

    @property
    def outputs(self) -> tuple[Type, ...]:
        """Types of the outputs: of a tuple, its tensors in order."""
        return self.program.analysis.leaves(self.ir.type)

    @property
    def operands(self) -> tuple[InstructionView, ...]:
        """The values read."""
        return tuple([InstructionView(self.program, o) for o in self.ir.operands])

    @property
    def calls(self) -> tuple[ComputationView, ...]:
        """The computations called."""
        return tuple([ComputationView(self.program, c) for c in self.ir.calls])

    def indexing(
        self,
        output: int | None = 0,
        operand: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
    ) -> Indexing:
        """What an element of an output reads of the operands.

        Args:
            output: Number of the output, or `None` for all.
            operand: Number of an operand; all if not given.
            physical: Indices in memory order, slowest-varying dimension first.
            linear: Positions in memory, counted in elements.

        Raises:
            UnknownNameError: There is no such output or operand.
        """
        numbers = self._outputs(output)
        chosen = self._operands(operand)
        unread = [OperandAnswer(j, o.name, o.type, ()) for j, o in enumerate(self.ir.operands)]
        answers = []
        for k in numbers:
            here = self.outputs[k]
            found: dict[int, dict[int, Accesses]] = {}
            for (j, leaf), some in self.program.analysis.output_to_input(self.ir, k).items():
                if isinstance(j, int):
                    found.setdefault(j, {})[leaf] = some
            operands = [
                self._touched(j, self.ir.operands[j], here, found[j], physical, linear)
                if j in found
                else unread[j]
                for j in chosen
            ]
            answers.append(OutputAnswer(k, here, operands))
        return self._answer("output_to_input", answers, _order(physical, linear))

    def indexing_from(
        self,
        operand: int = 0,
        output: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
        leaf: int = 0,
    ) -> Indexing:
        """Which elements of the outputs an element of an operand influences.

        Args:
            operand: Number of the operand.
            output: Number of an output; all if not given.
            physical: Indices in memory order, slowest-varying dimension first.
            linear: Positions in memory, counted in elements.
            leaf: Which tensor of an operand that is a tuple.

        Raises:
            UnknownNameError: There is no such output or operand.
        """
        self._operands(operand)
        source = self.ir.operands[operand]
        leaves = self.program.analysis.leaves(source.type)
        if leaf not in range(len(leaves)):
            raise UnknownNameError(f"operand {operand} of `{self.name}` has {len(leaves)} leaves")
        found = self.program.analysis.input_to_output(self.ir, operand, leaf)
        answers = []
        for k in self._outputs(output):
            mine = _placed(found.get(k, ()), leaves[leaf], self.outputs[k], physical, linear)
            asked = OperandAnswer(operand, source.name, source.type, mine)
            answers.append(OutputAnswer(k, self.outputs[k], [asked]))
        return self._answer("input_to_output", answers, _order(physical, linear))

    def to_parameters(
        self,
        output: int | None = 0,
        parameter: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
    ) -> Indexing:
        """What an element reads of the parameters of its computation, through all in between.

        Args:
            output: Number of the output, or `None` for all.
            parameter: Number of a parameter; all if not given.
            physical: Indices in memory order, slowest-varying dimension first.
            linear: Positions in memory, counted in elements.

        Raises:
            UnknownNameError: There is no such output or parameter.
        """
        computation = self._computation
        parameters = computation.parameters
        if parameter is not None and not 0 <= parameter < len(parameters):
            said = _no_such("parameter", parameter, computation.name, len(parameters))
            raise UnknownNameError(said)
        region = Region.of_computation(computation)
        answers = []
        for k in self._outputs(output):
            found = grouped(self.program.analysis, region, self.ir, k, opened=False)
            operands = [
                self._touched(j, p, self.outputs[k], found.get(p, {}), physical, linear)
                for j, p in enumerate(parameters)
                if parameter in (None, j)
            ]
            answers.append(OutputAnswer(k, self.outputs[k], operands))
        order = _order(physical, linear)
        answer = Answer(self.ir, self.opcode, "output_to_input", answers, order, "parameter")
        return Indexing(answer, self.program.file)

    def grouped(self, output: int = 0) -> dict[InstructionView, Accesses]:
        """What an element reads of every value inside the fusion, and of its operands.

        >>> text = "f { a = f32[4] parameter(0) b = f32[4] reverse(a), dimensions={0} "
        >>> text += "ROOT c = f32[4] add(a, b) } ENTRY e { p = f32[4] parameter(0) "
        >>> text += "ROOT r = f32[4] fusion(p), kind=kLoop, calls=f }"
        >>> for value, accesses in read(text).root.grouped().items():
        ...     print(value.name, [str(access.map).split(",")[0] for access in accesses])
        r ['(d0) -> (d0)']
        p ['(d0) -> (d0)', '(d0) -> (-d0 + 3)']
        c ['(d0) -> (d0)']
        a ['(d0) -> (d0)', '(d0) -> (-d0 + 3)']
        b ['(d0) -> (d0)']
        """
        self._outputs(output)
        region = Region.of_instruction(self.ir)
        return {
            InstructionView(self.program, ins): tuple(
                replace(access, leaf=leaf) if leaf else access
                for leaf, accesses in leaves.items()
                for access in accesses
            )
            for ins, leaves in grouped(self.program.analysis, region, None, output).items()
        }

    @cached_property
    def _computation(self) -> Computation:
        return next(c for c in self.program.module if c.body.by_name.get(self.name) is self.ir)

    def _touched(
        self,
        number: int,
        source: Instruction,
        here: Type,
        found: Mapping[int, Accesses],
        physical: bool,
        linear: bool,
    ) -> OperandAnswer:
        """What is touched of the leaves of one value."""
        accesses: list[Access] = []
        for leaf, there in enumerate(self.program.analysis.leaves(source.type)):
            mine = _placed(found.get(leaf, ()), here, there, physical, linear)
            accesses += [replace(a, leaf=leaf) if leaf else a for a in mine]
        return OperandAnswer(number, source.name, source.type, tuple(accesses))

    def _answer(self, direction: Direction, outputs: list[OutputAnswer], order: Order) -> Indexing:
        answer = Answer(self.ir, self.opcode, direction, outputs, order)
        return Indexing(answer, self.program.file)

    def _outputs(self, number: int | None) -> range:
        count = len(self.outputs)
        if number is None:
            return range(count)
        if not 0 <= number < count:
            raise UnknownNameError(_no_such("output", number, self.name, count))
        return range(number, number + 1)

    def _operands(self, number: int | None) -> range:
        count = len(self.ir.operands)
        if number is None:
            return range(count)
        if not 0 <= number < count:
            raise UnknownNameError(_no_such("operand", number, self.name, count))
        return range(number, number + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstructionView) and other.ir is self.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __repr__(self) -> str:
        return f"<{headline(self.ir, self.opcode)}>"


def _order(physical: bool, linear: bool) -> Order:
    return "linear" if linear else "physical" if physical else "logical"


def _no_such(what: str, number: int, name: str, count: int) -> str:
    known = "none" if not count else "only 0" if count == 1 else f"0 to {count - 1}"
    return f"`{name}` has no {what} {number}; it has {known}"


def _placed(accesses: Accesses, here: Type, there: Type, physical: bool, linear: bool) -> Accesses:
    if linear:
        return _linear(accesses, here, there)
    return _physical(accesses, here, there) if physical else accesses


class Indexing:
    """The answer to an indexing question; prints itself, also in notebooks.

    `len`, iteration and `indexing[k]` go over the operands of the first output asked about (or, for
    `indexing_from`, over the outputs).
    """

    def __init__(self, answer: Answer, file: str = "<string>") -> None:
        self.answer: Final = answer
        self._file = file

    @property
    def operands(self) -> tuple[OperandAnswer, ...]:
        """What is touched of each operand; asked from an operand: of each output."""
        outputs = self.answer.outputs
        if self.answer.direction == "output_to_input":
            return tuple(outputs[0].operands) if outputs else ()
        return tuple([operand for output in outputs for operand in output.operands])

    def __len__(self) -> int:
        return len(self.operands)

    def __iter__(self) -> Iterator[OperandAnswer]:
        return iter(self.operands)

    def __getitem__(self, number: int) -> OperandAnswer:
        return self.operands[number]

    @property
    def maps(self) -> tuple[tuple[IndexingMap, ...], ...]:
        """The maps of each operand, without accesses nothing is known about."""
        return tuple(
            [tuple([a.map for a in o.accesses if a.map is not None]) for o in self.operands]
        )

    @property
    def map(self) -> IndexingMap:
        """The map, where there is just one.

        Raises:
            ValueError: There are several maps, or none.
        """
        maps = [map for some in self.maps for map in some]
        if len(maps) != 1:
            raise ValueError(f"there are {len(maps)} maps; choose an operand, or use `maps`")
        return maps[0]

    def to_json(self) -> dict[str, Any]:
        """The answer as an object of schema `hloscope.index/1`."""
        return to_json(self.answer, self._file)

    def to_print_indexing(self) -> str:
        """The answer as XLA's tool `print_indexing` prints it."""
        return to_print_indexing(self.answer)

    def to_svg(self, at: Sequence[int] | None = None) -> str:
        """A picture of what one element touches: `at`, or the one in the middle.

        Raises:
            ValueError: The tensor has no such element.
        """
        return _to_svg(self.answer, None if at is None else tuple(at))

    def to_html(self, at: Sequence[int] | None = None) -> str:
        """A page with the picture and a table of the maps; needs nothing from elsewhere.

        Raises:
            ValueError: The tensor has no such element.
        """
        return _to_html(self.answer, None if at is None else tuple(at))

    def __str__(self) -> str:
        return to_text(self.answer)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_fragment(self.answer)
