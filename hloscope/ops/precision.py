"""Precisions and algorithms of dots and convolutions."""

from __future__ import annotations

from typing import Final, TypeAlias

from hloscope.ops.infer_util import require

Precisions: TypeAlias = tuple[str, ...]
"""`DEFAULT`, `HIGH` or `HIGHEST` for each operand; HLO has `PACKED_NIBBLE` too."""

# lhs, rhs and accumulation type, number of primitive operations
_ROWS: Final = """
    f16  f16  f16  1 | f16  f16  f32  1 | bf16 bf16 bf16 1 | bf16 bf16 f32 1 | bf16 bf16 f32 3 |
    bf16 bf16 f32  6 | tf32 tf32 f32  1 | tf32 tf32 f32  3 | f32  f32  f32 1 | f64  f64  f64 1
"""
_KNOWN: Final = {tuple(row.split()) for row in _ROWS.split("|")}
_EIGHT_BITS: Final = frozenset(
    "f8E3M4 f8E4M3 f8E4M3FN f8E5M2 f8E4M3FNUZ f8E4M3B11FNUZ f8E5M2FNUZ".split()
)


def check_dot_algorithm(
    lhs: str,
    rhs: str,
    accumulation: str,
    lhs_components: int,
    rhs_components: int,
    operations: int,
    *,
    imprecise: bool,
) -> None:
    """Check that some hardware is known to support the algorithm.

    Types are written as MLIR prints them.

    Source: StableHLO spec `dot_general`, (C22)-(C24), (I8)-(I14).

    >>> check_dot_algorithm("tf32", "tf32", "f32", 1, 1, 3, imprecise=False)
    """
    message = "component count must be positive"
    require(lhs_components >= 1, "dot_general_c22", f"lhs {message}")
    require(rhs_components >= 1, "dot_general_c23", f"rhs {message}")
    require(operations >= 1, "dot_general_c24", "num primitive operations must be positive")
    # Eight-bit types are the only ones that may accumulate imprecisely.
    eight_bits = lhs in _EIGHT_BITS and rhs in _EIGHT_BITS and accumulation == "f32"
    known = (
        operations == 1
        if eight_bits
        else not imprecise and (lhs, rhs, accumulation, str(operations)) in _KNOWN
    )
    require(
        known and lhs_components == rhs_components == 1,
        "dot_general_i8",
        "dot algorithm not known to be supported on any hardware: "
        f"{{lhs:'{lhs}', rhs:'{rhs}', accum:'{accumulation}', lhs_components:{lhs_components}, "
        f"rhs_components:{rhs_components}, primitive_ops:{operations},"
        f" imprecise:{int(imprecise)}}}",
    )


def check_precisions(precisions: Precisions | None, rule: str) -> None:
    """Check that at most two precisions are given."""
    number = len(precisions or ())
    message = f"expects precision config to be empty or have <= 2 elements, got {number}"
    require(number <= 2, rule, message)
