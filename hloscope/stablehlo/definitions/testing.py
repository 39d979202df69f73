"""Definitions of the ops of StableHLO's tests: the dialects `check` and `interpreter`."""

from typing import Final

CHECK: Final = """
    expect_eq | lhs:FBICQ rhs:FBICQ |  |  | same_operands_element same_operands_shape
    expect_eq_const | lhs:FBICQ | value:elements |  |
    expect_almost_eq | lhs:any.fc rhs:any.fc | tolerance?:f64 |  | same_operands_element
        same_operands_shape
    expect_almost_eq_const | lhs:any.fc | value:elements tolerance?:f64 |  |
    expect_close | actual:any.fc expected:any.fc | max_ulp_difference?:any min_ulp_difference?:any
        |  | same_operands_element same_operands_shape
    expect_serialized_eq | expected:FBICQ | probe_id:string iteration?:any |  |
"""
"""Source: `CheckOps.td` of StableHLO's tests."""

INTERPRETER: Final = """
    print | operand:FBICQ |  |  |
    probe | operand:FBICQ | probe_id:string | result:FBICQ | same_type
    run_parallel | inputs*:FBICQ/token | infeed?:symbols programs:programs | results*:FBICQ/token |
"""
"""Source: `InterpreterOps.td`."""
