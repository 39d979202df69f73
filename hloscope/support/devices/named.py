"""Lookup of devices by name, or in a TOML file that describes one.

Devices that a TOML file describes.

    base = "h100"          # figures that the file does not state
    bandwidth_gbs = 3000
    [matrix]
    bf16 = 900

The file is data of at most `MOST_TEXT` bytes.  A key that is not in `KEYS` is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.support.devices.device import ALL_DEVICES, Device, DeviceError, Limits, Peaks
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import tomllib
else:
    tomllib = lazy("tomllib")


# --------------------------------------------------------------------------------------------------
# Lookup of devices by name, or in a file.


DEFAULT: Final = "h100"
DEVICES: Final = {name: device for name, device in ALL_DEVICES.items() if device.has_warps}
"""The devices that run threads in warps, by name.

`coalesce`, `footprint` and similar commands accept them.
"""
LIMITS: Final = {d.name: Limits(d.name, d.block_shared, d.registers) for d in DEVICES.values()}
"""Resource limits of one block, for the devices with warps."""
_ALIASES: Final = {
    "rtxa6000": "a6000", "v100sxm2": "v100", "a10080": "a100", "a100sxm": "a100",
    "a100sxm80": "a100", "a100sxm40": "a100_40", "a100pcie80": "a100_pcie", "h100sxm": "h100",
    "h100sxm5": "h100", "h200sxm": "h200", "mi250": "mi250x", "mi250gcd": "mi250x",
    "mi300": "mi300x", "mi325": "mi325x", "mi350x": "mi350", "radeonaipror9700": "r9700",
    "tpuv7x": "tpu_7x", "tpu7": "tpu_7x", "ironwood": "tpu_7x", "trillium": "tpu_v6e",
    "tpuv5lite": "tpu_v5e",
}  # fmt: skip
_PUNCTUATION: Final = str.maketrans("", "", " -_")
_BY_PLAIN: Final = {name.translate(_PUNCTUATION): name for name in ALL_DEVICES} | _ALIASES


def device_of(name: str) -> Device:
    """Return the device with a name, or the device that a TOML file describes.

    Case, spaces and dashes of a name are ignored. A text that ends in `.toml` is a path.

    Raises:
        UnknownNameError: No device has that name.
        DeviceError: The file does not describe a device.

    >>> device_of("H100").sms, device_of("TPU v5e").kind
    (132, 'tpu')
    """
    if name.endswith(".toml"):
        return device_of_file(name, _named)
    return _named(name)


def _named(name: str) -> Device:
    plain = name.lower().translate(_PUNCTUATION)
    if plain not in _BY_PLAIN:
        near = did_you_mean(name.lower(), ALL_DEVICES) or did_you_mean(plain, _BY_PLAIN)
        known = ", ".join(ALL_DEVICES)
        raise UnknownNameError(f"no device `{name}`{near}; known: {known}; or a file NAME.toml")
    return ALL_DEVICES[_BY_PLAIN[plain]]


def gpu_with(cores: int, warp: int, bandwidth: float) -> str | None:
    """Return the name of the GPU with these cores and this warp size; `None` if there is none.

    Of several GPUs, the one with the nearest memory bandwidth is taken.

    Args:
        cores: Multiprocessors or compute units.
        warp: Lanes of a warp.
        bandwidth: Memory bandwidth in GB/s.

    >>> gpu_with(132, 32, 3352.3), gpu_with(132, 32, 4800.0), gpu_with(7, 32, 100.0)
    ('h100', 'h200', None)
    """
    fits = [d for d in DEVICES.values() if (d.sms, d.warp) == (cores, warp)]
    near = min(fits, key=lambda d: abs(d.bandwidth - bandwidth), default=None)
    return None if near is None else near.name


def gpu_of(name: str) -> Device:
    """Return the device with a name, or that a TOML file describes; it must have warps.

    Thread maps and tiles need warps. See `device_of` for the accepted names.

    Raises:
        DeviceError: The device has no warps, or the file does not describe a device.
        UnknownNameError: No device has that name.

    >>> gpu_of("mi300x").warp
    64
    """
    device = device_of(name)
    if not device.has_warps:
        raise DeviceError(
            f"`{device.name}` is a {device.kind.upper()}: it has no warps, so nothing can be said "
            f"about its threads; devices with warps: {', '.join(DEVICES)}"
        )
    return device


def limits_of(device: str) -> Limits:
    """Return the resource limits of one block on a device, by name or TOML file.

    Raises:
        DeviceError: The device has no warps, or the file does not describe a device.
        UnknownNameError: No device has that name.

    >>> limits_of("MI210").shared
    65536
    """
    found = gpu_of(device)
    return Limits(found.name, found.block_shared, found.registers)


def device_table() -> str:
    """Return the known devices as Markdown for docs/devices.md: figures, peaks, sources, doubts."""
    lines = [
        "| device | | cores | memory GB | GB/s | L2 MiB | vector TFLOP/s | matrix TFLOP/s |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for d in ALL_DEVICES.values():
        figures = (d.sms, d.memory_bytes / 1e9, d.bandwidth, d.l2_bytes / (1 << 20))
        cells = [f"{figure:,.4g}" if figure else "–" for figure in figures]
        peaks = [", ".join(f"{t} {p:g}" for t, p in row) or "–" for row in (d.vector, d.matrix)]
        lines.append(f"| {' | '.join([f'`{d.name}`', d.title, *cells, *peaks])} |")
    lines += ["", "| device | sources | doubtful |", "|---|---|---|"]
    for d in ALL_DEVICES.values():
        lines.append(f"| `{d.name}` | {d.sources} | {'; '.join(d.doubts) or '–'} |")
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------
# Devices that a TOML file describes.


MOST_TEXT: Final = 1 << 16
"""Maximum number of bytes of a file that describes a device."""
KINDS: Final = ("gpu", "tpu", "cpu")
ELEMENTS: Final = ("f64", "f32", "tf32", "f16", "bf16", "f8", "f4", "s32", "s8", "s4")
"""Element types of peaks.

All 8-bit floats are `f8`; unsigned integers count as signed ones.
"""


class Key(NamedTuple):
    """A key of a device file.

    Attributes:
        field: Name of the field of `Device`.
        type: Type of the value: `str`, `bool`, `int` or `float`; `float` accepts integers too.
        about: Description, with the unit.
        least: Minimum value of a number.
        most: Maximum value of a number.
    """

    field: str
    type: type
    about: str
    least: float = 0
    most: float = 1e9


KEYS: Final[Mapping[str, Key]] = {
    "base": Key("", str, "Name of a known device, for all figures that the file does not state."),
    "name": Key("name", str, "Name in the output. Default: the name of the file."),
    "kind": Key("kind", str, "`gpu`, `tpu` or `cpu`. Needed without `base`."),
    "bandwidth_gbs": Key("bandwidth", float, "Memory bandwidth, 10^9 bytes a second.", 1e-3),
    "memory_bytes": Key("memory_bytes", int, "Size of the memory in bytes.", 1, 1 << 60),
    "l2_bytes": Key("l2_bytes", int, "Last cache that all cores share, in bytes.", 0, 1 << 50),
    "clock_ghz": Key("clock_ghz", float, "The highest clock.", 1e-3, 1e3),
    "cores": Key("sms", int, "Multiprocessors, compute units or TensorCores.", 1, 1 << 20),
    "threads_per_core": Key("threads_per_sm", int, "Threads that a core holds.", 1, 1 << 16),
    "warp": Key("warp", int, "Threads of a warp: 32 or 64.", 32, 64),
    "shared_kib": Key("shared_kib", int, "Shared memory of a block by default, KiB.", 1, 1 << 16),
    "block_shared_bytes": Key(
        "block_shared", int, "Shared memory of a block that asks for the most, bytes.", 1, 1 << 26
    ),
    "registers": Key("registers", int, "Registers of 4 bytes of a block.", 1, 1 << 26),
    "transaction": Key("transaction", int, "Bytes of a transaction to L2.", 32, 1 << 12),
    "vector_bits": Key("vector_bits", int, "Bits of the widest load of a lane.", 32, 1 << 10),
    "is_amd": Key("is_amd", bool, "Do the emitters of ROCm apply?"),
    "special_tops": Key("special", float, "Transcendental results of f32, 10^12 a second.", 0, 1e9),
    "fast_f32": Key(
        "fast_f32", str, "Type in which matrix units may compute f32: `tf32`, `bf16`, or empty."
    ),
    "matrix": Key("matrix", dict, "Table: element type to dense TFLOP/s of the matrix units."),
    "vector": Key("vector", dict, "Table: element type to TFLOP/s of the vector units."),
}
"""Keys of the file, in the order of the documentation."""
_OF_THREADS: Final = ("cores", "threads_per_core", "warp", "shared_kib", "block_shared_bytes",
                      "registers")  # fmt: skip
"""Keys that a GPU without a base needs, for thread maps and tiles."""
_POWERS: Final = ("warp", "transaction", "vector_bits")
_WORDS: Final = {bool: "true or false", int: "an integer", float: "a number", str: "a string",
                 dict: "a table"}  # fmt: skip


def device_of_file(path: str, named: Callable[[str], Device]) -> Device:
    """Return the device that a TOML file describes.

    Args:
        path: Path of the file.
        named: Function that returns a known device by its name.

    Raises:
        DeviceError: The file cannot be read, is not TOML, has an unknown key or a wrong value, or
            lacks a key. The message names the file, the key, and what was found and expected.
        UnknownNameError: No known device has the name of the base.
    """
    table = _read(path)
    for key, value in table.items():
        if key not in KEYS:
            near = did_you_mean(key, KEYS)
            raise DeviceError(f"{path}: no key `{key}`{near}; known: {', '.join(KEYS)}")
        _check(path, key, value, KEYS[key])
    base = named(table["base"]) if "base" in table else None
    changes: dict[str, Any] = {}
    for key, value in table.items():
        row = KEYS[key]
        if row.type is dict:
            changes[row.field] = _peaks(path, key, value)
        elif key != "base":
            changes[row.field] = row.type(value)
    changes.setdefault("name", Path(path).stem)
    if base is None:
        _check_complete(path, table)
        base = Device("")
    elif changes.get("kind", base.kind) != base.kind:
        found, own = changes["kind"], base.kind
        raise DeviceError(f"{path}: key `kind`: found `{found}`, expected `{own}` as its base")
    else:  # peaks of element types that the file does not state stay
        for unit in ("matrix", "vector"):
            if unit in changes:
                changes[unit] = tuple((dict(getattr(base, unit)) | dict(changes[unit])).items())
    title = f"{changes['name']} of {path}"
    return replace(base, title=title, sources=f"the file {path}", **changes)


def _read(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_TEXT + 1)
    except OSError as error:
        raise DeviceError(f"{path}: can't read the device: {error.strerror or error}") from None
    if len(data) > MOST_TEXT:
        raise DeviceError(f"{path}: more than {MOST_TEXT:,} bytes, too many for a device")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise DeviceError(f"{path}: not UTF-8, expected TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise DeviceError(f"{path}: not TOML: {error or 'nested too deep'}") from None


def _check(path: str, key: str, value: object, row: Key) -> None:
    wanted: type | tuple[type, ...] = (int, float) if row.type is float else row.type
    is_bool = isinstance(value, bool)
    if not isinstance(value, wanted) or (is_bool and row.type is not bool):
        _fail(path, key, value, _WORDS[row.type])
    if isinstance(value, int | float) and not is_bool:
        if not (math.isfinite(value) and row.least <= value <= row.most):
            _fail(path, key, value, f"{row.least:,g} to {row.most:,g}")
        if key in _POWERS and int(value).bit_count() != 1:
            _fail(path, key, value, "a power of two")
    if key == "kind" and value not in KINDS:
        _fail(path, key, value, "`gpu`, `tpu` or `cpu`")
    if key == "fast_f32" and value not in ("", *ELEMENTS):
        _fail(path, key, value, f"empty or one of {', '.join(ELEMENTS)}")


def _peaks(path: str, unit: str, table: Mapping[str, object]) -> Peaks:
    row = Key("", float, "", 1e-6, 1e9)
    for element, peak in table.items():
        if element not in ELEMENTS:
            near = did_you_mean(element, ELEMENTS)
            known = ", ".join(ELEMENTS)
            raise DeviceError(
                f"{path}: no element type `{element}` in `{unit}`{near}; known: {known}"
            )
        _check(path, f"{unit}.{element}", peak, row)
    return tuple([(element, float(str(peak))) for element, peak in table.items()])


def _check_complete(path: str, table: Mapping[str, object]) -> None:
    needed = ["kind", "bandwidth_gbs", *(_OF_THREADS if table.get("kind") == "gpu" else ())]
    missing = [key for key in needed if key not in table]
    if missing:
        listed = ", ".join(f"`{key}`" for key in missing)
        raise DeviceError(f"{path}: missing {listed}, needed where there is no key `base`")


def _fail(path: str, key: str, value: object, expected: str) -> None:
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    raise DeviceError(f"{path}: key `{key}`: found {shown}, expected {expected}")
