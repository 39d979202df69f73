"""Sharding attributes of Shardy and the mesh axes in them: data structures and checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import TensorType, TokenType, TupleType, Type, UnrankedTensorType
from hloscope.mlir import Attribute, StringAttr, StructAttr, VerbatimAttr, attribute_text, type_text
from hloscope.mlir.dialects import axes_of, factor_name, mesh_of, sdy_struct, sdy_text
from hloscope.ops import AxisRef, Mesh
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Sharding attributes of Shardy: structure, and the checks of each by itself.
#
# Source: Shardy `verifiers.cc` (`verifyTensorShardingAttr`, `verifyOpShardingRuleAttr`) and
# `parsers.cc`.


class Sharding(NamedTuple):
    """One `#sdy.sharding<…>`.

    Attributes:
        mesh: The mesh, or the name of a mesh.
        dimensions: Axes of each dimension.
        closed: True for each dimension that must not be divided further.
        priorities: Priority of each dimension; `None` where the text has none.
        replicated: Axes along which the tensor must not be divided.
        unreduced: Axes along which partial sums remain to be added.
        text: The attribute as written.
    """

    mesh: Mesh | str
    dimensions: tuple[tuple[AxisRef, ...], ...]
    closed: tuple[bool, ...]
    priorities: tuple[int | None, ...]
    replicated: tuple[AxisRef, ...]
    unreduced: tuple[AxisRef, ...]
    text: str

    @property
    def is_bare(self) -> bool:
        """Does the sharding have neither dimensions nor axes?"""
        return not (self.dimensions or self.replicated or self.unreduced)

    @property
    def is_replicated(self) -> bool:
        """Does the sharding divide no dimension?"""
        return not (any(self.dimensions) or self.unreduced)

    def without(self, names: Collection[str]) -> Sharding:
        """Return the sharding without the axes that have these names."""

        def kept(refs: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
            return tuple([ref for ref in refs if ref.name not in names])

        return self._replace(
            dimensions=tuple(map(kept, self.dimensions)),
            replicated=kept(self.replicated),
            unreduced=kept(self.unreduced),
        )


_TOKEN: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|-?\w[\w.$]*|\S')
_OTHERWISE: Final = pattern(r"#|\b0x")
"""Pattern of notations that MLIR reads but `sdy_struct` does not: aliases, hexadecimal numbers."""

_REDUCTION: Final = pattern(r"\bunreduced\s*=\s*[a-z]+\s*\{")
"""Pattern of unreduced axes with a named reduction, as later versions of Shardy print them."""


def struct_of(attribute: Attribute | None, *names: str) -> StructAttr | None:
    """Return the parsed form of a Shardy attribute.

    `None` if it has another name or an unknown form.

    Args:
        attribute: The attribute, parsed or as text.
        names: Accepted names of the attribute.

    Raises:
        VerifyError: The text is not in Shardy's grammar.
    """
    if isinstance(attribute, StructAttr):
        return attribute if attribute.name in names else None
    if not isinstance(attribute, VerbatimAttr) or not attribute.text.startswith("#sdy"):
        return None
    text = attribute.text
    if _OTHERWISE.search(text, 1):
        return None
    text = _REDUCTION.sub("unreduced={", text)  # no rule depends on the reduction
    try:
        found = sdy_struct(text)
    except UnsupportedError:
        raise _misspelled(text) from None
    if found.name not in names:
        return None
    # The reader accepts parts in any order and repeated; printing what it read exposes both.
    if _tokens(sdy_text(found)) != _tokens(text):  # parts in another order, or twice
        raise _misspelled(text)
    return found


def is_one_of(attribute: Attribute, *names: str) -> bool:
    """Is it a Shardy attribute of one of these names? Its content is not parsed."""
    if isinstance(attribute, StructAttr):
        return attribute.dialect == "sdy" and attribute.name in names
    if not isinstance(attribute, VerbatimAttr):
        return False
    found = _NAME.match(attribute.text)
    return found is not None and found[1] in names


_NAME: Final = pattern(r"#sdy(?:\.|<)(\w+)")


def _misspelled(text: str) -> VerifyError:
    return VerifyError(f"`{text[:200]}` is not in the grammar of Shardy")


def _tokens(text: str) -> list[str]:
    """Return the tokens of an attribute's text; spacing, quoting and empty parts do not matter."""
    found = ["@" if token[0] == '"' else token for token in _TOKEN.findall(text)]
    joined = " ".join(found).replace("@ @", "@").replace(", device_ids = [ ]", "")
    return _NAMED.sub("@", joined).split(" ")


_NAMED: Final = pattern(r"@ \w[\w.$]*")

SHARDING: Final = ("sharding", "sharding_unreduced")
PER_VALUE: Final = ("sharding_per_value", "sharding_per_value_2")


def sharding_of(attribute: StructAttr) -> Sharding | None:
    """Return the sharding in a parsed attribute; `None` if a part of it is not supported."""
    dimensions, priorities, closed = [], [], []
    try:
        for dimension in _listed(attribute.get("dimensions")):
            dimensions.append(axes_of(dimension))
            closed.append(bool(dimension.get("is_closed")))
            priority = dimension.get("priority")
            # The lowest bit tells a given priority from a missing one.
            is_given = isinstance(priority, int) and priority & 1
            priorities.append(priority >> 1 if is_given and isinstance(priority, int) else None)
        replicated, unreduced = [
            axes_of(StructAttr("sdy", "axis_ref_list", (("axes", attribute.get(role) or ()),)))
            for role in ("replicated", "unreduced")
        ]
        mesh = mesh_of(attribute.get("mesh"))
        text = sdy_text(attribute)
    except UnsupportedError:
        return None
    return Sharding(
        mesh, tuple(dimensions), tuple(closed), tuple(priorities), replicated, unreduced, text
    )


def shardings_of(attribute: StructAttr) -> list[Sharding | None]:
    """Return the shardings in `#sdy.sharding_per_value<[…]>`, one for each value.

    `None` is in place of a sharding of which a part is not supported.
    """
    return [sharding_of(part) for part in _listed(attribute.get("shardings"))]


def _listed(value: object) -> tuple[StructAttr, ...]:
    return value if isinstance(value, tuple) else ()


def check_sharding(sharding: Sharding, type_: Type | None, grid: Grid) -> None:
    """Check a sharding against the type of its value and the mesh.

    Args:
        sharding: The sharding.
        type_: Type of the value; `None` for an op without results.
        grid: The mesh.

    Raises:
        VerifyError: The sharding is invalid; the message is Shardy's.
    """
    # A sharding on one device divides nothing, whatever the type is.
    if grid.is_maximal or (type_ is None and sharding.is_replicated):
        if not sharding.is_bare:
            raise VerifyError(
                "a maximal sharding can only have a sharding with rank 0 and no replicated or"
                " unreduced axes."
            )
        return
    shape = type_
    if isinstance(type_, TupleType):
        if len(type_.elements) != 1:
            raise VerifyError(
                f"ops can only have a sharding for a tuple of size 1: '{type_text(type_)}'"
            )
        (shape,) = type_.elements
    if isinstance(shape, UnrankedTensorType):
        raise VerifyError(f"only ranked tensors can have a sharding. type: '{type_text(shape)}'")
    if isinstance(shape, TokenType) and type_ is not None:
        if not sharding.is_bare:
            raise VerifyError(
                "non-shaped tensors can only have a sharding with rank 0 and no replicated or"
                f" unreduced axes. type: '{type_text(type_)}', sharding: {sharding.text}"
            )
        return
    if not isinstance(shape, TensorType):
        return
    if len(sharding.dimensions) != shape.rank:
        raise VerifyError(
            f"sharding doesn't match tensor rank: {len(sharding.dimensions)} != {shape.rank}"
        )
    _check_axes(sharding, grid)


def _check_axes(sharding: Sharding, grid: Grid) -> None:
    seen = AxisCollector(grid)
    each = zip(sharding.dimensions, sharding.closed, sharding.priorities, strict=True)
    for d, (axes, closed, priority) in enumerate(each):
        if priority is not None and closed and not axes:
            raise VerifyError(f"dim {d} is empty and closed but has a priority")
        seen.add(axes)
    for role, axes in (("replicated", sharding.replicated), ("unreduced", sharding.unreduced)):
        if not grid.is_sorted(axes):
            raise VerifyError(f"{role} axes are not ordered w.r.t. mesh")
        seen.add(axes)
    seen.check_parts()


def dividing_axes(sharding: Sharding, grid: Grid) -> tuple[Axes, ...]:
    """Return the mesh axes that divide each dimension of a valid sharding."""
    return tuple([tuple([grid.axis(ref) for ref in refs]) for refs in sharding.dimensions])


def check_rule(rule: StructAttr, operands: Sequence[Type], results: Sequence[Type]) -> None:
    """Check `#sdy.op_sharding_rule<…>` against the types of its op.

    Raises:
        VerifyError: The rule is invalid; the message is Shardy's.
    """
    sizes = _numbers(rule.get("sizes"))
    used: set[int] = set()
    for what, types in (("operand", operands), ("result", results)):
        mappings = _listed(rule.get(f"{what}s"))
        if len(types) != len(mappings):
            raise VerifyError(
                f"number of {what}s and mappings must match: {len(types)} != {len(mappings)}"
            )
        if not mappings:
            raise VerifyError(
                f"number of {what}s mappings cannot be 0. Op sharding rules can only be defined on"
                " operations with at least one operand and result."
            )
        for i, (type_, mapping) in enumerate(zip(types, mappings, strict=True)):
            where = f"{what} - " if len(types) == 1 else f"{what} {i} - "
            used |= _check_mapping(where, type_, mapping, sizes)
    # Each factor must occur somewhere; a single operand may lack it.
    missing = [i for i in range(len(sizes)) if i not in used]
    if missing:
        name = factor_name(missing[0])
        raise VerifyError(
            f"has factor {name}={sizes[missing[0]]} that isn't used in operand and result mappings"
        )
    _check_sets(rule, len(sizes))


def _check_mapping(
    where: str, type_: Type, mapping: StructAttr, sizes: tuple[int, ...]
) -> set[int]:
    """Check the factors of one operand or result of a sharding rule; return their numbers.

    Args:
        where: Text that names the operand or result in errors.
        type_: Its type.
        mapping: The factors of each of its dimensions.
        sizes: Sizes of all factors of the rule.
    """
    if not isinstance(type_, TensorType) or not type_.is_static:
        text = type_text(type_)
        raise VerifyError(f"{where}expected a ranked tensor with a static shape. type: '{text}'")
    dimensions = _listed(mapping.get("dimensions"))
    if len(dimensions) != type_.rank:
        raise VerifyError(f"{where}mapping rank must match: {len(dimensions)} != {type_.rank}")
    used: set[int] = set()
    for dimension in dimensions:
        factors = _numbers(dimension.get("factors"))
        if not factors:
            raise VerifyError(f"{where}dim mapping must have at least one factor")
        for factor in factors:
            if not 0 <= factor < len(sizes):
                raise VerifyError(
                    f"{where}expecting factor indices to be within 0<=...<num_factors; received:"
                    f" {factor}, num_factors: {len(sizes)}"
                )
            if factor in used:
                raise VerifyError(f"{where}cannot reuse factors for the same tensor value")
            # A factor of size 1 beside others has no effect, so that the rule is not in normal
            # form.
            if sizes[factor] == 1 and len(factors) > 1:
                raise VerifyError(
                    f"{where}dim mapping can't have a factor of size 1 if there are multiple"
                    " factors"
                )
            used.add(factor)
    return used


def _check_sets(rule: StructAttr, count: int) -> None:
    """Check the sets of factors with special roles, such as reduction, in a sharding rule.

    Each set is sorted, a factor is in one set only, and no factor of a result is a reduction
    factor. `count` is the number of factors.
    """
    named = ("reduction", "need_replication", "permutation", "blocked_propagation")
    sets = {name: _numbers(rule.get(name)) for name in named}
    special: list[int] = []
    for name, factors in sets.items():
        if list(factors) != sorted(factors):
            raise VerifyError("indices of special factors must be sorted")
        if len(set(factors)) != len(factors):
            raise VerifyError("indices of special factors must be unique")
        if factors and factors[-1] >= count:
            raise VerifyError(f"index must be less than {count}, got: {factors[-1]}")
        if name != "blocked_propagation":
            special += factors
    if len(set(special)) != len(special):
        raise VerifyError(
            "a factor can only be in one of the reduction, need replication, or permutation factor"
            " sets"
        )
    for mapping in _listed(rule.get("results")):
        for dimension in _listed(mapping.get("dimensions")):
            if set(_numbers(dimension.get("factors"))) & set(sets["reduction"]):
                raise VerifyError("reduction factor cannot be in result mappings")


def _numbers(value: object) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()


# --------------------------------------------------------------------------------------------------
# Mesh axes as intervals of their sizes, for the checks of shardings and collectives.
#
# Source: Shardy `shardy/dialect/sdy/ir/verifiers.cc` and `dialect.cc` (`AxisRefAttr`).


class Axis(NamedTuple):
    """A mesh axis, or a part of one (a sub-axis).

    A part of size n after parts of total size p is stored as the interval `[p, p n)`. Parts of one
    axis overlap if their intervals do.

    Attributes:
        name: Name of the axis.
        before: Product of the sizes of the parts before this one, Shardy's pre-size.
        after: `before` times the size of the part; the size of the axis for a whole axis.
        whole: Whether the reference names the axis, not a part of it.
    """

    name: str
    before: int
    after: int
    whole: bool

    def __str__(self) -> str:
        name = attribute_text(StringAttr(self.name.encode("utf-8", "surrogateescape")))
        return name if self.whole else f"{name}:({self.before}){self.after // self.before}"

    def overlaps(self, other: Axis) -> bool:
        """Do two parts cover a common range of one axis?"""
        named_alike = self.name == other.name
        return named_alike and self.before < other.after and other.before < self.after


Axes: TypeAlias = tuple[Axis, ...]


class Grid:
    """A mesh, with methods that resolve references to its axes."""

    def __init__(self, mesh: Mesh) -> None:
        """Create the grid of a mesh that `check_mesh` accepts."""
        # Device ids in order are the default; without them, equal meshes compare equal.
        in_order = mesh.axes and mesh.devices == tuple(range(len(mesh.devices)))
        self.mesh = Mesh(mesh.axes) if in_order else mesh
        self.sizes: Final = dict(mesh.axes)
        self._order: Final = {name: i for i, (name, _) in enumerate(mesh.axes)}

    @property
    def is_maximal(self) -> bool:
        """Does the mesh consist of a single device?"""
        return not self.mesh.axes and self.mesh.device_ids is not None

    @property
    def devices(self) -> tuple[int, ...] | None:
        """Device ids of the mesh; `None` if they are 0, 1, 2 and so on."""
        return None if self.mesh.device_ids is None else self.mesh.devices

    def axis(self, ref: AxisRef) -> Axis:
        """Return the axis, or part of an axis, to which a reference refers.

        Raises:
            VerifyError: The mesh has no such axis.
        """
        size = self.sizes.get(ref.name)
        if size is None:
            raise VerifyError(f'unknown axis name: "{ref.name}"')
        if ref.size is None:
            return Axis(ref.name, 1, size, whole=True)
        if ref.before < 1:
            text = f'"{ref.name}":({ref.before}){ref.size}'
            raise VerifyError(f"sub-axis pre-size must be at least 1: {text}")
        return Axis(ref.name, ref.before, ref.before * ref.size, whole=False)

    def is_sorted(self, refs: Sequence[AxisRef]) -> bool:
        """Are references in the mesh's axis order, and parts of one axis in order of pre-size?"""
        keys = [(self._order.get(r.name, -1), r.before, r.size or 0) for r in refs]
        return keys == sorted(keys)

    def merged(self, axes: Iterable[Axis], more: Iterable[Axis] = ()) -> Axes:
        """Return `axes` followed by `more`.

        A part that continues the last part of the same axis is joined to it.
        """
        found = list(axes)
        for axis in more:
            last = found[-1] if found else None
            if last is not None and last.name == axis.name and last.after == axis.before:
                whole = last.before == 1 and axis.after == self.sizes[axis.name]
                found[-1] = Axis(axis.name, last.before, axis.after, whole)
            else:
                found.append(axis)
        return tuple(found)

    def set_of(self, axes: Iterable[Axis]) -> Axes:
        """Return the axes in the order of the mesh, with adjacent parts of an axis joined."""
        return self.merged((), sorted(axes, key=lambda a: (self._order[a.name], a.before)))


def part_count(axes: Iterable[Axis]) -> int:
    """Return the number of parts into which axes divide a dimension: the product of their sizes."""
    return prod([axis.after // axis.before for axis in axes])


class AxisCollector:
    """Collects the axis references of one sharding or collective, and checks them for duplicates.

    Source: `verifyAxisRefList` and `verifySubAxes`.
    """

    def __init__(self, grid: Grid) -> None:
        """Create an empty collection for a mesh."""
        self._grid = grid
        self._seen: dict[AxisRef, None] = {}

    def add(self, refs: Sequence[AxisRef]) -> Axes:
        """Check a list of axis references, and return its axes.

        The axes must exist, be distinct, and be written with as few parts as possible: two
        consecutive parts of one axis that can be written as one are an error.

        Raises:
            VerifyError: The list is invalid; the message is Shardy's.
        """
        last: AxisRef | None = None
        for ref in refs:
            if ref.name not in self._grid.sizes:
                raise VerifyError(f'unknown axis name: "{ref.name}"')
            if ref in self._seen:
                raise VerifyError(f"duplicate axis ref: {ref_text(ref)}")
            self._seen[ref] = None
            if last is not None and _continues(last, ref):
                raise VerifyError(
                    f"two consecutive sub-axes can be merged: {ref_text(last)}, {ref_text(ref)}"
                )
            last = ref
        return tuple([Axis(*_interval(ref, self._grid)) for ref in refs])

    def check_parts(self) -> None:
        """Check all parts of axes that were added.

        Sizes divide the axis, parts do not overlap, and an axis is not used both completely and in
        parts.

        Raises:
            VerifyError: A part is invalid; the message is Shardy's.
        """
        parts: dict[str, list[AxisRef]] = {}
        for ref in self._seen:
            if ref.size is not None:
                parts.setdefault(ref.name, []).append(ref)
        for name, refs in parts.items():
            if AxisRef(name) in self._seen:
                raise VerifyError(f'both sub-axis and full-axis are used for axis name: "{name}"')
            _check_parts(sorted(refs, key=lambda r: (r.before, r.size)), self._grid.sizes[name])


def _continues(last: AxisRef, ref: AxisRef) -> bool:
    """Are both references parts of one axis, so that `ref` begins where `last` ends?"""
    if last.size is None or ref.size is None or last.name != ref.name:
        return False
    return last.before * last.size == ref.before


def _interval(ref: AxisRef, grid: Grid) -> tuple[str, int, int, bool]:
    if ref.size is None:
        return ref.name, 1, grid.sizes[ref.name], True
    return ref.name, ref.before, ref.before * ref.size, False


def _check_parts(refs: Sequence[AxisRef], total: int) -> None:
    """Check the parts of one axis: sizes divide `total`, the axis's size, and parts do not overlap.

    `refs` are sorted by pre-size.
    """
    last: AxisRef | None = None
    for ref in refs:
        text, size = ref_text(ref), ref.size or 0
        if ref.before < 1:
            raise VerifyError(f"sub-axis pre-size must be at least 1: {text}")
        if size <= 1:
            raise VerifyError(f"sub-axis sizes must be greater than 1: {text}")
        # The parts are sorted, so that an overlap, if there is one, is between neighbours.
        if total % (ref.before * size):
            raise VerifyError(
                f"sub-axis next pre-size {ref.before * size} doesn't divide the size of the full"
                f" axis {total}: {text}"
            )
        if size == total:
            raise VerifyError(f"sub-axis size is equal to the full axis size: {text}")
        if last is not None and last.before * (last.size or 0) > ref.before:
            raise VerifyError(f"overlapping sub-axes: {ref_text(last)}, {text}")
        last = ref


def ref_text(ref: AxisRef) -> str:
    """Return an axis reference in Shardy's notation.

    >>> ref_text(AxisRef("x", 2, 4)), ref_text(AxisRef("y"))
    ('"x":(2)4', '"y"')
    """
    name = attribute_text(StringAttr(ref.name.encode("utf-8", "surrogateescape")))
    return name if ref.size is None else f"{name}:({ref.before}){ref.size}"


def check_mesh(mesh: Mesh) -> None:
    """Check the sizes, names and device ids of a mesh.

    Source: `MeshAxisAttr::verify`, `MeshAttr::verify`.

    Raises:
        VerifyError: The mesh is invalid; the message is Shardy's.
    """
    names: set[str] = set()
    # All sizes are checked before names, and names before devices, as in Shardy.
    for _, size in mesh.axes:
        if size < 1:
            raise VerifyError(f"axis size must be at least 1, got: {size}")
    for name, _ in mesh.axes:
        if name in names:
            raise VerifyError(f'duplicate axis name: "{name}"')
        names.add(name)
    if mesh.device_ids is None:
        return
    ids, total = mesh.devices, prod([size for _, size in mesh.axes])
    for device in ids:
        if device < 0:
            raise VerifyError(f"device id must be non-negative, got: {device}")
    # A mesh without axes has one device, whose id is arbitrary.
    if not mesh.axes:
        if len(ids) > 1:
            raise VerifyError("axes is empty and device_ids has more than one element")
        return
    if total != len(ids):
        raise VerifyError(
            "total product of axis sizes must match total number of device ids, got:"
            f" {total} != {len(ids)}"
        )
    if sorted(ids) != list(range(total)):
        listed = ", ".join(map(str, sorted(ids)))
        raise VerifyError(f"sorted device ids must be iota(product(axes)), got: {listed}")
