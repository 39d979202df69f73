"""A program that was read, its computations and instructions: ask them what they touch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from hloscope.api.explaining import of_right_programs
from hloscope.api.indexing import Indexing
from hloscope.api.selecting import Selection
from hloscope.display import (
    Answer,
    Direction,
    OperandAnswer,
    OperandAnswers,
    Order,
    OutputAnswer,
    glob,
    headline,
    metadata_of,
    opcode_of,
    provenance_of,
    shape_text,
)
from hloscope.errors import UnknownNameError, UnsupportedError, did_you_mean
from hloscope.fusion import Analysis, Convention, ParameterReads, Region, grouped, linear as _linear
from hloscope.fusion.physical import physical as _physical
from hloscope.hlo_parser import Frame, Metadata, print_hlo
from hloscope.indexing import Access, Accesses
from hloscope.ir import Computation, Instruction, Module, Type
from hloscope.lazy import lazy
from hloscope.limits import MAX_BYTES
from hloscope.ops import Fusion

if TYPE_CHECKING:
    import hloscope.interpreter as interpreter
    import hloscope.passes.constant_folding as constant_folding
    from hloscope.stablehlo import printing
else:
    interpreter = lazy("hloscope.interpreter")
    constant_folding = lazy("hloscope.passes.constant_folding")
    printing = lazy("hloscope.stablehlo.printing")


class Program:
    """A program that was read, and everything that is found out about it.

    `program["fusion.12"]` is an instruction; `program["fused_computation/add.3"]` one inside a
    computation.  Iteration goes over all instructions, computation by computation.
    """

    def __init__(
        self,
        module: Module,
        *,
        file: str = "<string>",
        convention: Convention = "structural",
    ) -> None:
        self.module: Final = module
        self.file: Final = file
        self.lock: Final = RLock()
        """Held while something is asked of `analysis`, which remembers what it finds."""
        self.analysis: Final = Analysis(has_regions=module.has_tree, convention=convention)
        self._parameter_reads: dict[Computation, ParameterReads] = {}

    @property
    def name(self) -> str:
        """The module's name."""
        return self.module.name

    @property
    def asked_module(self) -> Module:
        """The module that questions are about."""
        return self.module

    @property
    def while_asked(self) -> AbstractContextManager[Any]:
        """Nothing that is asked of the whole program is remembered."""
        return nullcontext()

    @property
    def entry(self) -> ComputationView:
        """The entry computation."""
        return ComputationView(self, self.module.entry)

    @property
    def root(self) -> InstructionView:
        """The root of the entry computation."""
        return InstructionView(self, self.module.entry.root, self.module.entry)

    @property
    def computations(self) -> tuple[ComputationView, ...]:
        """All computations."""
        return tuple([ComputationView(self, c) for c in self.module])

    def parameter_reads(self, computation: Computation) -> ParameterReads:
        """What the values of a computation read of its parameters; all share what is found out."""
        known = self._parameter_reads.get(computation)
        if known is None:
            known = ParameterReads(self.analysis, computation)
            self._parameter_reads = {computation: known}  # that of another one has served
        return known

    def fusions(self) -> Iterator[InstructionView]:
        """All fusions, those inside other computations included."""
        return (ins for ins in self if isinstance(ins.ir.op, Fusion))

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self, ins, c) for c in self.module for ins in c)

    def __getitem__(self, name: str) -> InstructionView:
        computation, ins = find(self.module, name)
        return InstructionView(self, ins, computation)

    def like(self, name: str) -> list[InstructionView]:
        """The instruction of that name, or every one like it: `*` is any text, `?` any character.

        Raises:
            UnknownNameError: There is none.
        """
        return [InstructionView(self, ins, c) for c, ins in find_all(self.module, name)]

    def __contains__(self, name: str) -> bool:
        try:
            find(self.module, name)
        except UnknownNameError:
            return False
        return True

    def select(
        self,
        *,
        opcode: str | None = None,
        name: str | None = None,
        op_name: str | None = None,
        source: str | None = None,
        shape: str | None = None,
        calls: str | None = None,
    ) -> list[InstructionView]:
        """The instructions that have all that is asked for, in all computations.

        Patterns have `*` for any text and `?` for any character.

        Args:
            opcode: The opcode as HLO spells it.
            name: The instruction's name.
            op_name: The framework's path of the op, or a part of it if there is no `*`.
            source: `train.py`, `train.py:120` or `train.py:100-120`, anywhere in the stack.
            shape: The type without layouts.
            calls: The name of a computation that is called.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> program.select(shape="f32[*,4]")
        [<t = f32[8,4] transpose(p)>]
        """
        wanted = Selection(opcode, name, op_name, source, shape, calls)
        found = wanted.of(self.module, self.module)
        return [InstructionView(self, ins, computation) for computation, ins in found]

    def text(self, *, metadata: bool = True) -> str:
        """The program as text in its own language; `metadata` is HLO's."""
        if self.module.has_tree:
            return printing.print_stablehlo(self.module)
        return print_hlo(self.module, metadata=metadata)

    @of_right_programs
    def evaluate(
        self,
        *arguments: Any,
        entry: str | None = None,
        max_steps: int | None = None,
        max_bytes: int = MAX_BYTES,
        custom_calls: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Any:
        """What the program returns for these arguments: `hloscope.evaluate` of it."""
        return interpreter.call(
            self.module,
            arguments,
            entry=entry,
            max_steps=max_steps,
            max_bytes=max_bytes,
            custom_calls=custom_calls,
        )

    def by_convention(self, convention: Convention) -> Program:
        """The same program, of which the outputs of reductions read what a convention says.

        Args:
            convention: `structural`: what the structure of the body lets reach the output, as all
                answers do unless told otherwise; `xla`: all inputs and initial values, as in XLA.

        >>> import hloscope
        >>> text = "second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) } ENTRY e { "
        >>> text += "p = f32[8] parameter(0) q = f32[8] parameter(1) "
        >>> text += "ROOT m = f32[8] map(p, q), dimensions={0}, to_apply=second }"
        >>> program = hloscope.read(text)
        >>> for convention in ("structural", "xla"):
        ...     [len(maps) for maps in program.by_convention(convention).root.indexing().maps]
        [0, 1]
        [1, 1]
        """
        if convention == self.analysis.convention:
            return self
        return Program(self.module, file=self.file, convention=convention)

    @of_right_programs
    def fold(self) -> Program:
        """The program with everything that does not depend on its arguments computed."""
        return Program(constant_folding.fold(self.module), file=self.file)

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


def find_all(module: Module, name: str) -> list[tuple[Computation, Instruction]]:
    """The instruction of that name; or all, if `*` and `?` in it stand for any text or character.

    A pattern without computation goes for all computations.

    Raises:
        UnknownNameError: There is none.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if not re.search(r"[*?]", name):
        return [find(module, name)]
    place, pattern = glob(where if slash else "*"), glob(plain)
    found = [
        (computation, ins)
        for computation in module
        if place.fullmatch(computation.name)
        for ins in computation
        if pattern.fullmatch(ins.name)
    ]
    if not found:
        raise UnknownNameError(f"no instruction is like `{name}` in {module.name}")
    return found


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
        return InstructionView(self.program, self.ir.root, self.ir)

    @property
    def parameters(self) -> tuple[InstructionView, ...]:
        """Parameters by number."""
        return tuple([InstructionView(self.program, p, self.ir) for p in self.ir.parameters])

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self.program, ins, self.ir) for ins in self.ir)

    def __len__(self) -> int:
        return len(self.ir)

    def __getitem__(self, name: str) -> InstructionView:
        plain = name.removeprefix("%")
        if plain not in self.ir.body.by_name:
            near = did_you_mean(plain, self.ir.body.by_name)
            raise UnknownNameError(f"no instruction `{plain}` in `{self.name}`{near}")
        return InstructionView(self.program, self.ir[plain], self.ir)

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self)} instructions>"


class InstructionView:
    """An instruction of a program: ask it what it touches."""

    def __init__(
        self, program: Program, ir: Instruction, computation: Computation | None = None
    ) -> None:
        self.program: Final = program
        self.ir: Final = ir
        self._known_computation = computation

    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def asked_module(self) -> Module:
        """The module that questions are about."""
        return self.program.module

    @property
    def while_asked(self) -> AbstractContextManager[Any]:
        """The lock of what questions remember."""
        return self.program.lock

    @property
    def metadata(self) -> Metadata:
        """The framework's name of the op, and the place in its source, as far as they are known.

        >>> import hloscope
        >>> program = hloscope.read('ENTRY e { ROOT p = f32[] parameter(0), '
        ...                         'metadata={op_name="x" source_file="train.py" source_line=7} }')
        >>> program.root.metadata.op_name, str(program.root.source)
        ('x', 'train.py:7')
        """
        return metadata_of(self.ir, self.program.module)

    @property
    def source(self) -> Frame | None:
        """The place in the program's source, `train.py:120` as text; `None` if it is not known."""
        return provenance_of(self.ir, self.program.module).source

    @property
    def trace(self) -> tuple[Frame, ...]:
        """The places in the program's source that led to it, the innermost first."""
        return provenance_of(self.ir, self.program.module).trace

    def same_source(self) -> list[InstructionView]:
        """All instructions that came from the same line; none if no line is known."""
        at = self.source
        return [] if at is None else self.program.select(source=str(at))

    @cached_property
    def opcode(self) -> str:
        """The opcode as HLO spells it; StableHLO's name of an op that HLO lacks."""
        return opcode_of(self.ir)

    @property
    def shape(self) -> str:
        """The type without layouts, `f32[8,128]`."""
        return shape_text(self.ir.type)

    @property
    def outputs(self) -> tuple[Type, ...]:
        """Types of the outputs: of a tuple, its tensors in order."""
        return self.program.analysis.tensors(self.ir.type)

    @property
    def operands(self) -> tuple[InstructionView, ...]:
        """The values read."""
        return tuple([InstructionView(self.program, o) for o in self.ir.operands])

    @property
    def calls(self) -> tuple[ComputationView, ...]:
        """The computations called."""
        return tuple([ComputationView(self.program, c) for c in self.ir.calls])

    @of_right_programs
    def indexing(
        self,
        output: int | None = 0,
        operand: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
    ) -> Indexing:
        """What an element of an output reads of the operands.

        Values that StableHLO's regions read without being handed them come after the operands.

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
        read = self._read
        answers = []
        for k in numbers:
            here = self.outputs[k]
            found: dict[int, dict[int, Accesses]] = {}
            for (j, leaf), some in self.program.analysis.output_to_input(self.ir, k).items():
                number = j if isinstance(j, int) else read.index(j, len(self.ir.operands))
                found.setdefault(number, {})[leaf] = some
            touched = {
                j: self._touched(j, read[j], here, leaves, physical, linear)
                for j, leaves in found.items()
                if j in chosen
            }
            answers.append(OutputAnswer(k, here, OperandAnswers(read, chosen, touched)))
        return self._answer("output_to_input", answers, _order(physical, linear))

    @of_right_programs
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
        source = self._read[operand]
        leaves = self.program.analysis.tensors(source.type)
        if leaf not in range(len(leaves)):
            raise UnknownNameError(f"operand {operand} of `{self.name}` has {len(leaves)} leaves")
        asked_from = operand if operand < len(self.ir.operands) else source
        found = self.program.analysis.input_to_output(self.ir, asked_from, leaf)
        answers = []
        for k in self._outputs(output):
            mine = _placed(found.get(k, ()), leaves[leaf], self.outputs[k], physical, linear)
            asked = OperandAnswer(operand, source.name, source.type, mine, leaf)
            answers.append(OutputAnswer(k, self.outputs[k], [asked]))
        return self._answer("input_to_output", answers, _order(physical, linear))

    @of_right_programs
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
        chosen = range(len(parameters)) if parameter is None else range(parameter, parameter + 1)
        reads = self.program.parameter_reads(computation)
        answers = []
        for k in self._outputs(output):
            found: dict[Instruction, dict[int, Accesses]] = {}
            for (value, leaf), some in reads.of(self.ir, k).items():
                found.setdefault(value, {})[leaf] = some
            here = self.outputs[k]
            touched = {
                j: self._touched(j, p, here, found[p], physical, linear)
                for j in chosen
                if (p := parameters[j]) in found
            }
            answers.append(OutputAnswer(k, here, OperandAnswers(parameters, chosen, touched)))
        order = _order(physical, linear)
        answer = Answer(
            self.ir,
            self.opcode,
            "output_to_input",
            answers,
            order,
            "parameter",
            computation,
            computation,
            provenance_of(self.ir, self.program.module),
            self.program.analysis.convention,
        )
        return Indexing(answer, self.program.file, self.program.module)

    @of_right_programs
    def grouped(self, output: int = 0) -> dict[InstructionView, Accesses]:
        """What an element reads of every value inside the fusion, and of its operands.

        >>> import hloscope
        >>> text = "f { a = f32[4] parameter(0) b = f32[4] reverse(a), dimensions={0} "
        >>> text += "ROOT c = f32[4] add(a, b) } ENTRY e { p = f32[4] parameter(0) "
        >>> text += "ROOT r = f32[4] fusion(p), kind=kLoop, calls=f }"
        >>> for value, accesses in hloscope.read(text).root.grouped().items():
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
        known = self._known_computation
        return known or next(
            c for c in self.program.module if c.body.by_name.get(self.name) is self.ir
        )

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
        types = self.program.analysis.tensors(source.type)
        for leaf, some in sorted(found.items()):
            mine = _placed(some, here, types[leaf], physical, linear)
            accesses += [replace(a, leaf=leaf) if leaf else a for a in mine]
        return OperandAnswer(number, source.name, source.type, tuple(accesses))

    def _answer(self, direction: Direction, outputs: list[OutputAnswer], order: Order) -> Indexing:
        answer = Answer(
            self.ir,
            self.opcode,
            direction,
            outputs,
            order,
            inside=self._known_computation,
            origin=provenance_of(self.ir, self.program.module),
            convention=self.program.analysis.convention,
        )
        return Indexing(answer, self.program.file, self.program.module)

    def _outputs(self, number: int | None) -> range:
        count = len(self.outputs)
        if number is None:
            return range(count)
        if not 0 <= number < count:
            raise UnknownNameError(_no_such("output", number, self.name, count))
        return range(number, number + 1)

    @cached_property
    def _read(self) -> tuple[Instruction, ...]:
        """The operands, then the values that regions read without being handed them."""
        return (*self.ir.operands, *self.program.analysis.captured(self.ir))

    def _operands(self, number: int | None) -> range:
        count = len(self._read)
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
    try:
        if linear:
            return _linear(accesses, here, there)
        return _physical(accesses, here, there) if physical else accesses
    except UnsupportedError as error:  # nobody knows where an array of no bounds lies
        return (Access.unknown(error.message),)
