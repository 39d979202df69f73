"""Every op is spelled in both languages and evaluated."""

from __future__ import annotations

from hloscope.hlo_parser.opcodes import SPELLINGS
from hloscope.interpreter.registry import coverage
from hloscope.mlir.dialects import CLASSES
from hloscope.ops import OPS

INSIDE = set("result unknown".split())
"""Classes of the graph itself."""
ONLY_HLO = set(
    """
    add-dependency async_update bitcast call copy copy-done copy-start domain fusion parameter
    ragged_all_to_all recv-done rng-get-and-update-state scaled_dot send-done stochastic_convert
    """.split()
)
ONLY_MLIR = set(
    """
    broadcast collective_reduce composite create_token cross-replica-sum dot
    dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota dynamic_pad einsum
    real_dynamic_slice return torch_index_select unary_einsum uniform_dequantize uniform_quantize
    """.split()
)
"""Ops of StableHLO; those of other dialects have names with a point."""


def test_every_op_is_spelled_in_both_languages_or_it_is_listed() -> None:
    in_hlo = {spelling.op for spelling in SPELLINGS.values()}
    in_mlir = set(CLASSES.values())
    assert {name for name, op in OPS.items() if op not in in_hlo | in_mlir} == INSIDE
    assert {name for name, op in OPS.items() if op in in_hlo - in_mlir} == ONLY_HLO
    alone = {name for name, op in OPS.items() if op in in_mlir - in_hlo and "." not in name}
    assert alone == ONLY_MLIR


def test_every_op_is_evaluated() -> None:
    rows = coverage()
    assert [row.op for row in rows] == sorted(OPS)
    assert [row.op for row in rows if not row.is_evaluated] == []
