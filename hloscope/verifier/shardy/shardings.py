"""Sharding attributes of Shardy: structure, and the checks of each by itself.

Source: Shardy `verifiers.cc` (`verifyTensorShardingAttr`, `verifyOpShardingRuleAttr`) and
`parsers.cc`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from hloscope.dialects import axes_of, mesh_of, sdy_struct, sdy_text
from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import TensorType, TokenType, TupleType, Type, UnrankedTensorType
from hloscope.lazy import pattern
from hloscope.mlir import Attribute, StructAttr, VerbatimAttr, type_text
from hloscope.ops import AxisRef, Mesh
from hloscope.verifier.shardy.axes import Axes, Grid, SeenAxes


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
        """True if the sharding has neither dimensions nor axes."""
        return not (self.dimensions or self.replicated or self.unreduced)

    @property
    def is_replicated(self) -> bool:
        """True if the sharding divides nothing, with or without dimensions."""
        return not (any(self.dimensions) or self.unreduced)

    def without(self, names: Collection[str]) -> Sharding:
        """Return the sharding without the axes of these names."""

        def kept(refs: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
            return tuple([ref for ref in refs if ref.name not in names])

        return self._replace(
            dimensions=tuple(map(kept, self.dimensions)),
            replicated=kept(self.replicated),
            unreduced=kept(self.unreduced),
        )


_TOKEN: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|-?\w[\w.$]*|\S')
_OTHERWISE: Final = pattern(r"#|\b0x")
"""Aliases and hexadecimal numbers in the text: MLIR reads them, `sdy_struct` does not."""

_REDUCTION: Final = pattern(r"\bunreduced\s*=\s*[a-z]+\s*\{")
"""Unreduced axes with a named reduction, as later versions of Shardy write them."""


def struct_of(attribute: Attribute | None, *names: str) -> StructAttr | None:
    """Return the structure of a Shardy attribute; `None` if it has another name or notation.

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
    """Is it a Shardy attribute of one of these names?  Its content is not parsed."""
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
    """Return the tokens of an attribute's text, independent of spacing, quoting and empty parts."""
    found = ["@" if token[0] == '"' else token for token in _TOKEN.findall(text)]
    joined = " ".join(found).replace("@ @", "@").replace(", device_ids = [ ]", "")
    return _NAMED.sub("@", joined).split(" ")


_NAMED: Final = pattern(r"@ \w[\w.$]*")

SHARDING: Final = ("sharding", "sharding_unreduced")
PER_VALUE: Final = ("sharding_per_value", "sharding_per_value_2")


def sharding_of(attribute: StructAttr) -> Sharding | None:
    """Return the sharding in a structure; `None` if a part of it is not supported."""
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
    """Return the shardings of `#sdy.sharding_per_value<[…]>`; `None` for unsupported ones."""
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
        VerifyError: With Shardy's message.
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
    seen = SeenAxes(grid)
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


def cut(sharding: Sharding, grid: Grid) -> tuple[Axes, ...]:
    """Return the axes of each dimension as intervals, for a valid sharding."""
    return tuple([tuple([grid.axis(ref) for ref in refs]) for refs in sharding.dimensions])


def check_rule(rule: StructAttr, operands: Sequence[Type], results: Sequence[Type]) -> None:
    """Check `#sdy.op_sharding_rule<…>` against the types of its op.

    Raises:
        VerifyError: With Shardy's message.
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
        name = _factor_name(missing[0])
        raise VerifyError(
            f"has factor {name}={sizes[missing[0]]} that isn't used in operand and result mappings"
        )
    _check_sets(rule, len(sizes))


def _check_mapping(
    where: str, type_: Type, mapping: StructAttr, sizes: tuple[int, ...]
) -> set[int]:
    """Check the factors of one operand or result; return their numbers."""
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
    """Check the special factors of a rule: sorted, unique, in one set, none reduced in results."""
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


def _factor_name(number: int) -> str:
    """Name of a factor in messages: `i` to `z`, then `z_1` and so on."""
    return chr(ord("i") + number) if number < _LETTERS else f"z_{number - _LETTERS + 1}"


_LETTERS: Final = 18


def _numbers(value: object) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else ()
