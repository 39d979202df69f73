"""A program that was read, with queries about all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from hloscope import fusion, hlo_parser, indexing, interpreter, passes, stablehlo
from hloscope.api.finding import computing, find, find_all
from hloscope.api.invalid import analysis_of, explains_invalid_program
from hloscope.api.sources import Readable, read_module
from hloscope.api.views import ComputationView, InstructionView
from hloscope.display import Shown, opcodes, shape_text
from hloscope.errors import UnknownNameError
from hloscope.fusion import Analysis, Convention
from hloscope.ir import Computation, Instruction, Module, Type, array_bytes, to_networkx
from hloscope.ops import Fusion
from hloscope.support.lazy import lazy, once_for_each
from hloscope.support.limits import MAX_BYTES
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.api.buffers as buffers
    import hloscope.api.costs as costs
    import hloscope.api.exploring as exploring
    import hloscope.api.savings as cancelling
    import hloscope.api.selecting as selecting
    import hloscope.api.sources as sources
    from hloscope.fusion import ParameterReads
    from hloscope.memory.dumps import DumpedModule
else:
    buffers = lazy("hloscope.api.buffers")
    cancelling = lazy("hloscope.api.savings")
    costs = lazy("hloscope.api.costs")
    exploring = lazy("hloscope.api.exploring")
    selecting = lazy("hloscope.api.selecting")
    sources = lazy("hloscope.api.sources")


# --------------------------------------------------------------------------------------------------
# A program that was read, with the queries about the whole of it.


class Program(Shown):
    """A program that was read, and the queries about it.

    `program["fusion.12"]` is an instruction; `program["fused_computation/add.3"]` is one inside a
    computation.  Iteration goes over all instructions, computation by computation.
    """

    _internal: ClassVar[frozenset[str]] = Shown._internal | {
        "analysis", "has_unknown_sizes", "is_of_unknown_size", "lock", "parameter_reads",
        "symbolic",
    }  # fmt: skip

    def __init__(
        self,
        module: Module,
        *,
        file: str = "<string>",
        convention: Convention = "structural",
        dump: DumpedModule | None = None,
        allocated: int | None = None,
    ) -> None:
        given: object = module
        if not isinstance(given, Module):
            what = type(given).__name__
            raise TypeError(f"a program is made of a module, not of {what}: `read` takes texts")
        self.module: Final = module
        self.file: Final = file
        self.dump: Final = dump
        """Module of the dump folder that the program was read from; `None` for other sources."""
        self.allocated: Final = allocated
        """Bytes that XLA allocated in the default memory space, as an `HloProto` states.

        `None` for other sources.
        """
        self.lock: Final = RLock()
        """Lock to hold while `analysis` is used, because its caches are not thread-safe."""
        self._convention: Final[Convention] = convention
        self._analysis: Analysis | None = None
        self._parameter_reads: dict[Computation, ParameterReads] = {}
        self._symbolic: indexing.SymbolicAnalysis | None = None
        self._unknown_sizes: dict[Computation, bool] = {}
        self._is_unbounded: Final[Callable[[Type], bool]] = once_for_each(
            lambda type: indexing.is_unbounded(type)
        )

    @classmethod
    def of(cls, given: Program | Module | Readable) -> Program:
        """Return a program unchanged, make one of a module, or read one from a source.

        Args:
            given: A program, a module, or a source that `read` takes.

        Raises:
            HloscopeError: The source cannot be read.

        >>> program = Program.of("ENTRY e { ROOT p = f32[2] parameter(0) }")
        >>> Program.of(program) is program
        True
        """
        if isinstance(given, Program):
            return given
        if isinstance(given, Module):
            return cls(given)
        return cls.of_module(sources.read_module(given))

    @classmethod
    def of_module(cls, read: sources.ReadModule) -> Program:
        """Return the program of a module, with its file name and dump folder."""
        return cls(read.module, file=read.file, dump=read.dump, allocated=read.allocated)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a program and its views do not cross processes: send its text instead")

    @property
    def name(self) -> str:
        """Return the module's name."""
        return self.module.name

    @property
    def asked_module(self) -> Module:
        """Return the module to verify if a query fails; see `explains_invalid_program`."""
        return self.module

    @property
    def analysis(self) -> Analysis:
        """Return the indexing analysis of the program, created at the first access."""
        with self.lock:
            if self._analysis is None:
                self._analysis = analysis_of(self.module, self._convention)
            return self._analysis

    @property
    def symbolic(self) -> indexing.SymbolicAnalysis:
        """Return the analysis in terms of named sizes, for programs of unknown sizes."""
        if self._symbolic is None:
            self._symbolic = indexing.SymbolicAnalysis(self.module, self.analysis.bodies)
        return self._symbolic

    def has_unknown_sizes(self, computation: Computation) -> bool:
        """Does a value of the computation have a size without a bound? The result is cached."""
        known = self._unknown_sizes.get(computation)
        if known is None:
            known = any(map(self.is_of_unknown_size, computation))
            self._unknown_sizes[computation] = known
        return known

    def is_of_unknown_size(self, ins: Instruction) -> bool:
        """Does an operand or the result have a size without a bound?"""
        look = self._is_unbounded
        return look(ins.type) or any([look(operand.type) for operand in ins.operands])

    @property
    def entry(self) -> ComputationView:
        """Return the entry computation."""
        return ComputationView(self, self.module.entry)

    @property
    def root(self) -> InstructionView:
        """Return the root of the entry computation."""
        return InstructionView(self, self.module.entry.root, self.module.entry)

    @property
    def result(self) -> InstructionView:
        """Return the instruction that computes the result, behind tuples and bitcasts.

        If there are several results, it is the one that computes the most bytes.

        >>> import hloscope
        >>> text = "ENTRY e { p = f32[8] parameter(0) n = f32[8] negate(p) "
        >>> hloscope.read(text + "ROOT b = f32[2,4] bitcast(n) }").result
        <n = f32[8] negate(p)>
        """
        return InstructionView(self, computing(self.module.entry.root), self.module.entry)

    @property
    def computations(self) -> tuple[ComputationView, ...]:
        """Return all computations."""
        return tuple([ComputationView(self, c) for c in self.module])

    def parameter_reads(self, computation: Computation) -> ParameterReads:
        """Return the maps from a computation's values to its parameters.

        Only the result for the last computation is cached.
        """
        known = self._parameter_reads.get(computation)
        if known is None:
            known = fusion.ParameterReads(self.analysis, computation)
            self._parameter_reads = {computation: known}  # only the last one asked for is kept
        return known

    def fusions(self) -> Iterator[InstructionView]:
        """Yield all fusions, also those inside other computations."""
        return (ins for ins in self if isinstance(ins.ir.op, Fusion))

    @explains_invalid_program
    def cancellations(
        self, through: Sequence[InstructionView] = ()
    ) -> list[cancelling.Cancellation]:
        """Return the chains of data movement, largest saving first.

        Args:
            through: If not empty: only chains that end at one of these instructions, or, if none
                ends there, that pass it. Only their surroundings are searched.

        Raises:
            UnknownNameError: No chain leads through these instructions.
            VerifyError: An instruction of a chain is invalid.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "r = f32[32] reshape(p) ROOT q = f32[4,8] reshape(r) }")
        >>> [(found.name, str(found.kind)) for found in program.cancellations()]
        [('q', 'no-op')]
        """
        if through:
            return cancelling.cancellation_of(self.module, [view.ir for view in through])
        return cancelling.cancellations(self.module)

    def __iter__(self) -> Iterator[InstructionView]:
        return (InstructionView(self, ins, c) for c in self.module for ins in c)

    def __getitem__(self, name: str) -> InstructionView:
        computation, ins = find(self.module, name)
        return InstructionView(self, ins, computation)

    def like(self, name: str) -> list[InstructionView]:
        """Return the instructions that a name or pattern matches: `*` is any text, `?` a character.

        Raises:
            UnknownNameError: No instruction matches.
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
        """Return the instructions of all computations that satisfy every given condition.

        In patterns `*` is any text and `?` any character.

        Args:
            opcode: Pattern of the opcode as HLO spells it.
            name: Pattern of the instruction's name.
            op_name: Pattern of the framework's path of the op; without `*`, a part of it.
            source: `train.py`, `train.py:120` or `train.py:100-120`, in any frame of the stack.
            shape: Pattern of the type without layouts.
            calls: Pattern of the name of a called computation.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> program.select(shape="f32[*,4]")
        [<t = f32[8,4] transpose(p)>]
        """
        wanted = selecting.Selection(opcode, name, op_name, source, shape, calls)
        found = wanted.of(self.module, self.module)
        return [InstructionView(self, ins, computation) for computation, ins in found]

    def text(self, *, metadata: bool = True) -> str:
        """Return the program as text in its own language; HLO without metadata if requested."""
        if self.module.has_tree:
            return stablehlo.print_stablehlo(self.module)
        return hlo_parser.print_hlo(self.module, metadata=metadata)

    @explains_invalid_program
    def cost(self, *, device: str | None = None, as_if: str | None = None) -> costs.Cost:
        """Return the cost of every kernel that runs: bytes, flops, time bound and unused transfers.

        Args:
            device: Name of a device, or the path of its TOML file. The default is an H100, and no
                device for a program that was compiled for a CPU or TPU.
            as_if: Name of a GPU. Transfers are counted for its threads, whatever the program was
                compiled for.

        Raises:
            DeviceError: The file does not describe a device, or `as_if` is not a GPU.
            UnknownNameError: No device has that name.
        """
        return costs.cost_on(self, device, as_if=as_if)

    @explains_invalid_program
    def memory(self) -> buffers.MemoryAnswer:
        """Return the memory that the program needs: bounds, the peak and its buffers, and savings.

        Live ranges are known for scheduled programs, as XLA dumps them after optimisation; for
        others there are only sums.

        >>> import hloscope
        >>> hloscope.read("ENTRY e { ROOT p = f32[8] parameter(0) }").memory().reason
        'the program has no schedule (no `is_scheduled=true` in its header)'
        """
        return buffers.MemoryAnswer(self)

    def to_networkx(self) -> Any:
        """Return a networkx graph: a node for each instruction, edges to users and callers.

        Nodes are called `computation/instruction`, as `program[...]` takes them.  They have
        `opcode`, `shape`, `computation` and `bytes` (`None` if a size has no bound).  Edges have a
        `kind`: `operand` (with its `number`), `control`, or `call`, from the root of a computation
        to the instruction that calls it.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")
        >>> graph = program.to_networkx()
        >>> list(graph.edges(data=True)), graph.nodes["e/n"]["bytes"]
        ([('e/p', 'e/n', {'kind': 'operand', 'number': 0})], 32)
        """
        return program_graph(self.module)

    @explains_invalid_program
    def explore(
        self,
        *,
        parts: Sequence[str] | None = None,
        device: str = "h100",
        before: Program | Module | Readable | None = None,
    ) -> exploring.Explorer:
        """Return an HTML page with the program, its maps and results about its kernels.

        It shows itself in notebooks; `to_html()` is one HTML file that loads no other file.

        Args:
            parts: Some of `cost`, `maps`, `coalesce`, `footprint`, `cancel`, `tiles`; by default
                all.
            device: Name of the GPU for coalescing and footprints.
            before: An older program, or a source that `read` takes; the page shows the differences.

        Raises:
            ValueError: A part does not exist.
            UnknownNameError: The device is unknown.
            HloscopeError: The older program cannot be read.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> program.explore(parts=["maps"]).contents.instructions
        2
        """
        wanted = exploring.EXPLORER_PARTS if parts is None else tuple(parts)
        older = None if before is None else Program.of(before)
        return exploring.explore(self, parts=wanted, device=device, before=older)

    @explains_invalid_program
    def evaluate(
        self,
        *arguments: Any,
        entry: str | None = None,
        max_steps: int | None = None,
        max_bytes: int = MAX_BYTES,
        custom_calls: Mapping[str, Callable[..., Any]] | None = None,
    ) -> Any:
        """Run the program on these arguments; `hloscope.evaluate` describes them and the result."""
        return interpreter.call(
            self.module,
            arguments,
            entry=entry,
            max_steps=max_steps,
            max_bytes=max_bytes,
            custom_calls=custom_calls,
        )

    def by_convention(self, convention: Convention) -> Program:
        """Return this program with another convention for which elements a reduction reads.

        Args:
            convention: `structural` (the default of all results): an output of a reduction reads
                the inputs that it depends on by the reduction's body. `xla`: it reads all inputs
                and initial values, as in XLA.

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
        if convention == self._convention:
            return self
        return Program(
            self.module,
            file=self.file,
            convention=convention,
            dump=self.dump,
            allocated=self.allocated,
        )

    @explains_invalid_program
    def fold(self, **limits: int) -> Program:
        """Return the program with constants in place of values that do not depend on its arguments.

        Args:
            limits: `max_elements`, `max_bytes` and `max_steps`, as for `hloscope.fold`.
        """
        return Program(passes.fold(self.module, **limits), file=self.file)

    def __repr__(self) -> str:
        text = f"<{self.name}: {len(self.module.computations)} computations, {self.file}>"
        return visible(text)


# --------------------------------------------------------------------------------------------------
# Programs from files, texts and other libraries' objects.


def read(source: Readable, *, name: str | None = None, strict: bool = False) -> Program:
    """Read a program.

    Args:
        source: A path; HLO or StableHLO text as `str` or `bytes`; bytes of an HLO proto, a
            portable artifact, MLIR bytecode or what `jax.export` wrote; an open file; the
            result of `jax.jit(f).lower(...)` or of `.compile()` after it; an XPlane profile,
            `p.xplane.pb`, or one of several programs in it, `p.xplane.pb#jit_f`; or a folder that
            `--xla_dump_to` wrote, `DIR`, or one of several modules in it, `DIR#jit_f`: the
            program is the HLO after optimizations, and answers about kernels use what the other
            files of the folder state.
        name: Name of the program in messages; by default the path.
        strict: Parse every part at once. By default a part is parsed at its first use, and its
            errors appear then.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        ParseError: The text is neither HLO nor StableHLO; the message states the position.
        UnknownNameError: The folder holds several modules, or none of that name.
        UnsupportedError: The program has an op or syntax that is not supported.

    >>> read("ENTRY e { ROOT p = f32[2] parameter(0) }").root
    <p = f32[2] parameter(0)>
    """
    return Program.of_module(read_module(source, name=name, strict=strict))


# --------------------------------------------------------------------------------------------------
# Run programs: arguments in, numpy arrays out.


def evaluate(
    program: Program | Module | Readable,
    *arguments: Any,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Run a program and return its result: an array, or a tuple if there are several.

    Args:
        program: A program, a module, or a source that `read` takes.
        arguments: One for each parameter: numpy arrays, or objects that numpy converts to arrays
            (such as those of jax), of exactly the parameter's type; Python numbers and lists of
            them, which become elements of that type; tuples for tuples.
        entry: Name of the function or computation to run; by default the entry.
        max_steps: Maximum number of instructions to evaluate; those in loops count once per
            iteration.
        max_bytes: Maximum bytes of one value.
        custom_calls: Python functions by call target, which implement custom calls. They get the
            operands as arrays.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnsupportedError: An op that is executed has no evaluation.
        HloscopeError: The program cannot be read.

    >>> evaluate("ENTRY e { p = f32[3] parameter(0) ROOT n = f32[3] negate(p) }", [1, 2.5, 0])
    array([-1. , -2.5, -0. ], dtype=float32)
    """
    return Program.of(program).evaluate(
        *arguments,
        entry=entry,
        max_steps=max_steps,
        max_bytes=max_bytes,
        custom_calls=custom_calls,
    )


def evaluate_grid(
    program: Program | Module | Readable,
    *processes: Sequence[Any],
    replicas: int = 1,
    partitions: int = 1,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Any]:
    """Run a program on replicas × partitions; return each process's result, replica by replica.

    Args:
        program: The program that all processes run, as for `evaluate`.
        processes: The arguments of each process; a single list is used for all.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        entry: Name of the function or computation to run; by default the entry.
        max_steps: Maximum number of instructions to evaluate in all processes together.
        max_bytes: Maximum bytes of one value.
        custom_calls: Python functions by call target, which implement custom calls.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails, or
            processes wait for each other for ever.

    >>> text = '''
    ... add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
    ... ENTRY e { p = s32[] parameter(0) ROOT r = s32[] all-reduce(p), to_apply=add }'''
    >>> [int(total) for total in evaluate_grid(text, [1], [10], [100], replicas=3)]
    [111, 111, 111]
    """
    return interpreter.call_grid(
        Program.of(program).module,
        processes,
        replicas=replicas,
        partitions=partitions,
        entry=entry,
        max_steps=max_steps,
        max_bytes=max_bytes,
        custom_calls=custom_calls,
    )


# --------------------------------------------------------------------------------------------------
# A program as a networkx graph.


def program_graph(module: Module) -> Any:
    """Return the program's instructions as a networkx graph; see `Program.to_networkx`."""
    opcode = opcodes()
    names = {ins: f"{computation.name}/{ins.name}" for computation in module for ins in computation}
    graph = to_networkx(names, names)
    for computation in module:
        for ins in computation:
            size = array_bytes(ins.type)
            node = graph.nodes[names[ins]]
            node.clear()
            node.update(
                opcode=opcode(ins),
                shape=shape_text(ins.type),
                computation=computation.name,
                bytes=None if size is None else size.data,
            )
    for _, _, edge in graph.edges(data=True):
        number = edge.pop("operand", None)
        edge.clear()
        edge |= {"kind": "control"} if number is None else {"kind": "operand", "number": number}
    for ins, name in names.items():
        for called in ins.calls:
            graph.add_edge(names[called.root], name, kind="call")
    return graph
