"""Symbolic tiles of every instruction of a fusion, by XLA's tiling of block-level fusions."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Dim, Expr, FloorDiv, Range, depends_on_runtime
from hloscope.fusion import Analysis
from hloscope.indexing import (
    Accesses,
    IndexingMap,
    Precision,
    output_sizes,
    output_to_input,
)
from hloscope.ir import Instruction, TensorType
from hloscope.ops import (
    Bitcast,
    Concatenate,
    DotGeneral,
    DynamicUpdateSlice,
    Fusion,
    Pad,
    Reshape,
    ScaledDot,
)
from hloscope.support.walks import needed_first, without_recursion
from hloscope.tiling.constraints import TileConstraints
from hloscope.tiling.fused import Fused
from hloscope.tiling.symbolic import SymbolicTile, symbolic_tile
from hloscope.tiling.tile import Refusal, RefusalCode, RefusedError, refused

# --------------------------------------------------------------------------------------------------
# Symbolic tiles of every instruction of a fusion, by XLA's tiling of block-level fusions.
#
# The parameters are the tile sizes of the root, and those of the contracted dimensions of every
# dot. From the root to the operands, maps are composed, and each composed map gives a symbolic
# tile. Two uses of an instruction that need the same tile share one.
#
# Source: XLA `SymbolicTileAnalysis`.


Dot: TypeAlias = DotGeneral | ScaledDot
DOTS: Final = (DotGeneral, ScaledDot)
GEMM_KINDS: Final = ("__triton_nested_gemm_fusion", "__triton_gemm")
"""Kinds of fusions, by their backend config, in which a pad may be tiled."""
MAX_TILES: Final = 10_000
"""Maximum number of tiled instructions; with more, tiling is refused.

Nested regions may double the number with every level.
"""
MAX_VALUES: Final = 256
"""Maximum number of run-time values in the map of one tile; with more, tiling is refused.

The map of gather k of a chain has k of them, so the work grows with the square of their number.
"""


class Parameter(Struct, frozen=True):
    """A tile size to choose.

    Attributes:
        instruction: The instruction that introduces it: the root, or a dot.
        dimension: Dimension of the root, or of the dot's left operand.
        size: Size of that dimension.
        is_contracting: Is the dimension contracted?
    """

    instruction: Instruction
    dimension: int
    size: int
    is_contracting: bool = False


class TiledNode:
    """An instruction with its symbolic tile.

    Attributes:
        instruction: The instruction: inside the fusion, or an operand of it.
        output: Number of the tensor in its value.
        map: Map from an index over the parameters to an element of the tensor.
        tile: The symbolic tile of that map.
        operands: The tiles of its operands.
        runtime: The tiles of the arrays of its runtime variables, outermost first.
        regions: The nodes in a dot's loop, or those of each operand of a concatenate.
        claim: Why the map has more elements than are read; empty if it is exact.
    """

    __slots__ = ("claim", "instruction", "map", "operands", "output", "regions", "runtime", "tile")
    tile: SymbolicTile

    def __init__(
        self,
        instruction: Instruction,
        map: IndexingMap,
        runtime: Iterable[TiledNode] = (),
        output: int = 0,
        claim: str = "",
    ) -> None:
        self.instruction: Final = instruction
        self.output: Final = output
        self.map: Final = map
        self.runtime: Final = tuple(runtime)
        self.claim: Final = claim
        self.operands: Final[list[TiledNode]] = []
        self.regions: Final[list[list[TiledNode]]] = []

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for nodes with the same tile."""
        return self.instruction, self.output, self.map, self.runtime

    def __repr__(self) -> str:
        return f"<tile of {self.instruction.name}: {self.map}>"


class SymbolicTiles:
    """The symbolic tiles of a fusion, before tile sizes are chosen.

    Attributes:
        fused: The instructions.
        parameters: The tile sizes to choose; a dot's contracting ones come before its others.
        roots: The values that the fusion computes.
        root: The root that no instruction of the fusion uses.
        nodes: Tiled instructions, operands before users; the root is the last.
        constraints: XLA's constraints on the sizes.
        dropped: Necessary constraints that XLA omits.
        keeps_points: Do dimensions of one element stay variables?
    """

    def __init__(
        self,
        fused: Fused,
        parameters: Sequence[Parameter],
        introduced: Sequence[tuple[Instruction, int]],
        root: Instruction,
        walk: _TileTraversal,
        nodes: list[TiledNode],
    ) -> None:
        self.fused: Final = fused
        self.parameters: Final = tuple(parameters)
        self.introduced: Final = tuple(introduced)
        self.roots: Final = fused.roots
        self.root: Final = root
        self.nodes: Final = nodes
        self.constraints: Final = walk.constraints
        self.dropped: Final = walk.dropped
        self.keeps_points: Final = walk.keeps_points

    def __repr__(self) -> str:
        sizes = ", ".join(str(p.size) for p in self.parameters)
        return f"<symbolic tiles of {self.root.name}: {len(self.nodes)} of parameters ({sizes})>"


def symbolic_tiles(
    fused: Fused, analysis: Analysis | None = None, *, kind: str = ""
) -> SymbolicTiles | Refusal:
    """Return the symbolic tiles of a fusion, or the reason why XLA has none.

    Args:
        fused: The instructions.
        analysis: Indexing analysis with XLA's convention, which caches maps of instructions.
        kind: Kind of the fusion in its backend config; pads are tiled in GEMM fusions only.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo("f { p = f32[8,6] parameter(0) ROOT r = f32[48] reshape(p) } "
    ...                    "ENTRY e { a = f32[8,6] parameter(0) "
    ...                    "ROOT x = f32[48] fusion(a), kind=kLoop, calls=f }")
    >>> found = symbolic_tiles(Fused.of(module.entry.root))
    >>> print(found.constraints, "|", *found.nodes[0].tile.sizes)
    6 mod d0 in [0, 0] || d0 mod 6 in [0, 0] | (d0 + 5) / 6 ((d0 - 1) / 6) * -6 + d0
    """
    try:
        root = _real_root(fused)
        introduced = _introduced(fused, root)
        parameters = [p for ins, count in introduced for p in _parameters(ins, count)]
        walk = _TileTraversal(fused, analysis or Analysis(convention="xla"), introduced, kind)
        of_root = [
            Dim(i)
            for i, p in enumerate(parameters)
            if p.instruction is root and not p.is_contracting
        ]
        identity = IndexingMap.of_sizes([p.size for p in parameters], (), of_root)
        nodes = walk.run(TiledNode(root, identity))
    except RefusedError as error:
        return error.refusal
    return SymbolicTiles(fused, parameters, introduced, root, walk, nodes)


def _real_root(fused: Fused) -> Instruction:
    used = {o for ins in fused.inside for o in fused.operands(ins)}
    real = [root for root in dict.fromkeys(fused.roots) if root not in used]
    if len(real) != 1 or not fused.roots:
        what = "no root without users" if not real else f"{len(real)} roots without users"
        refusal = Refusal(RefusalCode.FAILED_PRECONDITION, f"{what}: one real root is needed")
        raise RefusedError(refusal)
    (root,) = real
    if not isinstance(root.type, TensorType):
        raise refused("the root is not an array", root, "FAILED_PRECONDITION")
    if isinstance(root.op, Fusion) and root in fused.inside:
        raise refused("a fusion at the root of a fusion", root)
    return root


def _introduced(fused: Fused, root: Instruction) -> list[tuple[Instruction, int]]:
    """Return the instructions that introduce tile sizes to choose, with the number of these.

    They are the root and dots. Users come first.
    """
    found = {root: len(sizes_of(root))}
    for ins in fused.users_first:
        if isinstance(ins.type, TensorType) and not ins.type.is_static:
            raise refused("sizes that are known only at run time", ins)
        if isinstance(ins.op, DOTS):
            found[ins] = found.get(ins, 0) + len(ins.op.dimensions.lhs_contracting)
    return [*found.items()]


def _parameters(ins: Instruction, count: int) -> list[Parameter]:
    found: list[Parameter] = []
    if isinstance(ins.op, DOTS):
        sizes = sizes_of(ins.operands[0])
        for d in ins.op.dimensions.lhs_contracting:
            found.append(Parameter(ins, d, sizes[d], is_contracting=True))
    if count > len(found):
        found += [Parameter(ins, d, size) for d, size in enumerate(sizes_of(ins))]
    return found


def sizes_of(ins: Instruction) -> tuple[int, ...]:
    """Return the sizes of an array; empty for other values."""
    return ins.type.shape if isinstance(ins.type, TensorType) else ()


# ------------------------------------------------------------------------------------ the walk


class _TileTraversal:
    """Traversal of a fusion from the root to the operands that finds symbolic tiles.

    A dot's loop and a concatenate's operands are regions, traversed one by one. The constraints of
    all tiles are collected.
    """

    def __init__(
        self,
        fused: Fused,
        analysis: Analysis,
        introduced: Sequence[tuple[Instruction, int]],
        kind: str,
    ) -> None:
        self.constraints = TileConstraints()
        self.dropped = TileConstraints()
        self.keeps_points: Final = any(map(_needs_points, fused.inside))
        self._fused, self._analysis, self._kind = fused, analysis, kind
        self._first: dict[Instruction, int] = {}
        before = 0
        for ins, count in introduced:
            self._first[ins] = before
            before += count
        self._count = 0
        self._ruled: dict[tuple[Instruction, int], list[tuple[int, IndexingMap, str]]] = {}

    def run(self, root: TiledNode) -> list[TiledNode]:
        """Return the tiles of everything that the root depends on; the root's is the last."""
        return without_recursion(self._region(root))

    def _region(self, root: TiledNode) -> Generator[Any, Any, list[TiledNode]]:
        """Return the tiles of one region, its root last.

        Yields the roots of nested regions to receive their tiles.
        """
        known: dict[tuple[object, ...], TiledNode] = {}
        todo = [root]
        while todo:
            node = todo.pop()
            self._set_tile(node)
            if node.instruction not in self._fused.inside:
                continue
            operands = self._fused.operands(node.instruction)
            maps = self._maps(node.instruction, node.output)
            for k, (operand, (output, m, claim)) in enumerate(zip(operands, maps, strict=True)):
                composed = self._composed(node, k, m)
                runtime = [*node.runtime]
                for source in self._runtime(node, m, composed):
                    # Equal tiles are one node, so a value with several users is followed once.
                    kept = known.setdefault(source.key, source)
                    if kept is source:
                        todo.append(source)
                    runtime.append(kept)
                read = {self._fused.outside(v.origin) for v in composed.runtime if v.origin}
                runtime = [n for n in dict.fromkeys(runtime) if n.instruction in read]
                child = TiledNode(operand, composed, runtime, output, claim or node.claim)
                if isinstance(node.instruction.op, Concatenate):
                    region = yield self._region(child)
                    node.operands.append(region[-1])
                    node.regions.append(region)
                    continue
                is_loop = isinstance(operand.op, DOTS)
                if is_loop and child.key not in known:
                    (child,) = yield self._region(child)
                kept = known.setdefault(child.key, child)
                node.operands.append(kept)
                if kept is child and not is_loop:  # a dot's operands were traversed with its region
                    todo.append(kept)
        nodes = [*known.values()]
        # Operands come before users.
        needed = needed_first([root], lambda node: [*node.operands, *node.runtime])
        order = {id(node): number for number, node in enumerate(needed)}
        nodes.sort(key=lambda node: order.get(id(node), 0))
        if isinstance(root.instruction.op, DOTS) and nodes:
            root.regions.append(nodes)
            nodes = []
        return [*nodes, root]

    def _set_tile(self, node: TiledNode) -> None:
        """Set a node's symbolic tile, and add the constraints of that tile to the traversal's.

        Raises:
            RefusedError: There is no tile, or no sizes satisfy all constraints.
        """
        ins = node.instruction
        self._count += 1
        if self._count > MAX_TILES:
            reason = f"more than {MAX_TILES:,} tiled instructions"
            raise refused(reason, ins, "RESOURCE_EXHAUSTED")
        if ins in self._fused.inside:
            self._check_op(ins)
        tile = symbolic_tile(node.map)
        if isinstance(tile, Refusal):
            raise RefusedError(replace(tile, instruction=ins))
        node.tile = tile
        together = self.constraints & tile.constraints
        if len(together.clauses) > len(self.constraints.clauses):
            if not together.is_satisfiable:
                reason = f"no tile sizes fulfil all constraints: {together}"
                raise refused(reason, ins)
            self.constraints = together
        self.dropped &= tile.dropped

    def _check_op(self, ins: Instruction) -> None:
        """Raise an error for an op that XLA's tiling refuses whatever tile its users need.

        Raises:
            RefusedError: XLA does not tile the op.
        """
        if isinstance(ins.op, Pad) and self._kind not in GEMM_KINDS:
            raise refused("Bailing out on a pad outside of fusions of a gemm", ins)
        if isinstance(ins.op, Fusion):
            raise refused("a fusion inside a fusion", ins)
        if isinstance(ins.op, Reshape | Bitcast):
            ((_, m, _),) = self._maps(ins)
            alone = symbolic_tile(m)
            if isinstance(alone, Refusal):
                reason = f"Bailing out on reshape, which alone has no tile: {alone.reason}"
                raise RefusedError(replace(alone, reason=reason, instruction=ins))

    def _maps(self, ins: Instruction, output: int = 0) -> list[tuple[int, IndexingMap, str]]:
        """Return, for each operand, the number of the tensor read, its map, and a reason.

        The map leads from an index of the result to an index of the tensor. The reason says why the
        map has more elements than are read; it is empty if it has not.

        Args:
            ins: The instruction.
            output: Number of the tensor in its result.
        """
        # An instruction has a node for each of its different tiles, and all of them use its maps.
        found = self._ruled.get((ins, output))
        if found is None:
            found = self._ruled[ins, output] = [*self._find_maps(ins, output)]
        return found

    def _find_maps(self, ins: Instruction, output: int) -> Iterator[tuple[int, IndexingMap, str]]:
        sizes = output_sizes(ins, output)
        reads = self._reads(ins, output)
        for k, operand in enumerate(ins.operands):
            leaves = [(leaf, some) for (place, leaf), some in reads.items() if place == k and some]
            if isinstance(ins.op, Pad) or (isinstance(ins.op, DynamicUpdateSlice) and k == 0):
                yield 0, *_as_if_everywhere(ins, k)
            elif not leaves and len(sizes_of(operand)) == 0:
                yield 0, IndexingMap.of_sizes(sizes), ""
            elif len(leaves) != 1 or len(leaves[0][1]) != 1:
                count = sum(len(some) for _, some in leaves)
                raise refused(f"{count} maps say together what is read of operand {k}", ins)
            else:
                leaf, (access,) = leaves[0]
                if access.map is None or access.precision is Precision.UNKNOWN:
                    raise refused(f"nothing is known of operand {k}: {access.reason}", ins)
                if access.replica is not None:
                    raise refused(f"operand {k} is read on other devices", ins)
                yield leaf, access.map, access.reason

    def _reads(self, ins: Instruction, output: int) -> dict[tuple[int, int], Accesses]:
        """Return the accesses of an output by (operand number, tensor number)."""
        if self.keeps_points:  # the rules' own maps: an analysis replaces points by their value
            plain = output_to_input(ins, output, reader=self._analysis.bodies)
            maps = [access.map for some in plain for access in some]
            if not any([m is not None and m.runtime for m in maps]):
                found: dict[tuple[int, int], Accesses] = {}
                for k, accesses in enumerate(plain):
                    for access in accesses:
                        place = k, access.leaf
                        found[place] = (*found.get(place, ()), access)
                return found
        reads = self._analysis.output_to_input(ins, output)
        return {(k, leaf): some for (k, leaf), some in reads.items() if isinstance(k, int)}

    def _composed(self, node: TiledNode, operand: int, m: IndexingMap) -> IndexingMap:
        """Return the map from the parameters to the elements of an operand.

        `m` is the operand's own map, from the elements of the node's instruction.

        Raises:
            RefusedError: Nothing is read, or too many run-time values decide the elements.
        """
        first, op = node.map, node.instruction.op
        if isinstance(op, DOTS) and m.ranges:
            start = self._first[node.instruction]
            ranges = _contracted_ranges(op, operand, m)
            # A dot's contracted dimensions have tile sizes, so its range variables become
            # parameters.
            contracted = [Dim(start + k) for k in ranges]
            first = first.with_(results=(*first.results, *contracted))
            m = m.ranges_to_dims([*ranges.values()])
        composed = first.compose(m).simplify(replace_points=not self.keeps_points)
        if composed.is_known_empty:
            raise refused("nothing is read of an operand", node.instruction)
        if len(composed.runtime) > MAX_VALUES:
            reason = f"more than {MAX_VALUES} run-time values decide where a tile lies"
            raise refused(reason, node.instruction, "RESOURCE_EXHAUSTED")
        return composed.rescale_symbols().remove_unused_symbols()

    def _runtime(
        self, node: TiledNode, m: IndexingMap, composed: IndexingMap
    ) -> Iterator[TiledNode]:
        """Yield the tiles of the arrays from which an operand's runtime variables are read."""
        read = {v.origin for v in composed.runtime}
        known = [(e, i) for e, i in m.constraints if not depends_on_runtime(e)]
        for variable in m.runtime:
            if variable.origin is None or variable.origin not in read:
                continue
            if depends_on_runtime(*variable.index):
                raise refused("where a value is read is read itself", node.instruction)
            # Constraints on run-time values only remove elements, so a tile may leave them out.
            index = m.with_(results=variable.index, runtime=(), constraints=known)
            source = self._fused.outside(variable.origin)
            yield TiledNode(source, node.map.compose(index).simplify(), node.runtime)


def _as_if_everywhere(ins: Instruction, operand: int) -> tuple[IndexingMap, str]:
    """Return a map by which a pad or `dynamic-update-slice` reads an operand at every index.

    In fact the op reads the operand at some indices only. So the tile of the map also covers
    elements that are not read.

    Returns:
        The map, and which elements are covered in addition; empty if none are.

    Raises:
        UnsupportedError: A pad has interior padding.
    """
    sizes = sizes_of(ins)
    if operand or isinstance(ins.op, DynamicUpdateSlice):
        results: list[Expr] = [Dim(i) for i in range(len(sizes))] if operand == 0 else []
        claim = "what the update replaces is covered too" if operand == 0 else ""
        return IndexingMap.of_sizes(sizes, (), results), claim
    assert isinstance(ins.op, Pad)
    lows = zip(ins.op.edge_padding_low, ins.op.interior_padding, strict=True)
    if any(ins.op.interior_padding):
        raise refused("interior padding", ins)
    results = [Dim(i) - low for i, (low, _) in enumerate(lows)]
    return IndexingMap.of_sizes(sizes, (), results), "padding is covered too"


def _contracted_ranges(op: Dot, operand: int, m: IndexingMap) -> dict[int, int]:
    """Return, by position among the contracted dimensions, the range variable of each one.

    Contracted dimensions that are no range variable are left out. `m` is the map of operand number
    `operand`.
    """
    dims = op.dimensions
    contracting = dims.rhs_contracting if operand % 2 else dims.lhs_contracting
    found = {}
    for k, d in enumerate(contracting):
        # An index may be a quotient of the range variable.
        e = m.results[d]
        e = e.num if isinstance(e, FloorDiv) else e
        if isinstance(e, Range):
            found[k] = e.index
    return found


def _needs_points(ins: Instruction) -> bool:
    """Does the op have a dimension of one element whose tile size simplification would lose?"""
    op = ins.op
    if isinstance(op, Pad):
        return True
    if isinstance(op, Concatenate):
        return any([sizes_of(o)[op.dimension : op.dimension + 1] == (1,) for o in ins.operands])
    if not isinstance(op, DOTS):
        return False
    lhs, rhs = sizes_of(ins.operands[0]), sizes_of(ins.operands[1])
    left = [n for d, n in enumerate(lhs) if d not in op.dimensions.lhs_batch]
    kept = op.dimensions.rhs_batch + op.dimensions.rhs_contracting
    return 1 in left or 1 in [n for d, n in enumerate(rhs) if d not in kept]
