"""Rows of the dialect `check`."""

from typing import Final

ROWS: Final = """
    expect_eq | lhs:FBICQ rhs:FBICQ | | | same_operands_element same_operands_shape
        ~ %lhs, %rhs<attrs> : <every type>
    expect_eq_const | lhs:FBICQ | value:elements | |
        ~ %lhs, <value value operand><attrs>
    expect_almost_eq | lhs:any.fc rhs:any.fc | tolerance?:f64 | | same_operands_element
        same_operands_shape
        ~ %lhs, %rhs(?, tolerance = <float tolerance>?)<attrs> : <every type>
    expect_almost_eq_const | lhs:any.fc | value:elements tolerance?:f64 | |
        ~ %lhs, <value value operand>(?, tolerance = <float tolerance>?)<attrs>
    expect_close | actual:any.fc expected:any.fc | max_ulp_difference?:any min_ulp_difference?:any |
        | same_operands_element same_operands_shape
        ~ %actual, %expected(?, max_ulp_difference = <i64 max_ulp_difference>?)(?,
        min_ulp_difference = <i64 min_ulp_difference>?)<attrs> : <in>, <in>
    expect_serialized_eq | expected:FBICQ | probe_id:string iteration?:any | |
        ~ %expected, probe_id = <string probe_id>(?, iter = <i32 iteration>?)<attrs> : <every type>
"""
"""Source: `CheckOps.td` of StableHLO's tests."""
