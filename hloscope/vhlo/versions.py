"""Versions of VHLO and the change of each. Rows are only added.

Source: StableHLO's `Version.h` and `VhloDialect.td`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import UnknownNameError
from hloscope.lazy import pattern

Version: TypeAlias = tuple[int, int, int]

FOREVER: Final[Version] = (1 << 30, 0, 0)
"""A version later than every other: the last version of an op that still exists."""


class Release(NamedTuple):
    """One version of VHLO, its version of MLIR bytecode, and its change."""

    version: Version
    bytecode: int
    what: str


_ROWS: Final = """
    0.9.0  0 initial guarantees of compatibility
    0.10.0 1 types f8E4M3FNUZ and f8E5M2FNUZ
    0.11.0 1 type f8E4M3B11FNUZ
    0.12.0 3 MLIR bytecode 3
    0.13.0 3 no change of the dialect
    0.14.0 4 MLIR bytecode 4
    0.15.0 6 MLIR bytecode 6: attributes of ops are properties
    0.16.0 6 op collective_broadcast
    0.17.0 6 reductions to a wider element type
    0.18.0 6 types quantized along an axis
    0.19.0 6 op composite
    0.20.0 6 dynamic_conv without the attribute padding
    1.0.0  6 longer guarantees of compatibility
    1.1.0  6 batching dimensions of gather and scatter
    1.2.0  6 types i2 and ui2
    1.3.0  6 dictionaries as backend_config of custom_call
    1.4.0  6 op tan
    1.5.0  6 all_reduce, all_gather, all_to_all of several operands
    1.6.0  6 algorithms of dot_general
    1.7.0  6 types f8E4M3 and f8E3M4
    1.8.0  6 types f4E2M1FN, f6E2M3FN, f6E3M2FN and f8E8M0FNU
    1.9.0  6 result_accuracy of exponential
    1.10.0 6 result_accuracy of the other transcendental ops
    1.11.0 6 programs mixed with other dialects
    1.12.0 6 source_target_pairs of send and recv
    1.13.0 6 buffers in custom_call
    1.14.0 6 composite with regions
    1.15.0 6 ops async_start and async_done, futures
    1.16.0 6 replica groups by axes of a mesh
    1.17.0 6 futures in custom_call
    1.18.0 6 result_tilings of custom_call
    1.19.0 6 op collective_reduce
    1.20.0 6 has_dynamic_root of collective_broadcast
"""

_NUMBER: Final = pattern(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", re.ASCII)


def version_of(text: str) -> Version:
    """Parse a version into its three numbers.

    >>> version_of("1.10.0")
    (1, 10, 0)

    Raises:
        UnknownNameError: `text` is not of the form `#.#.#`.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise UnknownNameError(f"invalid version `{text}`: it must be of the form `#.#.#`")
    return int(found[1]), int(found[2]), int(found[3])


def version_text(version: Version) -> str:
    """Return a version as text: `1.10.0`."""
    return ".".join(map(str, version))


def _release(row: str) -> Release:
    version, bytecode, what = row.split(None, 2)
    return Release(version_of(version), int(bytecode), what)


RELEASES: Final = tuple(map(_release, _ROWS.strip().splitlines()))
"""Every version, the oldest first."""

MINIMUM: Final = RELEASES[0].version
CURRENT: Final = RELEASES[-1].version

_NAMED: Final = {
    "current": ((1, 17, 0), (1, 20, 0)),
    "min": ((0, 9, 0), (0, 9, 0)),
    "week_4": ((1, 15, 0), (1, 18, 0)),
    "week_12": ((1, 13, 7), (1, 16, 2)),
}
"""Target versions of StableHLO's compatibility requirements, for libraries 1.17.0 and 1.20.0.

Source: `Version::fromCompatibilityRequirement` of StableHLO; what jaxlib answers.
"""
_SAME: Final = {"none": "current", "max": "min"}


def target_of(name: str, library: Version = CURRENT) -> str:
    """Return the version that a name means for a library version.

    A version is returned unchanged. `none`, `week_4`, `week_12` and `max` are StableHLO's
    compatibility requirements; `current` equals `none` and `min` equals `max`.

    >>> target_of("week_4"), target_of("min"), target_of("1.0.0")
    ('1.18.0', '0.9.0', '1.0.0')

    Raises:
        UnknownNameError: The version is unknown, or newer than the library.
    """
    word = name.lower()
    word = _SAME.get(word, word)
    if word == "current":
        return version_text(library)
    if word in _NAMED:
        for number, release in enumerate(((1, 17, 0), CURRENT)):
            if library == release:
                return version_text(_NAMED[word][number])
        if word != "min":
            known = f"{version_text((1, 17, 0))} and {version_text(CURRENT)}"
            raise UnknownNameError(f"`{name}` is known for libraries of version {known} only")
        return version_text(MINIMUM)
    if _NUMBER.fullmatch(name) is None:
        what = (
            f"Invalid target version argument '{name}'" if name else "No target version specified."
        )
        raise UnknownNameError(f"{what}\nTarget version must be of the form `#.#.#`.")
    version = version_of(name)
    if version < MINIMUM:
        least = version_text(MINIMUM)
        raise UnknownNameError(f"target version {name} is less than minimum supported {least}")
    if version > library:
        most = version_text(library)
        raise UnknownNameError(f"target version {name} is greater than current version {most}")
    return name


def bytecode_version(target: Version) -> int:
    """Return the version of MLIR bytecode that artifacts of a version have.

    >>> bytecode_version((0, 13, 5)), bytecode_version((1, 2, 0))
    (3, 6)
    """
    plain = (*target[:2], 0)
    return max(release.bytecode for release in RELEASES if release.version <= plain)
