"""Views of a program's computations and instructions, with their queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec.structs import replace

from hloscope import fusion
from hloscope.api.finding import instruction_of
from hloscope.api.indexing import Indexing
from hloscope.api.invalid import explains_invalid_program
from hloscope.display import (
    Answer,
    Direction,
    OperandAnswer,
    OperandAnswers,
    Order,
    OutputAnswer,
    Shown,
    TensorAnswers,
    headline,
    metadata_of,
    opcode_of,
    provenance_of,
    shape_text,
)
from hloscope.errors import UnknownNameError, UnsupportedError
from hloscope.hlo_parser import Frame, Metadata
from hloscope.indexing import Access, Accesses, IndexingMap
from hloscope.ir import Computation, Instruction, Module, Type
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.api.memory as memory
    import hloscope.api.savings as cancelling
    import hloscope.api.tiling as tiling
    import hloscope.api.unknown_sizes as sizes
    from hloscope.api.program import Program
    from hloscope.api.tiling import Tiles
    from hloscope.memory import ThreadLayout
    from hloscope.tiling import ScheduleName
else:
    memory = lazy("hloscope.api.memory")
    sizes = lazy("hloscope.api.unknown_sizes")
    cancelling = lazy("hloscope.api.savings")
    tiling = lazy("hloscope.api.tiling")


# --------------------------------------------------------------------------------------------------
# Views of a program's computations and instructions, with their queries.


class ComputationView(Shown):
    """A computation of a program."""

    def __init__(self, program: Program, ir: Computation) -> None:
        self.program: Final = program
        self.ir: Final = ir

    @property
    def name(self) -> str:
        return self.ir.name

    @property
    def root(self) -> InstructionView:
        """Return the instruction whose value the computation returns."""
        return InstructionView(self.program, self.ir.root, self.ir)

    @property
    def parameters(self) -> tuple[InstructionView, ...]:
        """Return the parameters, by number."""
        return tuple([InstructionView(self.program, p, self.ir) for p in self.ir.parameters])

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self.program, ins, self.ir) for ins in self.ir)

    def __len__(self) -> int:
        return len(self.ir)

    def __getitem__(self, name: str) -> InstructionView:
        return InstructionView(self.program, instruction_of(self.ir, name), self.ir)

    def __repr__(self) -> str:
        return visible(f"<computation {self.name}: {len(self)} instructions>")


class InstructionView(Shown):
    """An instruction of a program, with its queries."""

    _internal: ClassVar[frozenset[str]] = Shown._internal | {
        "has_unknown_sizes", "empty_answer", "values_read",
    }  # fmt: skip

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
        """Return the module to verify if a query fails; see `explains_invalid_program`."""
        return self.program.module

    @property
    def while_asked(self) -> AbstractContextManager[Any]:
        """Return the program's lock, which a query holds while it uses the analysis."""
        return self.program.lock

    @property
    def metadata(self) -> Metadata:
        """Return the framework's name of the op and its source position, where they are known.

        >>> import hloscope
        >>> program = hloscope.read('ENTRY e { ROOT p = f32[] parameter(0), '
        ...                         'metadata={op_name="x" source_file="train.py" source_line=7} }')
        >>> program.root.metadata.op_name, str(program.root.source)
        ('x', 'train.py:7')
        """
        return metadata_of(self.ir, self.program.module)

    @property
    def source(self) -> Frame | None:
        """Return the source position of the op, printed as `file:line`; `None` if it is unknown."""
        return provenance_of(self.ir, self.program.module).source

    @property
    def trace(self) -> tuple[Frame, ...]:
        """Return the stack of source positions of the op, innermost first."""
        return provenance_of(self.ir, self.program.module).trace

    def same_source(self) -> list[InstructionView]:
        """Return all instructions from the same source line; empty if the line is unknown."""
        at = self.source
        return [] if at is None else self.program.select(source=str(at))

    @property
    def opcode(self) -> str:
        """Return the opcode as HLO spells it; the StableHLO name if HLO lacks the op."""
        return opcode_of(self.ir)

    @property
    def shape(self) -> str:
        """Return the type without layouts, such as `f32[8,128]`."""
        return shape_text(self.ir.type)

    @property
    def outputs(self) -> tuple[Type, ...]:
        """Return the types of the outputs: for a tuple, those of its tensors in order."""
        return self.program.analysis.tensors(self.ir.type)

    @property
    def operands(self) -> tuple[InstructionView, ...]:
        """Return the operands, in order."""
        return tuple([InstructionView(self.program, o) for o in self.ir.operands])

    @property
    def calls(self) -> tuple[ComputationView, ...]:
        """Return the called computations, in order."""
        return tuple([ComputationView(self.program, c) for c in self.ir.calls])

    @explains_invalid_program
    def indexing(
        self,
        output: int | None = 0,
        operand: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
    ) -> Indexing:
        """Return the accesses from an element of an output to the operands.

        Captured values, which StableHLO regions read from outside, come after the operands.

        Args:
            output: Number of the output, or `None` for all.
            operand: Number of an operand; by default all.
            physical: Use indices in memory order, the slowest-varying dimension first.
            linear: Use positions in memory, counted in elements.

        Raises:
            UnknownNameError: The output or operand does not exist.
        """
        numbers, order = self._outputs(output), _order(physical, linear)
        chosen = self._operands(operand)
        read, outputs = self.values_read, self.outputs
        answers = []
        for k in numbers:
            here = outputs[k]
            found: dict[int, dict[int, Accesses]] = {}
            for (j, leaf), some in self._reads_of(k).items():
                number = j if isinstance(j, int) else read.index(j, len(self.ir.operands))
                found.setdefault(number, {})[leaf] = some
            touched = {
                j: self._operand_answer(j, read[j], here, leaves, order)
                for j, leaves in found.items()
                if j in chosen
            }
            answers.append(OutputAnswer(k, here, OperandAnswers(read, chosen, touched)))
        return self._indexing("output_to_input", answers, order)

    @explains_invalid_program
    def indexing_from(
        self,
        operand: int = 0,
        output: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
        leaf: int | None = None,
    ) -> Indexing:
        """Return the accesses from an element of an operand to the outputs that depend on it.

        Args:
            operand: Number of the operand.
            output: Number of an output; by default all.
            physical: Use indices in memory order, the slowest-varying dimension first.
            linear: Use positions in memory, counted in elements.
            leaf: Number of a tensor in a tuple operand; by default each tensor separately.

        Raises:
            UnknownNameError: The output, operand or tensor does not exist.
        """
        self._operands(operand)
        source = self.values_read[operand]
        leaves = self.program.analysis.tensors(source.type)
        chosen = range(len(leaves)) if leaf is None else range(leaf, leaf + 1)
        if leaf is not None and leaf not in range(len(leaves)):
            raise UnknownNameError(f"operand {operand} of `{self.name}` has {len(leaves)} leaves")
        numbers, order = self._outputs(output), _order(physical, linear)
        asked = OperandAnswer(operand, source.name, source.type, ())
        found: dict[int, dict[int, OperandAnswer]] = {}
        for j in chosen:
            reached = self._reached_of(operand, j, numbers)
            for k in [k for k in reached if k in numbers]:
                mine = placed(reached[k], leaves[j], self.outputs[k], order)
                found.setdefault(k, {})[j] = replace(asked, accesses=mine, leaf=j)
        answers = [
            OutputAnswer(k, self.outputs[k], TensorAnswers(asked, chosen, found.get(k, {})))
            for k in numbers
        ]
        return self._indexing("input_to_output", answers, order)

    @explains_invalid_program
    def to_parameters(
        self,
        output: int | None = 0,
        parameter: int | None = None,
        physical: bool = False,
        *,
        linear: bool = False,
    ) -> Indexing:
        """Return the accesses from an output element to the parameters of its computation.

        Args:
            output: Number of the output, or `None` for all.
            parameter: Number of a parameter; by default all.
            physical: Use indices in memory order, the slowest-varying dimension first.
            linear: Use positions in memory, counted in elements.

        Raises:
            UnknownNameError: The output or parameter does not exist.
        """
        computation = self._computation
        parameters = computation.parameters
        chosen = _chosen("parameter", parameter, computation.name, len(parameters))
        order = _order(physical, linear)
        numbers = {parameters[j]: j for j in chosen}
        reads = self.program.parameter_reads(computation)
        answers = []
        # Many outputs of a fusion may read a parameter by identical access tuples: they share one
        # result.  Keys hold identities, so `alive` keeps the objects from being freed and reused.
        known: dict[tuple[int, ...], OperandAnswer] = {}
        alive: list[dict[int, Accesses]] = []
        for k in self._outputs(output):
            found: dict[Instruction, dict[int, Accesses]] = {}
            in_sizes = sizes.parameters_in_sizes(self.program, computation, self.ir, k)
            for (value, leaf), some in (in_sizes or reads.of(self.ir, k)).items():
                found.setdefault(value, {})[leaf] = some
            here = self.outputs[k]
            touched = {}
            place = 0 if order == "logical" else id(here)
            for j in sorted([numbers[value] for value in found if value in numbers]):
                leaves = found[parameters[j]]
                key = (j, place, *[x for leaf, some in leaves.items() for x in (leaf, id(some))])
                told = known.get(key)
                if told is None:
                    told = self._operand_answer(j, parameters[j], here, leaves, order)
                    known[key] = told
                    alive.append(leaves)
                touched[j] = told
            answers.append(OutputAnswer(k, here, OperandAnswers(parameters, chosen, touched)))
        answer = replace(
            self._indexing("output_to_input", answers, order).answer,
            what="parameter",
            computation=computation,
            inside=computation,
        )
        return Indexing(answer, self.program.file, self.program.module)

    @explains_invalid_program
    def tiling_space(
        self, sizes: Sequence[int] | None = None, *, beyond_xla: bool = False
    ) -> tiling.SpaceTiling:
        """Return the tiling of this instruction as one kernel: dimensions, and each op's tiles.

        Args:
            sizes: Tile size of each dimension; `None` for variables.
            beyond_xla: Also propagate tiles through ops that XLA refuses, if tiles exist.

        Raises:
            UnsupportedError: The instruction has no tiling space.
            ValueError: The sizes do not fit the dimensions.

        >>> import hloscope
        >>> program = hloscope.read('ENTRY e { p = f32[6,8] parameter(0) '
        ...                         'ROOT t = f32[8,6] transpose(p), dimensions={1,0} }')
        >>> print(program.root.tiling_space([4, 2]).text().partition("Tiled")[2])
         HLO:
          p.tile_0 = parameter(0)  offsets [tid_1 * 2, tid_0 * 4] sizes [2, 4] strides [1, 1] \
upper bounds [6, 8]
          t.tile_0 = transpose(p.tile_0)  offsets [tid_0 * 4, tid_1 * 2] sizes [4, 2] strides \
[1, 1] upper bounds [8, 6]
        """
        return tiling.tiling_space(self.ir, sizes, beyond_xla=beyond_xla)

    @explains_invalid_program
    def cancellation(self) -> cancelling.Cancellation:
        """Return the verdict on the data movement that ends at this instruction, or passes it.

        Raises:
            UnknownNameError: The instruction is in no chain of data movement.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> program.root.cancellation().chain.judgements[0].output_layout.minor_to_major
        (0, 1)
        """
        return cancelling.cancellation_of(self.program.module, [self.ir])[0]

    @explains_invalid_program
    def grouped(self, output: int = 0) -> dict[InstructionView, Accesses]:
        """Return the accesses from an output element to every value inside a fusion.

        The fusion's operands are included.

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
        region = fusion.Region.of_instruction(self.ir)
        return {
            InstructionView(self.program, ins): tuple(
                replace(access, leaf=leaf) if leaf else access
                for leaf, accesses in leaves.items()
                for access in accesses
            )
            for ins, leaves in fusion.grouped(self.program.analysis, region, None, output).items()
        }

    @explains_invalid_program
    def tiles(
        self,
        sizes: Sequence[int] | None = None,
        *,
        schedule: ScheduleName = "major_to_minor",
    ) -> Tiles:
        """Return the tilings of the instruction: XLA's analysis, and the elements that tiles read.

        Args:
            sizes: Tile sizes: one for each parameter, or for each dimension of the output.
            schedule: The order in which Triton programs take the tiles.

        Raises:
            ValueError: The number of sizes does not fit, or a size is not positive.
            UnsupportedError: The instruction has no tensor of known sizes.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> print(program.root.tiles([4, 2]).operands[0].exact.shape.sizes)
        (2, 4)
        """
        return tiling.tiles_of_view(self, sizes, schedule)

    def coalescing(
        self,
        device: str = "h100",
        *,
        threads: int | None = None,
        launch: tuple[int, int] | None = None,
        vector: int | None = None,
        thread_map: IndexingMap | ThreadLayout | str | None = None,
        tile: Sequence[int] | None = None,
    ) -> memory.Coalescing:
        """Return the memory requests of the warps of this kernel.

        Args:
            device: Name of the GPU.
            threads: Threads of a block of a loop kernel, instead of XLA's choice.
            launch: Blocks, and threads of a block, of a loop kernel.
            vector: Elements that a thread of a loop kernel computes.
            thread_map: Map from threads to output elements that replaces XLA's emitter, a layout of
                Triton or CuTe, or the text of one of these.
            tile: Tile sizes of a block-level fusion, or of the layout.

        Raises:
            UnsupportedError: The instruction has no kernel of XLA's own emitters.
            UnknownNameError: The device is unknown.

        >>> import hloscope
        >>> text = "ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }"
        >>> print(hloscope.read(text).root.coalescing().model)
        h100: loop, 128 threads × 256 blocks (rules of 2026-08)
        """
        sizes = None if tile is None else tuple(tile)
        blocks, of_block = launch if launch is not None else (None, threads)
        model = memory.Model(device, of_block, blocks, vector, thread_map, sizes)
        program = self.program
        with program.lock:
            answer = model.memory(program.analysis, program.dump).of_instruction(self.ir)
        return memory.Coalescing(answer, self.ir)

    def footprint(self, device: str = "h100") -> memory.Footprint:
        """Return the bytes that this kernel must read and write at least.

        Args:
            device: Name of the GPU, which decides which updates are in place.

        Raises:
            UnknownNameError: The device is unknown.
        """
        with self.program.lock:
            return memory.footprint_of(self.program, self.ir, device)

    @property
    def computation(self) -> ComputationView:
        """Return the computation that contains the instruction."""
        return ComputationView(self.program, self._computation)

    @cached_property  # asked twice for each answer: 5 % of the processor time of `index --all`
    def has_unknown_sizes(self) -> bool:
        """Does an operand or the result have a size without a bound?"""
        return self.program.is_of_unknown_size(self.ir)

    def _reads_of(self, output: int) -> sizes.Reads:
        """Return the accesses from an output to each operand and its tensors."""
        if self.has_unknown_sizes:
            return sizes.reads_in_sizes(self.program, self._computation, self.ir, output)
        return self.program.analysis.output_to_input(self.ir, output)

    def _reached_of(self, operand: int, leaf: int, outputs: range) -> Mapping[int, Accesses]:
        """Return, by output, the accesses from one tensor of an operand or captured value to it.

        Args:
            operand: Number of the operand; captured values follow the operands.
            leaf: Number of the tensor in it.
            outputs: Numbers of the outputs.
        """
        if self.has_unknown_sizes:
            where = self._computation
            return sizes.reached_in_sizes(self.program, where, self.ir, operand, leaf, outputs)
        place = operand if operand < len(self.ir.operands) else self.values_read[operand]
        return self.program.analysis.input_to_output(self.ir, place, leaf)

    @cached_property  # views of operands search the whole program for it
    def _computation(self) -> Computation:
        known = self._known_computation
        return known or next(
            c for c in self.program.module if c.body.by_name.get(self.name) is self.ir
        )

    def _operand_answer(
        self,
        number: int,
        source: Instruction,
        here: Type,
        found: Mapping[int, Accesses],
        order: Order,
    ) -> OperandAnswer:
        """Return the accesses to all tensors of one operand or captured value.

        Args:
            number: Number of the value among operands and captured values.
            source: The value.
            here: Type of the tensor that the maps start from.
            found: Accesses by number of the tensor.
            order: Kind of the indices in the maps.
        """
        accesses: list[Access] = []
        types = () if order == "logical" else self.program.analysis.tensors(source.type)
        for leaf, some in sorted(found.items()):
            mine = placed(some, here, types[leaf], order) if types else some
            accesses += [replace(a, leaf=leaf) for a in mine] if leaf else mine
        return OperandAnswer(number, source.name, source.type, tuple(accesses))

    def _indexing(
        self, direction: Direction, outputs: list[OutputAnswer], order: Order
    ) -> Indexing:
        """Return a result about this instruction.

        Args:
            direction: Do the maps lead from outputs to inputs, or from inputs to outputs?
            outputs: The results for each output.
            order: Kind of the indices in the maps.
        """
        in_sizes = self.has_unknown_sizes
        answer = Answer(
            self.ir,
            self.opcode,
            direction,
            outputs,
            order,
            inside=self._computation if in_sizes else self._known_computation,
            origin=provenance_of(self.ir, self.program.module),
            convention=self.program.analysis.convention,
        )
        symbolic = self.program.symbolic if in_sizes else None
        return Indexing(answer, self.program.file, self.program.module, symbolic)

    def empty_answer(self, direction: Direction) -> Answer:
        """Return an `Answer` for this instruction without outputs; all other fields are set.

        `direction` states whether maps lead from outputs to inputs or from inputs to outputs.
        """
        return self._indexing(direction, [], "logical").answer

    def _outputs(self, number: int | None) -> range:
        return _chosen("output", number, self.name, len(self.outputs))

    @property
    def values_read(self) -> tuple[Instruction, ...]:
        """Return the operands, then the captured values, which regions read from outside."""
        captured = self.program.analysis.captured(self.ir)
        return (*self.ir.operands, *captured) if captured else self.ir.operands

    def _operands(self, number: int | None) -> range:
        return _chosen("operand", number, self.name, len(self.values_read))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InstructionView) and other.ir is self.ir

    def __hash__(self) -> int:
        return hash(self.ir)

    def __repr__(self) -> str:
        return visible(f"<{headline(self.ir, self.opcode)}>")


def _order(physical: bool, linear: bool) -> Order:
    return "linear" if linear else "physical" if physical else "logical"


def _chosen(what: str, number: int | None, name: str, count: int) -> range:
    """Return the range with the requested number, or of all numbers below `count`.

    Args:
        what: `output`, `operand` or `parameter`, for the message.
        number: The number; `None` for all.
        name: Name of the instruction or computation, for the message.
        count: Number of its outputs, operands or parameters.

    Raises:
        UnknownNameError: The number is out of range.
    """
    if number is None:
        return range(count)
    if 0 <= number < count:
        return range(number, number + 1)
    known = "none" if not count else "only 0" if count == 1 else f"0 to {count - 1}"
    raise UnknownNameError(f"`{name}` has no {what} {number}; it has {known}")


def placed(accesses: Accesses, here: Type, there: Type, order: Order) -> Accesses:
    """Return the accesses between indices of an order; `here` and `there` are the tensors."""
    if order == "logical":
        return accesses
    try:
        return (fusion.linear if order == "linear" else fusion.physical)(accesses, here, there)
    except UnsupportedError as error:  # an array without bounds has no addresses
        return (Access.unknown(error.message),)
