"""Devices: figures of GPUs and TPUs with their sources, and devices that a TOML file describes."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.support.devices.device import (
        ALL_DEVICES as ALL_DEVICES,
        AS_OF as AS_OF,
        LARGEST_GRID as LARGEST_GRID,
        LINE as LINE,
        SECTOR as SECTOR,
        VECTORS as VECTORS,
        Device as Device,
        DeviceError as DeviceError,
        Limits as Limits,
        Peaks as Peaks,
    )
    from hloscope.support.devices.named import (
        DEFAULT as DEFAULT,
        DEVICES as DEVICES,
        KEYS as KEYS,
        LIMITS as LIMITS,
        device_of as device_of,
        device_of_file as device_of_file,
        device_table as device_table,
        gpu_of as gpu_of,
        gpu_with as gpu_with,
        limits_of as limits_of,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
