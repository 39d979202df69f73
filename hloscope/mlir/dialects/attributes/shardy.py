"""Attributes of Shardy: meshes, axes and shardings as values, in text and in bytecode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from hloscope.errors import UnsupportedError
from hloscope.ir import Dims
from hloscope.mlir import (
    ArrayAttr,
    DenseAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
    attribute_text,
    expanded,
    plain_name,
    unquoted,
)
from hloscope.ops import AxisRef, Mesh, NamedSharding
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Meshes, axes and shardings as values, from attributes.
#
# Source: Shardy's `MeshAttr`, `TensorShardingAttr`, `ManualAxesAttr`; StableHLO's
# `ReplicaGroupMeshAxesAttr`, whose meshes have the same structure.


_NAMED_MESH: Final = pattern(
    r'@?(?P<name>[\w.$-]+|"[^"]*")\s*=\s*(?:#sdy\.mesh)?(?P<mesh><\[[^\]]*\](?:,[^>]*)?>)'
)


def mesh_of(attribute: object) -> Mesh | str:
    """Return the mesh that an attribute describes, or the name of the mesh that it refers to.

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
    """Return the axis or sub-axis that an attribute refers to.

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
    """Return the meshes in a text, by the mesh's name.

    The text is of ops `sdy.mesh @m = <…>`, or of a dictionary `{m = #sdy.mesh<…>, …}`.

    >>> meshes_in('sdy.mesh @m = <["x"=2, "y"=4]>')["m"].axes
    (('x', 2), ('y', 4))

    Raises:
        UnsupportedError: The text of a mesh is not in a known form.
    """
    found = {}
    for each in _NAMED_MESH.finditer(text):
        name, mesh = each["name"], mesh_of(sdy_struct("#sdy.mesh" + each["mesh"]))
        assert isinstance(mesh, Mesh)
        found[plain_name(name)] = mesh
    return found


def sharding_of(attribute: StructAttr) -> NamedSharding:
    """Return the sharding of a parsed attribute `#sdy.sharding<…>`."""
    dimensions = _elements(_field(attribute, "dimensions"))
    roles = [(role, _elements(attribute.get(role))) for role in ("replicated", "unreduced")]
    return NamedSharding(
        mesh_of(_field(attribute, "mesh")),
        tuple(map(axes_of, dimensions)),
        tuple(n for n, d in enumerate(dimensions) if not _field(d, "is_closed")),
        tuple((role, tuple(map(axis_of, axes))) for role, axes in roles if axes),
    )


def shardy_value(text: str) -> Any:
    """Return the value of the text of a Shardy attribute: a mesh, shardings, or manual axes' names.

    Raises:
        UnsupportedError: It is another attribute.

    >>> shardy_value('#sdy.sharding_per_value<[<@m, [{"y":(2)2}, {?}]>]>')[0].dimensions
    ((AxisRef(name='y', before=2, size=2),), ())
    >>> shardy_value('#sdy<manual_axes{"x", "y"}>')
    ('x', 'y')
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
            return tuple(map(_decoded, _elements(_field(attribute, "axes"))))
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
    return _decoded(_field(attribute, "name"))


def _decoded(value: object) -> str:
    if isinstance(value, StringAttr):
        return value.text
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise UnsupportedError("axes of a mesh in an unknown notation")
    return value


# --------------------------------------------------------------------------------------------------
# Attributes of Shardy: text as in programs, and structures as in bytecode.
#
# In an MLIR syntax tree they are stored as text.  Bytecode and `shardings` need the structures.


SDY_STRUCTS: Final = {
    "manual_axes": ("axes",),
    "mesh_axis": ("name", "size"),
    "mesh": ("axes", "device_ids"),
    "sub_axis_info": ("pre_size", "size"),
    "axis_ref": ("name", "sub_axis_info"),
    "dimension_sharding": ("axes", "is_closed", "priority"),
    "sharding": ("mesh", "dimensions", "replicated"),
    "sharding_per_value": ("shardings",),
    "dim_mapping": ("factors",),
    "tensor_mapping": ("dimensions",),
    "op_sharding_rule": (
        *("sizes", "operands", "results", "reduction", "need_replication", "permutation"),
        *("blocked_propagation", "is_custom"),
    ),
    "axis_ref_list": ("axes",),
    "list_of_axis_ref_lists": ("lists",),
    "all_to_all_param": ("axes", "source", "target"),
    "all_to_all_param_list": ("params",),
    "sharding_unreduced": ("mesh", "dimensions", "replicated", "unreduced"),
    "sharding_per_value_2": ("shardings",),
    "sharding_reduction": ("mesh", "dimensions", "replicated", "unreduced", "reduction"),
}
"""Names of the fields of each structure, by the structure's name."""


# ---------------------------------------------------------------------------------------- text

_FIRST, _LETTERS = ord("i"), 18


def factor_name(number: int) -> str:
    """Return the name of factor `number` in a sharding rule: `i` to `z`, then `z_1`, `z_2` …."""
    return chr(_FIRST + number) if number < _LETTERS else f"z_{number - _LETTERS + 1}"


def _list(values: Iterable[Any]) -> str:
    return ", ".join(map(_text, values))


def _braced(values: Iterable[Any]) -> str:
    return f"{{{_list(values)}}}"


def _string(value: bytes) -> str:
    return attribute_text(StringAttr(value))


def _dimension(axes: Iterable[Any], is_closed: int, priority: int) -> str:
    """Return the text of a dimension's sharding, `{"x", ?}p1`.

    Args:
        axes: The axes that divide the dimension.
        is_closed: 1 if no axes may be added, else 0.
        priority: Bit 0 says whether there is a priority; the other bits are its value.
    """
    parts = [*map(_text, axes), *([] if is_closed else ["?"])]
    return f"{{{', '.join(parts)}}}" + (f"p{priority >> 1}" if priority & 1 else "")


def _mesh(axes: Iterable[Any], ids: tuple[int, ...]) -> str:
    rest = f", device_ids=[{', '.join(map(str, ids))}]" if ids else ""
    return f"<[{_list(axes)}]{rest}>"


def _sharding(mesh: Any, dimensions: Any, replicated: Any, unreduced: Any = ()) -> str:
    head = attribute_text(mesh) if isinstance(mesh, SymbolAttr) else f"mesh{_text(mesh)}"
    rest = f", replicated={_braced(replicated)}" if replicated else ""
    rest += f", unreduced={_braced(unreduced)}" if unreduced else ""
    return f"<{head}, [{_list(dimensions)}]{rest}>"


def _rule(sizes: Any, operands: Any, results: Any, *rest: Any) -> str:
    """Return the text of an op's sharding rule, `<([i, j])->([j]) {i=2, j=3} …>`.

    `sizes` has the size of each factor, `operands` and `results` their mappings. `rest` has four
    sets of factors with special roles, then whether the rule is custom.
    """
    *sets, custom = rest
    named = ("reduction", "need_replication", "permutation", "blocked_propagation")
    text = f"<({_list(operands)})->({_list(results)})"
    text += f" {{{', '.join(f'{factor_name(i)}={size}' for i, size in enumerate(sizes))}}}"
    for name, factors in zip(named, sets, strict=True):
        if factors:
            text += f" {name}={{{', '.join(map(factor_name, factors))}}}"
    return text + (", custom>" if custom else ">")


_TEXTS: Final[dict[str, Callable[..., str]]] = {
    "manual_axes": _braced,
    "mesh_axis": lambda name, size: f"{_string(name)}={size}",
    "mesh": _mesh,
    "sub_axis_info": lambda before, size: f"({before}){size}",
    "axis_ref": lambda name, part: _string(name) + (f":{_text(part)}" if part else ""),
    "dimension_sharding": _dimension,
    "sharding": _sharding,
    "sharding_per_value": lambda shardings: f"<[{_list(shardings)}]>",
    "dim_mapping": lambda factors: "".join(map(factor_name, factors)),
    "tensor_mapping": lambda dimensions: f"[{_list(dimensions)}]",
    "op_sharding_rule": _rule,
    "axis_ref_list": _braced,
    "list_of_axis_ref_lists": lambda lists: f"[{_list(lists)}]",
    "all_to_all_param": lambda axes, source, target: f"{_braced(axes)}: {source}->{target}",
    "all_to_all_param_list": lambda params: f"[{_list(params)}]",
    "sharding_unreduced": _sharding,
    "sharding_per_value_2": lambda shardings: f"<[{_list(shardings)}]>",
}
"""Function by the name of an attribute; it returns the text after the name, given the fields."""

_BARE: Final = ("manual_axes", "axis_ref_list", "list_of_axis_ref_lists", "all_to_all_param_list")
"""Names of attributes that are written `#sdy<name…>`; others are written `#sdy.name…`."""


def _text(value: object) -> str:
    """Return a Shardy attribute as text: a structure without its name, a string with its quotes.

    Raises:
        UnsupportedError: The structure is not known.
        ValueError: The value is neither a structure of Shardy nor a string.
    """
    if isinstance(value, StructAttr) and value.dialect == "sdy":
        if value.name not in _TEXTS:
            raise UnsupportedError(f"an attribute {value.name} of Shardy is not read yet")
        return _TEXTS[value.name](*[field for _, field in value.fields])
    if isinstance(value, StringAttr):
        return attribute_text(value)
    raise ValueError("an attribute of Shardy is needed")


def sdy_text(value: StructAttr) -> str:
    """Return a Shardy attribute as text, as it is in programs, with `#sdy`.

    >>> axis = StructAttr("sdy", "axis_ref", (("name", b"x"), ("sub_axis_info", None)))
    >>> sdy_text(StructAttr("sdy", "axis_ref_list", (("axes", (axis,)),)))
    '#sdy<axis_ref_list{"x"}>'

    Raises:
        UnsupportedError: The notation of the attribute is not known.
    """
    name = value.name.partition("_unreduced")[0].removesuffix("_2")
    return f"#sdy<{name}{_text(value)}>" if name in _BARE else f"#sdy.{name}{_text(value)}"


# ------------------------------------------------------------------------------------- reading

_TOKEN: Final = pattern(
    r'\s*("(?:[^"\\]|\\.)*"|@"(?:[^"\\]|\\.)*"|@[\w$.-]+|->|[a-z]\w*|-?\d+|[\[\](){}<>,:=?])'
)
_HEAD: Final = pattern(r"#sdy(?:\.(\w+)|<(\w+))")


# Cached: `serialize` of 1,500 ops with shardings takes 1.6 × as long without it.
@lru_cache(maxsize=1 << 12)
def sdy_struct(text: str) -> StructAttr:
    """Return the structure that the text of a Shardy attribute, `#sdy.name<…>`, denotes.

    >>> sdy_struct('#sdy.mesh<["x"=2]>').fields[1]
    ('device_ids', ())

    Raises:
        UnsupportedError: The text is not in a known form.
    """
    found = _HEAD.match(text)
    reader = _Reader(text, found.end() if found else 0)
    name = (found[1] or found[2]) if found else ""
    read = _READERS.get(name)
    if read is None:
        reader.fail()
    return read(reader)


def _struct(name: str, *values: Any) -> StructAttr:
    return StructAttr("sdy", name, tuple(zip(SDY_STRUCTS[name], values, strict=True)))


class _Reader:
    """Reader of the tokens of an attribute's text; the grammar is not recursive."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.tokens = text, _TOKEN.findall(text, at)
        self.at = 0

    def fail(self) -> NoReturn:
        raise UnsupportedError(f"`{self.text[:100]}` is not a known attribute of Shardy")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        self.at += 1
        if self.at > len(self.tokens):
            self.fail()
        return str(self.tokens[self.at - 1])

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                self.fail()

    def number(self) -> int:
        token = self.next()
        return int(token) if token.lstrip("-").isdigit() and len(token) < 20 else self.fail()

    def string(self) -> bytes:
        token = self.next()
        if token[:1] != '"':
            self.fail()
        return unquoted(token)

    def many(self, opening: str, read: Callable[[_Reader], Any], closing: str) -> tuple[Any, ...]:
        """Return the items of a list in brackets, separated by commas.

        Args:
            opening: The opening bracket.
            read: Function that reads one item.
            closing: The closing bracket.
        """
        self.expect(opening)
        found: list[Any] = []
        while not self.accept(closing):
            if found:
                self.expect(",")
            found.append(read(self))
        return tuple(found)

    def factor(self) -> int:
        found = list(_factors(self.next())) or [-1]
        return found[0] if len(found) == 1 and found[0] >= 0 else self.fail()


def _factors(word: str) -> Iterable[int]:
    """Yield the numbers of the factors in a text such as `ijz_1`: 0, 1 and 18."""
    for piece in _FACTOR.findall(word):
        yield _LETTERS + int(piece[2:]) - 1 if "_" in piece else ord(piece) - _FIRST


_FACTOR: Final = pattern(r"z_\d{1,9}|[i-z]")


def _axis(reader: _Reader) -> StructAttr:
    name, part = reader.string(), None
    if reader.accept(":"):
        reader.expect("(")
        before = reader.number()
        reader.expect(")")
        part = _struct("sub_axis_info", before, reader.number())
    return _struct("axis_ref", name, part)


def _axes(reader: _Reader) -> tuple[Any, ...]:
    return reader.many("{", _axis, "}")


def _read_dimension(reader: _Reader) -> StructAttr:
    """Read the sharding of a dimension, `{"x", "y", ?}p1`, and return its structure.

    It has the axes, whether more may be added (`?`), and the priority.
    """
    reader.expect("{")
    axes: list[Any] = []
    closed, priority = 1, 0
    while not reader.accept("}"):
        if axes:
            reader.expect(",")
        if reader.accept("?"):
            reader.expect("}")
            closed = 0
            break
        axes.append(_axis(reader))
    if reader.peek()[:1] == "p" and reader.peek()[1:].isdecimal():
        priority = int(reader.next()[1:20]) << 1 | 1
    return _struct("dimension_sharding", tuple(axes), closed, priority)


def _mesh_axis(reader: _Reader) -> StructAttr:
    name = reader.string()
    reader.expect("=")
    return _struct("mesh_axis", name, reader.number())


def _read_mesh(reader: _Reader) -> StructAttr:
    reader.expect("<")
    axes, ids = reader.many("[", _mesh_axis, "]"), ()
    if reader.accept(","):
        reader.expect("device_ids", "=")
        ids = reader.many("[", _Reader.number, "]")
    reader.expect(">")
    return _struct("mesh", axes, ids)


def _read_sharding(reader: _Reader) -> StructAttr:
    """Return the sharding in `<@mesh, [{…}, …], replicated={…}, unreduced={…}>`."""
    reader.expect("<")
    mesh: Any
    if reader.accept("mesh"):
        mesh = _read_mesh(reader)
    else:
        word = reader.next()
        mesh = SymbolAttr(plain_name(word[1:])) if word[0] == "@" else reader.fail()
    reader.expect(",")
    dimensions = reader.many("[", _read_dimension, "]")
    rest: dict[str, Any] = {}
    while reader.accept(","):
        word = reader.next()
        reader.expect("=")
        rest[word] = _axes(reader)
    reader.expect(">")
    if not rest.keys() <= {"replicated", "unreduced"}:
        reader.fail()
    # Bytecode has another structure for shardings with unreduced axes.
    fields = [mesh, dimensions, rest.get("replicated", ())]
    if "unreduced" in rest:
        return _struct("sharding_unreduced", *fields, rest["unreduced"])
    return _struct("sharding", *fields)


def _read_shardings(reader: _Reader) -> StructAttr:
    reader.expect("<")
    shardings = reader.many("[", _read_sharding, "]")
    reader.expect(">")
    # If one sharding has unreduced axes, the whole list has another structure.
    unreduced = any(sharding.name == "sharding_unreduced" for sharding in shardings)
    return _struct("sharding_per_value_2" if unreduced else "sharding_per_value", shardings)


def _tensor(reader: _Reader) -> StructAttr:
    return _struct("tensor_mapping", reader.many("[", _mapping, "]"))


def _mapping(reader: _Reader) -> StructAttr:
    return _struct("dim_mapping", tuple(_factors(reader.next())))


def _size(reader: _Reader) -> int:
    reader.factor()
    reader.expect("=")
    return reader.number()


def _read_rule(reader: _Reader) -> StructAttr:
    """Return the rule in `<([i, j])->([j, i]) {i=2, j=3} reduction={…}, custom>`."""
    reader.expect("<")
    operands = reader.many("(", _tensor, ")")
    reader.expect("->")
    results = reader.many("(", _tensor, ")")
    sizes = reader.many("{", _size, "}") if reader.peek() == "{" else ()
    sets: dict[str, Any] = {}
    while reader.peek() not in (",", ">", ""):
        word = reader.next()
        reader.expect("=")
        sets[word] = reader.many("{", _Reader.factor, "}")
    custom = reader.accept(",")
    if custom:
        reader.expect("custom")
    reader.expect(">")
    named = ("reduction", "need_replication", "permutation", "blocked_propagation")
    found = [sets.get(name, ()) for name in named]
    return _struct("op_sharding_rule", sizes, operands, results, *found, int(custom))


def _manual(reader: _Reader) -> StructAttr:
    names = reader.many("{", lambda r: StringAttr(r.string()), "}")
    return _struct("manual_axes", names)


def _axis_list(reader: _Reader) -> StructAttr:
    return _struct("axis_ref_list", _axes(reader))


def _param(reader: _Reader) -> StructAttr:
    axes = _axes(reader)
    reader.expect(":")
    source = reader.number()
    reader.expect("->")
    return _struct("all_to_all_param", axes, source, reader.number())


_READERS: Final[dict[str, Callable[[_Reader], StructAttr]]] = {
    "manual_axes": _manual,
    "mesh": _read_mesh,
    "sharding": _read_sharding,
    "sharding_per_value": _read_shardings,
    "op_sharding_rule": _read_rule,
    "axis_ref_list": _axis_list,
    "list_of_axis_ref_lists": lambda reader: _struct(
        "list_of_axis_ref_lists", reader.many("[", _axis_list, "]")
    ),
    "all_to_all_param_list": lambda reader: _struct(
        "all_to_all_param_list", reader.many("[", _param, "]")
    ),
}
"""Function for each kind of attribute, by its name; it reads the text after the name."""


# --------------------------------------------------------------------------------------------------
# Values of frontend attributes with a known grammar; HLO and StableHLO have them as texts.
#
# Source: Shardy's export to `xla.sdy.*`; XLA's `_xla_send_recv_source_target_pairs`.


_PAIRS: Final = pattern(r"\s*\{((?:\s*\{\s*\d{1,18}\s*,\s*\d{1,18}\s*\}\s*,?)*)\s*\}\s*")
_PAIR: Final = pattern(r"(\d+)\s*,\s*(\d+)")


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs of device numbers in the text `{{0,1},{1,2}}`."""
    found = _PAIRS.fullmatch(text)
    if found is None:
        raise UnsupportedError(f"`{text[:100]}` lists no pairs of devices")
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(found[1]))


_FRONTEND_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "xla.sdy.meshes": meshes_in,
    "xla.sdy.in_shardings": shardy_value,
    "xla.sdy.out_shardings": shardy_value,
    "xla.sdy.manual_axes": shardy_value,
    "_xla_send_recv_source_target_pairs": _pairs,
}


def frontend_values(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return frontend attributes by name; texts in a known grammar become values.

    >>> frontend_values({"_xla_send_recv_source_target_pairs": "{{0,1},{1,2}}", "note": "{}"})
    {'_xla_send_recv_source_target_pairs': ((0, 1), (1, 2)), 'note': '{}'}
    """
    return {name: _value(name, text) for name, text in texts.items()}


def _value(name: str, text: Any) -> Any:
    """Return the value of frontend attribute `name`; its text if the notation is unknown."""
    read = _FRONTEND_READERS.get(name)
    if read is None or not isinstance(text, str):
        return text
    try:
        return read(text)
    except UnsupportedError:
        return text
