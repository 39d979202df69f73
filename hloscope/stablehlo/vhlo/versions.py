"""Versions of VHLO, and the changes of ops between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.errors import UnknownNameError
from hloscope.ir import FutureType, TensorType
from hloscope.mlir import (
    I64,
    NONE,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseAttr,
    DictAttr,
    EnumAttr,
    Operation,
    StructAttr,
    TypeAttr,
)
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Versions of VHLO and the change of each. Rows are only added.
#
# Source: StableHLO's `Version.h` and `VhloDialect.td`.


Version: TypeAlias = tuple[int, int, int]

FOREVER: Final[Version] = (1 << 30, 0, 0)
"""A version later than every other; it is the last version of an op that still exists."""


class Release(NamedTuple):
    """One version of VHLO: its number, its version of MLIR bytecode, and what changed."""

    version: Version
    bytecode: int
    what: str


_RELEASE_ROWS: Final = """
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
    """Return the three numbers of a version's text.

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


RELEASES: Final = tuple(map(_release, _RELEASE_ROWS.strip().splitlines()))
"""All versions of VHLO in ascending order."""

MINIMUM: Final = RELEASES[0].version
CURRENT: Final = RELEASES[-1].version

_NAMED: Final = {
    "current": ((1, 17, 0), (1, 20, 0)),
    "min": ((0, 9, 0), (0, 9, 0)),
    "week_4": ((1, 15, 0), (1, 18, 0)),
    "week_12": ((1, 13, 7), (1, 16, 2)),
}
"""The version that each name means, in StableHLO 1.17.0 and in 1.20.0.

Source: `Version::fromCompatibilityRequirement` of StableHLO; what jaxlib answers.
"""
_SYNONYMS: Final = {"none": "current", "max": "min"}


def target_of(name: str, library: Version = CURRENT) -> str:
    """Return the version that a name stands for in the StableHLO version `library`.

    A version is returned unchanged. `none`, `week_4`, `week_12` and `max` are StableHLO's
    compatibility requirements; `current` equals `none` and `min` equals `max`.

    >>> target_of("week_4"), target_of("min"), target_of("1.0.0")
    ('1.18.0', '0.9.0', '1.0.0')

    Raises:
        UnknownNameError: The name or version is unknown, or newer than `library`.
    """
    word = name.lower()
    word = _SYNONYMS.get(word, word)
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
    """Return the version of MLIR bytecode in artifacts of a VHLO version.

    >>> bytecode_version((0, 13, 5)), bytecode_version((1, 2, 0))
    (3, 6)
    """
    plain = (*target[:2], 0)
    return max(release.bytecode for release in RELEASES if release.version <= plain)


# --------------------------------------------------------------------------------------------------
# Changes of ops between versions of VHLO: their upgrade and their downgrade.
#
# A row: ops | the first version with the new form | attributes that only the new form has, each
# with its value in an upgraded op | another condition. A downgrade requires that each such
# attribute has that value or an equivalent one, and drops it. Rows are only added, never changed.
#
# Source: `VhloToVersion.td`, `VhloToVersion.cpp`.


ACCURACY: Final = StructAttr(
    "stablehlo",
    "result_accuracy",
    (("mode", EnumAttr("stablehlo", "result_accuracy_mode", "DEFAULT")),),
)
"""Result accuracy that an op has in VHLO if the program requests none."""
NO_NUMBERS: Final = DenseAttr(b"", TensorType(I64, (0,)))
NO_TYPE: Final = TypeAttr(NONE)
FALSE: Final = BoolAttr(False)
NOTHING: Final = ArrayAttr(())

_ROWS: Final = """
    cbrt cosine exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan tanh | 1.10.0 \
| result_accuracy=accuracy |
    exponential | 1.9.0 | result_accuracy=accuracy |
    gather dynamic_gather | 1.1.0 | operand_batching_dims=no_numbers \
start_indices_batching_dims=no_numbers |
    scatter | 1.1.0 | input_batching_dims=no_numbers scatter_indices_batching_dims=no_numbers |
    all_gather all_reduce all_to_all | 1.5.0 | | one_operand
    collective_broadcast | 1.20.0 | has_dynamic_root=false | one_operand
    dot_general | 1.6.0 | lhs_precision_type=no_type rhs_precision_type=no_type \
accumulation_type=no_type lhs_component_count=no_type rhs_component_count=no_type \
num_primitive_operations=no_type allow_imprecise_accumulation=no_type |
    send recv | 1.12.0 | source_target_pairs=no_numbers |
    composite | 1.14.0 | | no_regions
    custom_call | 1.18.0 | result_tilings=nothing |
    dynamic_conv | 0.20.0 | | padding_attribute
"""

_DEFAULTS: Final[Mapping[str, Attribute]] = {
    "accuracy": ACCURACY,
    "no_numbers": NO_NUMBERS,
    "false": FALSE,
    "no_type": NO_TYPE,
    "nothing": NOTHING,
}


def _is_default(kind: str, value: Attribute) -> bool:
    """Is an attribute equivalent to the default `kind` in `_DEFAULTS`?"""
    is_empty = isinstance(value, DenseAttr) and 0 in getattr(value.type, "sizes", ())
    return value == _DEFAULTS[kind] or (kind == "no_numbers" and is_empty)


def _lhs_rank(op: Operation) -> int | None:
    type = op.operands[0].type if op.operands else None
    return len(type.sizes) if isinstance(type, TensorType) else None


_CONDITIONS: Final[Mapping[str, tuple[Callable[[Operation], bool], str]]] = {
    "": (lambda _: True, ""),
    "one_operand": (lambda op: len(op.operands) == 1, "more than one operand"),
    "no_regions": (lambda op: not op.regions, "regions"),
    "padding_attribute": (lambda op: (_lhs_rank(op) or 0) >= 2, "an operand of unknown rank"),
}
"""Conditions for the downgrade of an op, by name, each with the feature of ops that violate it."""


class Change(Struct, frozen=True):
    """The difference between the two forms `_v1` and `_v2` of an op.

    Attributes:
        base: Name of the op without its version.
        first: The first version of VHLO that has the form `_v2`.
        added: Attributes that only `_v2` has, each with the name of its value in an upgraded op.
        condition: Name of an additional condition, in `_CONDITIONS`, under which an op can be
            downgraded.
    """

    base: str
    first: Version
    added: tuple[tuple[str, str], ...]
    condition: str

    def up(self, properties: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the attributes of the form `_v2`, given those of `_v1`."""
        found = {**properties, **{name: _DEFAULTS[value] for name, value in self.added}}
        if self.condition == "padding_attribute":
            found.pop("padding", None)
        return found

    def down(self, op: Operation) -> dict[str, Attribute]:
        """Return the attributes of the form `_v1`, given an op of the form `_v2`."""
        # An upgrade only adds attributes, so a downgrade removes them again. `obstacles` has
        # checked before that their values are the defaults, so nothing of the program is lost.
        gone = {name for name, _ in self.added}
        found = {name: value for name, value in op.properties.items() if name not in gone}
        if self.condition == "padding_attribute":
            # The old form requires the attribute `padding` beside its operand `d_padding`: zeros of
            # the expected shape, one pair for each spatial dimension.
            rank = _lhs_rank(op) or 2
            zeros = bytes(8) if rank > 2 else b""
            found["padding"] = DenseAttr(zeros, TensorType(I64, (rank - 2, 2)))
        return found

    def obstacles(self, op: Operation) -> list[str]:
        """Return the features of an op of the form `_v2` that `_v1` cannot express."""
        found = [
            f"`{name}`"
            for name, kind in self.added
            if (value := op.properties.get(name)) is not None and not _is_default(kind, value)
        ]
        test, what = _CONDITIONS[self.condition]
        return found if test(op) else [*found, what]


def _changes(row: str) -> list[Change]:
    ops, first, added, condition = map(str.strip, row.split("|"))
    pairs = tuple((name, value) for name, _, value in (a.partition("=") for a in added.split()))
    return [Change(op, version_of(first), pairs, condition) for op in ops.split()]


CHANGES: Final = {
    change.base: change
    for row in _ROWS.replace("\\\n", "").strip().splitlines()
    for change in _changes(row)
}
"""The change from form `_v1` to `_v2` of each op that has both, by the name without version."""


# -------------------------------------------------------------------- rules within a version

_PAIRED: Final = frozenset(
    "all_reduce_v1 reduce_v1 reduce_scatter_v1 reduce_window_v1 scatter_v1"
    " select_and_scatter_v1".split()
)
"""Ops that before version 0.17.0 had results with the element types of their operands."""


def needs_more(name: str) -> bool:
    """May `extra_needs` return a version for op `name`?"""
    return name in _PAIRED or name.startswith("custom_call_")


def extra_needs(name: str, op: Operation) -> list[tuple[Version, str]]:
    """Return the versions that an op needs in addition to its row in the tables, with the features.

    `name` is the op's name without the dialect.
    """
    found: list[tuple[Version, str]] = []
    if name in _PAIRED:
        pairs = zip(op.operands, op.results, strict=False)
        if any(_element(a.type) != _element(b.type) for a, b in pairs):
            found.append(((0, 17, 0), "a result of another element type than its operand"))
    if name.startswith("custom_call_"):
        config, api = op.properties.get("backend_config"), op.properties.get("api_version")
        if isinstance(config, DictAttr):
            found.append(((1, 3, 0), "a dictionary as `backend_config`"))
        if isinstance(api, EnumAttr) and api.value == "API_VERSION_TYPED_FFI":
            found.append(((1, 3, 0), "`api_version` API_VERSION_TYPED_FFI"))
        if any(isinstance(operand.type, FutureType) for operand in op.operands):
            found.append(((1, 17, 0), "an operand that is a future"))
    return found


def _element(type: object) -> object:
    return getattr(type, "element", type)
