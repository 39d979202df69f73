"""Indexing maps through whole computations; each result is computed once."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from math import prod
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.affine import POS_INF, Dim, Interval, first_dims
from hloscope.errors import UnsupportedError
from hloscope.fusion.dependences import INSIDE, Convention, Flows, Refusal, accept_all
from hloscope.fusion.structural_ids import (
    RECURSIVE,
    Summary,
    computed_ahead,
    has_runtime,
    origins_of,
    with_origins,
)
from hloscope.fusion.structure import unknown_flows, unknown_writes
from hloscope.fusion.traversal import AccessSet, AccessTraversal, Flow, compose
from hloscope.indexing import (
    UNKNOWN_COUNTS,
    Access,
    Accesses,
    DeviceCounts,
    IndexingMap,
    Variable,
    address_map,
    below,
    padded_physical_sizes,
    physical_access,
    reshaped,
    to_logical,
)
from hloscope.ir import Computation, Instruction, TensorType, Type, called_value, captures
from hloscope.ops import Fusion, Parameter

# --------------------------------------------------------------------------------------------------
# Indexing maps through whole computations; each result is computed once.


OperandTensor: TypeAlias = tuple[int | Instruction, int]
"""An operand and the number of a tensor in it.

The operand is given by its number; a value that a region captures is given by itself.
"""

_NOTHING: Final[AccessSet] = {}
_NONE: Final[Accesses] = ()
CALLED_ONCE: Final = (Fusion,)
"""Ops whose called computation has no other caller."""
MOST_VALUES: Final = 64
"""Maximum number of runtime variables of a map through a call; with more it is unknown."""
MANY_VALUES: Final = f"more than {MOST_VALUES} run-time values of called computations decide"


class Analysis(Flows):
    """Indexing maps of one program, with memoized results.

    Computations of equal structure are analysed once, and so are equal compositions.  All memoized
    results belong to this object and are freed with it.

    The tensors of a tuple are numbered in order, from 0.  Internally a size known only at run time
    is a leaf of its own (`hloscope.fusion.leaves`).
    """

    def __init__(
        self,
        *,
        has_regions: bool = True,
        convention: Convention = "structural",
        refuse: Refusal = accept_all,
        counts: DeviceCounts = UNKNOWN_COUNTS,
    ) -> None:
        """Start without results.

        Args:
            has_regions: Whether regions may read values from outside, as in StableHLO; in HLO they
                do not.
            convention: Which inputs an output of a reduction reads.  `"structural"`: those that its
                body uses; `"xla"`: all inputs and initial values.
            refuse: Function that raises `VerifyError` for an instruction that is not valid.
            counts: Replicas and partitions that the program runs on.
        """
        super().__init__(
            has_regions=has_regions, convention=convention, refuse=refuse, counts=counts
        )
        self._open: Final[set[tuple[object, ...]]] = set()
        """Keys of results in progress.

        If one of them is requested again, the computation is recursive.
        """

    # -------------------------------------------------------------------------------- questions

    def output_to_input(self, ins: Instruction, output: int = 0) -> dict[OperandTensor, Accesses]:
        """Return the accesses from an element of one output, by operand and tensor number.

        Operands that are not read are left out.  Runtime variables of a fusion or call are read
        from instructions of the called computation.

        Raises:
            VerifyError: The instruction is not valid.
        """
        leaf = self.leaf_of(ins.type, output)
        is_inside = self._is_inside(ins)
        if leaf is None or is_inside or not (ins.operands or ins.calls):
            self.type_guard.check(ins)  # `reads` checks other instructions
        if leaf is None:
            return {}
        found: dict[OperandTensor, Accesses] = {}
        # `summary` names origins of runtime variables inside the callee; `reads` names them for
        # the caller.
        flows = self.summary(ins.calls[0], leaf) if is_inside else self.reads(ins, leaf)
        for operand, part, accesses in flows:
            source = ins.operands[operand] if isinstance(operand, int) else operand
            tensor = self.tensor_of(source.type, part)
            if tensor is None:
                continue
            if accesses is None:
                accesses = self._explicit(None, source.type, part)
            place = operand, tensor
            if place in found:
                accesses = _joined(found[place], accesses)
            if accesses:
                found[place] = accesses
        return found

    def input_to_output(
        self, ins: Instruction, operand: int | Instruction = 0, leaf: int = 0
    ) -> dict[int, Accesses]:
        """Return the accesses from an element of an operand to each output, by output number.

        Outputs that do not depend on it are left out.

        Args:
            ins: The instruction.
            operand: Number of the operand, or a value captured by a region of the instruction.
            leaf: Number of the operand's tensor.
        """
        self.type_guard.check(ins)
        source = ins.operands[operand] if isinstance(operand, int) else operand
        place = self.leaf_of(source.type, leaf)
        if place is None:
            return {}
        leaf = place
        # A captured value has no parameter in the callee, so `spread` does not know it.
        if not isinstance(operand, int):
            flows: Iterable[Flow] = self.writes(ins, operand, leaf)
        elif self._is_inside(ins):
            flows = self.spread(ins.calls[0], operand, leaf)
        else:
            flows = self.writes(ins, operand, leaf)
        found: dict[int, Accesses] = {}
        for _, part, some in flows:
            output = self.tensor_of(ins.type, part)
            if output is None:
                continue
            accesses = self._explicit(some, ins.type, part)
            if output in found:
                accesses = _joined(found[output], accesses)
            if accesses:
                found[output] = accesses
        return found

    def _is_inside(self, ins: Instruction) -> bool:
        """Are runtime variables of the instruction's maps read from the called computation?

        Otherwise they are read from instructions of the caller.
        """
        if not ins.calls or not isinstance(ins.op, INSIDE):
            return False
        if len(ins.operands) < len(ins.calls[0].parameters):
            return False
        return (
            len(ins.calls) == 1 and not self._sizes.concern(ins) and self._is_plain(ins.calls[0])
        ) or self._sizes.are_consistent(ins)

    def _is_plain(self, callee: Computation) -> bool:
        """Are all sizes in the types of the parameters and of the root static?"""
        values = (*callee.parameters, callee.root)
        return not any([self._leaves.has_sizes(value.type) for value in values])

    # --------------------------------------------------------------------------- a computation

    def summary(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of leaf `leaf` of the root of `callee` on its parameters.

        In the result, operands are parameter numbers. Runtime variables are read from instructions
        of the computation.
        """
        key = "reads", self.structure_ids.number(callee), leaf
        known: Summary | None = self.results.get(key)
        if known is None:
            # Not stored: the unknown result holds only for this request inside the recursion.
            if key in self._open:
                return tuple(self._of_recursion(callee))
            self._open.add(key)
            try:
                # Inner computations first: otherwise each level of calls takes several Python
                # frames, and deep nesting would exceed the recursion limit.
                for inner in computed_ahead(self.results, "reads", callee):
                    for k in range(len(self.leaves(inner.root.type))):
                        self.summary(inner, k)
                flows = self._walked(callee, leaf)
            finally:
                self._open.discard(key)
            known = self.results[key] = Summary(callee, flows)
        return known.for_(callee)

    def _walked(self, callee: Computation, leaf: int) -> tuple[Flow, ...]:
        """Return the result of `summary` by a traversal from the root, without the memo.

        `leaf` is the number of the root's leaf.
        """
        walk = AccessTraversal(self.interner, self.leaves)
        walk.begin(callee.root, leaf)
        walk.to_producers(self.positions(callee).get, self.reads)
        return self._ends(walk, callee)

    def _of_recursion(self, callee: Computation) -> Iterator[Flow]:
        """Yield unknown accesses to all parameters and captured values of a recursive function."""
        unknown = self.interner.intern(Access.unknown(RECURSIVE))
        values: list[tuple[int | Instruction, Instruction]] = [*enumerate(callee.parameters)]
        values += [(value, value) for value in captures(callee)]
        for place, value in values:
            for leaf in range(len(self.leaves(value.type))):
                yield Flow(place, leaf, (unknown,))

    def _ends(self, walk: AccessTraversal, callee: Computation) -> tuple[Flow, ...]:
        """Return the dependences that a traversal found at the parameters and captured values.

        Those on parameters come first, in order.
        """
        found = walk.found
        flows: list[Flow] = []
        # Many parameters share one set of accesses, so its tuple is built once.
        last, kept = _NOTHING, _NONE
        for k, parameter in enumerate(callee.parameters):
            leaves = found.get(parameter)
            if leaves is None:
                continue
            for leaf, accesses in sorted(leaves.items()) if len(leaves) > 1 else leaves.items():
                if accesses is not last:
                    last, kept = accesses, tuple(accesses)
                flows.append(Flow(k, leaf, kept))
        if self.has_regions and captures(callee):
            inside = self.positions(callee)
            flows += [
                Flow(ins, leaf, tuple(accesses))
                for ins, leaves in found.items()
                if ins not in inside
                for leaf, accesses in sorted(leaves.items())
            ]
        return tuple(flows)

    def spread(self, callee: Computation, parameter: int, leaf: int) -> tuple[Flow, ...]:
        """Return the dependences of all leaves of the root of `callee` on one leaf of a parameter.

        The leaf has number `leaf` in parameter number `parameter`.
        """
        key = "writes", self.structure_ids.number(callee), parameter, leaf
        known: Summary | None = self.results.get(key)
        if known is None:
            if key in self._open:
                return tuple(unknown_writes(self, callee.root, parameter, RECURSIVE))
            self._open.add(key)
            try:
                # As in `summary`: inner computations first, to bound the depth of Python frames.
                for inner in computed_ahead(self.results, "writes", callee):
                    for k, handed in enumerate(inner.parameters):
                        for part in range(len(self.leaves(handed.type))):
                            self.spread(inner, k, part)
                owner, found = reached_outputs(self, callee, parameter, leaf)
            finally:
                self._open.discard(key)
            flows = [Flow(parameter, k, some) for k, some in found.items()]
            known = self.results[key] = Summary(owner, tuple(flows))
        return known.for_(callee)

    def called(
        self, callee: Computation, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of a leaf of the callee's root on operands of the caller `ins`.

        Parameter `k` of the callee is operand `first + k` of the caller. `leaf` is the number of
        the leaf.
        """
        if mismatch := _mismatch(callee, ins, first):
            return tuple(unknown_flows(self, ins, mismatch))
        flows = self.summary(callee, leaf)
        return tuple([self._lifted(flow, ins, callee, first) for flow in flows])

    def calling(
        self, callee: Computation, parameter: int, leaf: int, ins: Instruction, first: int = 0
    ) -> tuple[Flow, ...]:
        """Return the dependences of the callee's result leaves on an operand of the caller `ins`.

        The operand's leaf is leaf `leaf` of parameter number `parameter` of the callee. Parameter
        `k` is operand `first + k` of the caller.
        """
        if mismatch := _mismatch(callee, ins, first):
            return tuple(unknown_writes(self, ins, first + parameter, mismatch))
        flows = self.spread(callee, parameter, leaf)
        return tuple([self._lifted(flow, ins, callee, first) for flow in flows])

    def _lifted(self, flow: Flow, ins: Instruction, callee: Computation, first: int) -> Flow:
        """Return a callee's dependence on a parameter as one of the caller `ins` on an operand.

        Parameter `k` becomes operand `first + k`.  Origins of runtime variables inside the callee
        are replaced by values that name the call.
        """
        operand = flow.operand + first if isinstance(flow.operand, int) else flow.operand
        accesses = flow.accesses
        if accesses is not None and has_runtime(accesses):
            parameters = callee.parameters
            origins: dict[Instruction, Instruction] = {}
            for origin in origins_of(accesses):
                if isinstance(origin.op, Parameter) and origin in parameters:
                    origins[origin] = ins.operands[first + origin.op.number]
                # A computation with several callers has one value for each call: `called_value`
                # distinguishes them. A fusion's computation has one caller, and a captured value
                # is the same for all calls.
                elif not isinstance(ins.op, CALLED_ONCE) and origin not in self.captured(ins):
                    origins[origin] = called_value(origin, ins, first)
            renamed = [with_origins(a, origins) for a in accesses]
            accesses = self.interner.intern_all([_with_few_values(a) for a in renamed])
        return Flow(operand, flow.leaf, accesses)

    def positions(self, computation: Computation) -> Mapping[Instruction, int]:
        """Return the position of each instruction in the text order of its computation."""
        return self.results.once(
            ("positions", computation),
            lambda: {ins: at for at, ins in enumerate(computation.instructions)},
        )


def _with_few_values(access: Access) -> Access:
    """Return the access, or an unknown one if it has more than `MOST_VALUES` runtime variables.

    The number of runtime variables grows with each nested call.
    """
    if access.map is None or len(access.map.runtime) <= MOST_VALUES:
        return access
    return Access.unknown(MANY_VALUES)


def _joined(first: Accesses, second: Accesses) -> Accesses:
    """Return the union of two sets of interned accesses, without duplicates."""
    return tuple(dict.fromkeys((*first, *second)))


def _mismatch(callee: Computation, ins: Instruction, first: int = 0) -> str:
    """Return why the operands from number `first` on do not match the parameters; else ""."""
    handed, taken = max(len(ins.operands) - first, 0), len(callee.parameters)
    if handed >= taken:
        return ""
    return f"what is called takes {taken} parameters and is handed {handed} operands"


# --------------------------------------------------------------------------------------------------
# Accesses from the parameters of a computation to its outputs, for all parameters at once.


MAX_ENDS: Final = 4
"""Maximum number of outputs for which one traversal serves all parameters.

With more, each queried parameter has its own traversal to the users.
"""
MANY_PARAMETERS: Final = 256
"""Number of parameters above which the first query is computed for its parameter alone."""
Reached: TypeAlias = dict[int, Accesses]
"""The accesses from one leaf of a parameter to each output that depends on it, by output number."""
Table: TypeAlias = dict[tuple[int, int], Reached]
"""The accesses to outputs, by the number of a parameter and of its leaf."""


def reached_outputs(
    about: Analysis, callee: Computation, parameter: int, leaf: int
) -> tuple[Computation, Reached]:
    """Return the accesses from one parameter leaf to the outputs, and a computation.

    The computation has the same structure as `callee`; runtime variables are read from its
    instructions. It is the first item of the result.

    Args:
        about: The analysis, which returns the dependences of single instructions.
        callee: The computation.
        parameter: Number of the parameter.
        leaf: Number of the parameter's leaf.
    """
    if len(about.leaves(callee.root.type)) > MAX_ENDS:
        return callee, _to_users(about, callee, callee.parameters[parameter], leaf)
    number = about.structure_ids.number(callee)
    first, key = ("first parameter", number), ("parameters", number)
    # One traversal gives the results of all parameters. With very many parameters, it takes much
    # longer than the one for a single parameter, which may be the only one.
    if len(callee.parameters) > MANY_PARAMETERS and first not in about.results:
        about.results[first] = parameter
        found = _of_parameters(about, callee, _dependent(callee, parameter))
        return callee, found.get((parameter, leaf), {})
    owner, table = about.results.once(key, lambda: (callee, _of_parameters(about, callee)))
    return owner, table.get((parameter, leaf), {})


def _to_users(about: Analysis, callee: Computation, start: Instruction, leaf: int) -> Reached:
    """Return the accesses to each output, by one traversal from a parameter to its users.

    The traversal begins at leaf `leaf` of the parameter `start`; `about` is the analysis.
    """
    walk = AccessTraversal(about.interner, about.leaves)
    walk.begin(start, leaf)
    users = about.results.once(("users", callee), lambda: about.users(callee.instructions))
    walk.to_users(users, about.writes)
    found = walk.found.get(callee.root, {})
    return {k: tuple(accesses) for k, accesses in sorted(found.items())}


def _of_parameters(
    about: Analysis, callee: Computation, through: Container[Instruction] | None = None
) -> Table:
    """Return the accesses from each parameter to each output, by one traversal per output.

    Args:
        about: The analysis, which returns the dependences of single instructions.
        callee: The computation.
        through: The values that the traversal may pass; all if `None`.
    """
    table: Table = {}
    for output, type in enumerate(about.leaves(callee.root.type)):
        walk = AccessTraversal(about.interner, about.leaves, type)
        walk.begin(callee.root, output)
        position = about.positions(callee).get
        walk.from_producers(position, about.possible_reads, about.writes, through)
        for number, parameter in enumerate(callee.parameters):
            for leaf, accesses in walk.found.get(parameter, {}).items():
                table.setdefault((number, leaf), {})[output] = tuple(accesses)
    return table


def _dependent(callee: Computation, parameter: int) -> set[Instruction]:
    """Return a parameter and all values of its computation that may depend on it."""
    found = {callee.parameters[parameter]}
    for ins in callee.instructions:
        # A called computation may capture values.
        if ins.calls or not found.isdisjoint(ins.operands):
            found.add(ins)
    return found


# --------------------------------------------------------------------------------------------------
# Accesses between positions in memory, converted from logical indices.


def physical(accesses: Accesses, here: Type, there: Type) -> Accesses:
    """Return the accesses with physical instead of logical indices, slowest dimension first.

    Args:
        accesses: From logical indices of one tensor to logical indices of another.
        here: Type of the tensor that the accesses start from.
        there: Type of the tensor that they lead to.
    """
    return tuple([physical_access(access, here, there) for access in accesses])


def linear(accesses: Accesses, here: Type, there: Type) -> Accesses:
    """Return the accesses between linear positions in memory, counted in elements.

    Args:
        accesses: From logical indices of one tensor to logical indices of another.
        here: Type of the tensor that the accesses start from.
        there: Type of the tensor that they lead to.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> column = parse_type("f32[4,8]{0,1}")
    >>> same = (Access(IndexingMap.identity((4, 8))),)
    >>> moved = linear(same, parse_type("f32[4,8]{1,0}"), column)[0].map
    >>> [moved.evaluate((position,)) for position in (0, 1, 8, 9)]
    [(0,), (4,), (1,), (5,)]
    """
    if not isinstance(here, TensorType) or not isinstance(there, TensorType):
        return accesses
    try:
        start, end = _from_address(here), address_map(there)
    except UnsupportedError as error:
        return (Access.unknown(error.message),)
    # The affine arithmetic bounds variables by 64-bit integers.
    if max((*here.shape, *there.shape), default=0) > POS_INF:
        return (Access.unknown("an index does not fit into 64 bits"),)
    found = []
    for access in accesses:
        both = compose(Access(start), access)
        both = compose(both, Access(end)) if both is not None else None
        if both is not None:
            found.append(_shortened(both, access, here, there))
    return tuple(found)


def _shortened(both: Access, access: Access, here: TensorType, there: TensorType) -> Access:
    """Return `both`, or the identity on positions if `access` keeps every position in memory.

    It does if it is an identity between arrays of equal layout. `both` is the composition of
    `access` with the maps between positions and indices. It splits the position into digits and
    recombines them; with padded tiles no rule of the simplifier finds that these are all digits of
    the position.

    Args:
        both: The access between linear positions in memory.
        access: The same access between logical indices.
        here: Type of the tensor that the accesses start from.
        there: Type of the tensor that they lead to.
    """
    same, m = access.map, both.map
    if same is None or m is None or same.results != first_dims(here.rank):
        return both
    if same.ranges or same.runtime or same.constraints:
        return both
    if here.shape != there.shape or address_map(here) != address_map(there):
        return both
    return replace(both, map=m.with_(results=(Dim(0),)))


def _from_address(type: TensorType) -> IndexingMap:
    """Return the map from a linear position in memory, in elements, to the logical index."""
    sizes = padded_physical_sizes(type)
    total = prod(sizes)
    if total == 0:
        return IndexingMap((below(0),), results=[0] * type.rank)
    index, inside = to_logical(reshaped([Dim(0)], (total,), sizes), type)
    return IndexingMap((Variable(Interval(0, total - 1)),), (), (), index, inside)
