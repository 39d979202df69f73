"""Rows of the dialect `func`."""

from typing import Final

ROWS: Final = """
    call | operands*:anything | callee:callee arg_attrs?:dicts res_attrs?:dicts no_inline?:unit |
        result*:anything |
    call_indirect | callee:function callee_operands*:anything | arg_attrs?:dicts res_attrs?:dicts |
        results*:anything |
    constant | | value:symbol | result:anything |
    func | | sym_name:string function_type:type sym_visibility?:string arg_attrs?:dicts
        res_attrs?:dicts no_inline?:unit | | ^body+ isolated symbol
    return | operands*:anything | | | terminator
"""
"""Source: MLIR's definition of the dialect."""
