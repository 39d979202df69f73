"""Lookup of devices by name, or in a file."""

from __future__ import annotations

from typing import Final

from hloscope.devices.device import Device, DeviceError, Limits
from hloscope.devices.files import device_of_file
from hloscope.devices.table import ALL_DEVICES
from hloscope.errors import UnknownNameError, did_you_mean

DEFAULT: Final = "h100"
DEVICES: Final = {name: device for name, device in ALL_DEVICES.items() if device.has_warps}
"""The devices that run threads in warps, for `coalesce`, `footprint` and similar commands."""
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
    """Return the device of a name, or that of a TOML file.

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
    """Return the name of the GPU with these cores and lanes of a warp; `None` if there is none.

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
    """Return the device, which must run threads in warps as thread maps and tiles need.

    Raises:
        DeviceError: The device has no warps.
        UnknownNameError, DeviceError: As `device_of`.

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
    """Return the resource limits of one block on a device.

    Raises:
        DeviceError: The device has no warps.
        UnknownNameError, DeviceError: As `device_of`.

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
