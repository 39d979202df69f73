"""Rows of the ops of control flow, calls, tokens and tuples."""

from typing import Final

ROWS: Final = """
    after_all effect | inputs*:token | | result:token | infer
        ~ %inputs*<attrs> : <same>
    async_done effect since=1.15.0 | operand:future | | result:FBICQ | infer
    async_start effect since=1.15.0 | operands*:FBICQ | | result:future | ^body isolated
        single_block infer
    case effect | index:i | | result*:FBICQ/A/token | ^branches* single_block infer
    composite effect since=0.19.0 | inputs*:FBICQ/A/token/tuple | name>composite_name:string
        composite_attributes?:dict={} decomposition:callee version?:i32=0 |
        result*:FBICQ/A/token/tuple | ^composite_regions*+
        ~ <string name> %inputs*<regions><attrs> : <function>
    create_token effect | | | output:token | infer ~nullary
    custom_call effect | inputs*:any.FBICQA/memref.FBICQ/token/anytuple/future |
        call_target_name:string
        has_side_effect?:bool=false backend_config?:config api_version?:api_version=1
        called_computations?:callees=[] operand_layouts?:layouts result_layouts?:layouts
        output_operand_aliases?:aliases=[] | result*:any.FBICQA/memref.FBICQ/token/anytuple/future |
        ~ <symbol call_target_name>(%inputs*)<attrs> : <function>
    get_tuple_element | operand:tuple | index:i32>=0 | result:FBICQ/A/token/tuple/memref.FBICQ |
        infer
        ~ %operand[<i32 index>]<attrs> : <function>
    if effect class=case | pred:B | | result*:FBICQ/A/token | ^true_branch ^false_branch
        single_block infer
    optimization_barrier | operand*:FBICQ/token | | result*:FBICQ/token | pairwise infer
        ~<attrs><barrier>
    return effect | results*:FBICQ/A/token/memref.FBICQ | | | terminator
        ~ %results*<attrs><any>
    tuple | val*:FBICQ/A/token/tuple/memref.FBICQ | | result:tuple | infer
        ~ %val*<attrs> : <tuple>
    while effect | operand*:FBICQ/A/token/memref.FBICQ | | result*:FBICQ/A/token/memref.FBICQ |
        ^cond ^body
        single_block infer ~while
"""
"""Source: `StablehloOps.td`."""
