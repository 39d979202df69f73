"""Meshes, axes and shardings as values, from attributes.

Source: Shardy's `MeshAttr`, `TensorShardingAttr`, `ManualAxesAttr`; StableHLO's
`ReplicaGroupMeshAxesAttr`, whose meshes have the same structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hloscope.dialects.attributes.shardy import sdy_struct
from hloscope.errors import UnsupportedError
from hloscope.ir import Dims
from hloscope.lazy import pattern
from hloscope.mlir import (
    ArrayAttr,
    DenseAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
    expanded,
    unquoted,
)
from hloscope.ops import AxisRef, Mesh, NamedSharding

_NAMED_MESH: Final = pattern(
    r'@?(?P<name>[\w.$-]+|"[^"]*")\s*=\s*(?:#sdy\.mesh)?(?P<mesh><\[[^\]]*\](?:,[^>]*)?>)'
)


def mesh_of(attribute: object) -> Mesh | str:
    """Return the mesh of an attribute, or its name.

    >>> mesh_of(sdy_struct('#sdy.mesh<["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>')).axes
    (('x', 2), ('y', 4))

    Raises:
        UnsupportedError: The attribute is not a mesh.
    """
    if isinstance(attribute, SymbolAttr):
        return attribute.root
    axes = [(_name(a), _number(_field(a, "size"))) for a in _elements(_field(attribute, "axes"))]
    return Mesh(tuple(axes), _devices(_field(attribute, "device_ids")))


def _devices(ids: object) -> Dims | None:
    if isinstance(ids, DenseAttr):
        return expanded(ids)
    return tuple(map(_number, ids)) if isinstance(ids, tuple) and ids else None


def axis_of(attribute: object) -> AxisRef:
    """Return the axis, or the sub-axis, that an attribute names.

    Raises:
        UnsupportedError: The attribute is not a reference to an axis.
    """
    part, name = _field(attribute, "sub_axis_info"), _name(attribute)
    if isinstance(part, StructAttr):
        return AxisRef(name, _number(part.get("pre_size")), _number(part.get("size")))
    return AxisRef(name)


def axes_of(attribute: object) -> tuple[AxisRef, ...]:
    """Return the axes in the field `axes` of an attribute.

    Raises:
        UnsupportedError: The attribute has no such field.
    """
    return tuple(map(axis_of, _elements(_field(attribute, "axes"))))


def meshes_in(text: str) -> Mapping[str, Mesh]:
    """Return the meshes of `sdy.mesh @m = <…>`, or of `{m = #sdy.mesh<…>, …}`, by name.

    >>> meshes_in('sdy.mesh @m = <["x"=2, "y"=4]>')["m"].axes
    (('x', 2), ('y', 4))

    Raises:
        UnsupportedError: A mesh is not understood.
    """
    found = {}
    for each in _NAMED_MESH.finditer(text):
        name, mesh = each["name"], mesh_of(sdy_struct("#sdy.mesh" + each["mesh"]))
        quoted = name.startswith('"')
        assert isinstance(mesh, Mesh)
        found[unquoted(name).decode("utf-8", "surrogateescape") if quoted else name] = mesh
    return found


def sharding_of(attribute: StructAttr) -> NamedSharding:
    """Return the sharding of `#sdy.sharding<…>`, given as `sdy_struct` reads it."""
    dimensions = _elements(_field(attribute, "dimensions"))
    roles = [(role, _elements(attribute.get(role))) for role in ("replicated", "unreduced")]
    return NamedSharding(
        mesh_of(_field(attribute, "mesh")),
        tuple(map(axes_of, dimensions)),
        tuple(n for n, d in enumerate(dimensions) if not _field(d, "is_closed")),
        tuple((role, tuple(map(axis_of, axes))) for role, axes in roles if axes),
    )


def shardy_value(text: str) -> Any:
    """Return the value of a Shardy attribute: a mesh, shardings, or names of manual axes.

    >>> shardy_value('#sdy.sharding_per_value<[<@m, [{"y":(2)2}, {?}]>]>')[0].dimensions
    ((AxisRef(name='y', before=2, size=2),), ())
    >>> shardy_value('#sdy<manual_axes{"x", "y"}>')
    ('x', 'y')

    Raises:
        UnsupportedError: The text is not understood.
    """
    attribute = sdy_struct(text)
    match attribute.name:
        case "mesh":
            return mesh_of(attribute)
        case "sharding" | "sharding_unreduced":
            return sharding_of(attribute)
        case "sharding_per_value" | "sharding_per_value_2":
            return tuple(map(sharding_of, _elements(_field(attribute, "shardings"))))
        case "manual_axes":
            return tuple(map(_string, _elements(_field(attribute, "axes"))))
    raise UnsupportedError(f"`{text[:100]}` is not read as a value")


def _field(attribute: object, name: str) -> object:
    if not isinstance(attribute, StructAttr):
        raise UnsupportedError("axes of a mesh in an unknown notation")
    return attribute.get(name)


def _elements(attribute: object) -> tuple[Any, ...]:
    if isinstance(attribute, tuple):
        return attribute
    return attribute.elements if isinstance(attribute, ArrayAttr) else ()


def _name(attribute: object) -> str:
    return _string(_field(attribute, "name"))


def _string(value: object) -> str:
    if isinstance(value, StringAttr):
        return value.text
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise UnsupportedError("axes of a mesh in an unknown notation")
    return value
