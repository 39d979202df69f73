"""Text of shardings, meshes, replica groups, metadata and lists of names, from protos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from hloscope.errors import ParseError
from hloscope.hlo_parser.proto.wire import Message, tag_of
from hloscope.hlo_parser.values import quote

_TUPLE: Final = 2
_MAXIMAL: Final = 1
_TILED: Final = 3
_WHOLE: Final = {0: "replicated", 4: "manual", 5: "unknown", 6: "unreduced"}
_GROUPS: Final = {0: " shard_as ", 1: " shard_like "}


def numbers(values: Sequence[int]) -> str:
    """Return `1,2`."""
    return ",".join(map(str, values))


_METADATA: Final[dict[str, Callable[[Any], str]]] = {
    **dict.fromkeys(("op_type", "op_name", "source_file"), quote),
    **dict.fromkeys(("source_line", "source_end_line", "source_column", "source_end_column"), str),
    "profile_type": lambda types: f"{{{numbers(types)}}}",
    **dict.fromkeys(("deduplicated_name", "scheduling_name"), quote),
    "size_of_generated_code_in_bytes": str,
    "size_of_memory_working_set_in_bytes": str,
    "stack_frame_id": str,
}
"""Writers of the fields of metadata, in the order of the text."""
_OWN: Final = frozenset(("scheduling_name", "deduplicated_name"))
"""Fields that usually differ between any two instructions."""
_ORDER: Final = list(_METADATA)
_PLACE: Final = _ORDER.index("scheduling_name")
_BEFORE_NAME, _AFTER_NAME = frozenset(_ORDER[:_PLACE]), frozenset(_ORDER[_PLACE + 1 :])
_SCHEDULING_NAME: Final = tag_of("OpMetadata", "scheduling_name")


def metadata_text(metadata: Message) -> str:
    """Return `{op_name="f" source_line=3}`.

    Source: XLA's `OpMetadataToString`.
    """
    known, data = metadata.file.metadata, metadata.data
    text = known.get(data)
    if text is None:
        text = known[data] = _metadata_text(metadata)
    return text


def source_text(ins: Message) -> str:
    """Return the text of an instruction's metadata; empty if it has none.

    Most dumps end it with the instruction's own name, and the text before that repeats.
    """
    name, data = ins.piece("name"), ins.piece("metadata")
    if not name or not data or len(name) > 127:
        return _whole_metadata_text(ins)
    own = _SCHEDULING_NAME + bytes((len(name),)) + name
    if not data.endswith(own):
        return _whole_metadata_text(ins)
    before, known = data[: -len(own)], ins.file.metadata_halves
    halves = known.get(before)
    if halves is None:
        try:
            halves = known[before] = _halves(ins["metadata"].cut(len(own)))
        except ParseError:  # those bytes are the end of another field
            return _whole_metadata_text(ins)
    return f"{{{halves[0]}scheduling_name={quote(ins['name'])}{halves[1]}}}"


def _whole_metadata_text(ins: Message) -> str:
    text = metadata_text(ins["metadata"]) if ins.says("metadata") else ""
    return text if text != "{}" else ""


def _halves(metadata: Message) -> tuple[str, str]:
    """Return the text before and after the position of a scheduling name."""
    parts = _parts(metadata)
    first = [text for name, text in parts if name in _BEFORE_NAME]
    last = [text for name, text in parts if name in _AFTER_NAME]
    return "".join([f"{text} " for text in first]), "".join([f" {text}" for text in last])


def _metadata_text(metadata: Message) -> str:
    return f"{{{' '.join([text for _, text in _parts(metadata)])}}}"


def _parts(metadata: Message) -> list[tuple[str, str]]:
    """Return names and texts of the fields to write, in order."""
    parts, known = [], metadata.file.metadata_fields
    for name, write in _written(tuple(metadata.given)):
        key = name, metadata.piece(name)
        text = known.get(key)
        if text is None:
            value = metadata[name]
            text = f"{name}={write(value)}" if value else ""
            if key[1] is not None and name not in _OWN:
                known[key] = text
        if text:
            parts.append((name, text))
    return parts


# Metadata of a module has few combinations of fields.
@lru_cache(maxsize=1 << 10)
def _written(given: tuple[str, ...]) -> list[tuple[str, Callable[[Any], str]]]:
    """Return the fields to write and their writers, in the order of the text."""
    return [(name, write) for name, write in _METADATA.items() if name in given]


def sharding_text(sharding: Message) -> str:
    """Return the text of a sharding with its braces.

    Raises:
        UnsupportedError: The sharding has an unknown kind.
    """
    if sharding["type"] == _TUPLE:
        return f"{{{', '.join(map(sharding_text, sharding['tuple_shardings']))}}}"
    if "named_sharding" in sharding:
        return _named(sharding["named_sharding"])
    tail = ""
    if sharding["is_shard_group"]:
        tail += sharding.word("shard_group_type", _GROUPS) + str(sharding["shard_group_id"])
    tail += _metadata(sharding)
    if sharding["type"] == _MAXIMAL:
        return f"{{maximal device={numbers(sharding['tile_assignment_devices'])}{tail}}}"
    if sharding["type"] != _TILED:
        return f"{{{sharding.word('type', _WHOLE)}{tail}}}"
    devices = f"devices=[{numbers(sharding['tile_assignment_dimensions'])}]"
    devices += _iota(sharding) or numbers(sharding["tile_assignment_devices"])
    if sharding["replicate_on_last_tile_dim"]:
        devices += " last_tile_dim_replicate"
    if kinds := sharding["last_tile_dims"]:
        if not set(kinds) <= set(_WHOLE):
            sharding.refuse("last_tile_dims", f"kinds {kinds} are not known")
        devices += f" last_tile_dims={{{', '.join(_WHOLE[kind] for kind in kinds)}}}"
    return f"{{{devices}{tail}}}"


def _metadata(sharding: Message) -> str:
    parts = list(map(metadata_text, sharding["metadata"]))
    if len(parts) == 1:
        return f" metadata={parts[0]}"
    return f" metadata={{{', '.join(parts)}}}" if parts else ""


def _iota(
    devices: Message, dims: str = "iota_reshape_dims", by: str = "iota_transpose_perm"
) -> str:
    if not devices[dims]:
        return ""
    order = devices[by]
    turned = f"T({numbers(order)})" if list(order) != list(range(len(order))) else ""
    return f"<=[{numbers(devices[dims])}]{turned}"


def _mesh(mesh: Message) -> str:
    axes = ",".join(f"'{axis['name']}'={axis['size']}" for axis in mesh["axes"])
    text = f"mesh[{axes}]"
    if "iota_transform" in mesh:
        iota = _iota(mesh["iota_transform"], "reshape_dims", "transpose_perm")
        return f"{text}, device_ids=({iota.removeprefix('<=')})"
    return f"{text}, device_ids=({numbers(mesh['device_ids'])})" if mesh["device_ids"] else text


def _axis(ref: Message, mesh: Message) -> str:
    axes, number = mesh["axes"], ref["mesh_axis_index"]
    if not 0 <= number < len(axes):
        ref.fail("mesh_axis_index", f"axis {number} of {len(axes)}")
    part = ref["sub_axis_info"]
    size = f":({part['pre_size']}){part['size']}" if "sub_axis_info" in ref else ""
    return f"'{axes[number]['name']}'{size}"


def _axes(refs: Sequence[Message], mesh: Message) -> list[str]:
    return [_axis(ref, mesh) for ref in refs]


def _named(sharding: Message) -> str:
    mesh = sharding["mesh"]
    dimensions = (
        ", ".join([*_axes(one["axes"], mesh), *(() if one["is_closed"] else ("?",))])
        for one in sharding["dim_shardings"]
    )
    parts = [_mesh(mesh), f"[{', '.join(f'{{{one}}}' for one in dimensions)}]"]
    parts += [
        f"{role}={{{', '.join(_axes(sharding[f'{role}_axes'], mesh))}}}"
        for role in ("replicated", "unreduced", "manual")
        if sharding[f"{role}_axes"]
    ]
    return f"{{{', '.join(parts)}{_metadata(sharding)}}}"


def groups_text(ins: Message) -> str | None:
    """Return the replica groups of a collective in their own notation, or `None`."""
    if "mesh_axes_replica_group_list" in ins:
        groups = ins["mesh_axes_replica_group_list"]
        mesh = groups["mesh"]
        return f"{_mesh(mesh)} {{{','.join(_axes(groups['axes'], mesh))}}}"
    devices = ins["collective_device_list"]
    iotas = (ins["iota_collective_device_list"], devices["iota_replica_group_list"])
    for iota in iotas:
        if iota["iota_reshape_dims"]:
            size = f"[{iota['num_replica_groups']},{iota['num_devices_per_group']}]"
            return size + _iota(iota)
    listed = devices["replica_groups"] or ins["replica_groups"]
    texts = (f"{{{numbers(group['replica_ids'])}}}" for group in listed)
    return f"{{{','.join(texts)}}}"
