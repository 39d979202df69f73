"""Changes of ops between versions of VHLO: their upgrade and their downgrade.

A row: ops | the first version with the new form | attributes that only the new form has, each with
its value in an upgraded op | another condition. A downgrade requires that each such attribute has
that value or an equivalent one, and drops it. Rows are only added, never changed.

Source: `VhloToVersion.td`, `VhloToVersion.cpp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from hloscope.ir import TensorType
from hloscope.mlir import (
    I64,
    NONE,
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseAttr,
    EnumAttr,
    Operation,
    StructAttr,
    TypeAttr,
)
from hloscope.vhlo.versions import Version, version_of

ACCURACY: Final = StructAttr(
    "stablehlo",
    "result_accuracy",
    (("mode", EnumAttr("stablehlo", "result_accuracy_mode", "DEFAULT")),),
)
"""The accuracy of a result of an op that requests none."""
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


def _no_numbers(value: Attribute) -> bool:
    sizes = getattr(value.type, "sizes", (1,)) if isinstance(value, DenseAttr) else (1,)
    return 0 in sizes


def _accuracy(value: Attribute) -> bool:
    """Is the accuracy the default?

    Artifacts do not keep the sign of a zero tolerance, so only the mode may differ from nothing.
    """
    return value == ACCURACY


_SAME: Final[Mapping[str, Callable[[Attribute], bool]]] = {
    "accuracy": _accuracy,
    "no_numbers": _no_numbers,
    "false": lambda value: value == FALSE,
    "no_type": lambda value: value == NO_TYPE,
    "nothing": lambda value: value == NOTHING,
}


def _lhs_rank(op: Operation) -> int | None:
    type = op.operands[0].type if op.operands else None
    return len(type.sizes) if isinstance(type, TensorType) else None


_CONDITIONS: Final[Mapping[str, tuple[Callable[[Operation], bool], str]]] = {
    "": (lambda _: True, ""),
    "one_operand": (lambda op: len(op.operands) == 1, "more than one operand"),
    "no_regions": (lambda op: not op.regions, "regions"),
    "padding_attribute": (lambda op: (_lhs_rank(op) or 0) >= 2, "an operand of unknown rank"),
}
"""Conditions of a downgrade by name, each with the feature of an op that violates it."""


class Change(Struct, frozen=True):
    """The difference between two versions of an op.

    Attributes:
        base: Name of the op without its version.
        first: The first version that has the new form.
        added: Attributes of the new form, each with the name of its value in an upgraded op.
        condition: Name of a further condition of a downgrade.
    """

    base: str
    first: Version
    added: tuple[tuple[str, str], ...]
    condition: str

    def up(self, properties: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Return the attributes of the new form, given those of the old one."""
        found = {**properties, **{name: _DEFAULTS[value] for name, value in self.added}}
        if self.condition == "padding_attribute":
            found.pop("padding", None)
        return found

    def down(self, op: Operation) -> dict[str, Attribute]:
        """Return the attributes of the old form of an op of the new one."""
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
        """List the features of an op that its old form cannot express."""
        found = [
            f"`{name}`"
            for name, kind in self.added
            if (value := op.properties.get(name)) is not None and not _SAME[kind](value)
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
"""The change from `_v1` to `_v2` of an op by its name without version."""


# -------------------------------------------------------------------- rules within a version

_PAIRED: Final = frozenset(
    "all_reduce_v1 reduce_v1 reduce_scatter_v1 reduce_window_v1 scatter_v1"
    " select_and_scatter_v1".split()
)
"""Ops whose results had to have the element types of their operands before 0.17.0."""


def needs_more(name: str) -> bool:
    """May `extra_needs` return something for an op of that name?"""
    return name in _PAIRED or name.startswith("custom_call_")


def extra_needs(name: str, op: Operation) -> list[tuple[Version, str]]:
    """List the versions that an op needs beyond its table row, with the reasons.

    `name` is the op's name without dialect.
    """
    found: list[tuple[Version, str]] = []
    if name in _PAIRED:
        pairs = zip(op.operands, op.results, strict=False)
        if any(_element(a.type) != _element(b.type) for a, b in pairs):
            found.append(((0, 17, 0), "a result of another element type than its operand"))
    if name.startswith("custom_call_"):
        config, api = op.properties.get("backend_config"), op.properties.get("api_version")
        if type(config).__name__ == "DictAttr":
            found.append(((1, 3, 0), "a dictionary as `backend_config`"))
        if isinstance(api, EnumAttr) and api.value == "API_VERSION_TYPED_FFI":
            found.append(((1, 3, 0), "`api_version` API_VERSION_TYPED_FFI"))
        if any(type(operand.type).__name__ == "FutureType" for operand in op.operands):
            found.append(((1, 17, 0), "an operand that is a future"))
    return found


def _element(type: object) -> object:
    return getattr(type, "element", type)
