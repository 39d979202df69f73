"""Definitions of the ops about control flow, calls, tokens and tuples."""

from typing import Final

ROWS: Final = """
    after_all | inputs*:token | | result:token | infer
    async_done | operand:future | | result:FBICQ | infer
    async_start | operands*:FBICQ | | result:future | ^body isolated single_block infer
    case | index:i | | result*:FBICQ/A/token | ^branches* single_block infer
    composite | inputs*:FBICQ/A/token/tuple | name:string composite_attributes?:dict
        decomposition:symbol version?:i32 | result*:FBICQ/A/token/tuple | ^composite_regions*+
    create_token | |  | output:token | infer
    custom_call | inputs*:any.FBICQA/memref.FBICQ/token/anytuple/future | call_target_name:string
        has_side_effect?:bool backend_config?:config api_version?:api_version
        called_computations?:symbols operand_layouts?:layouts result_layouts?:layouts
        output_operand_aliases?:aliases | result*:any.FBICQA/memref.FBICQ/token/anytuple/future |
    get_tuple_element | operand:tuple | index:i32>=0 | result:FBICQ/A/token/tuple/memref.FBICQ |
        infer
    if | pred:B | | result*:FBICQ/A/token | ^true_branch ^false_branch single_block infer
    optimization_barrier | operand*:FBICQ/token | | result*:FBICQ/token | pairwise infer
    return | results*:FBICQ/A/token/memref.FBICQ | |  | terminator
    tuple | val*:FBICQ/A/token/tuple/memref.FBICQ | | result:tuple | infer
    while | operand*:FBICQ/A/token/memref.FBICQ | | result*:FBICQ/A/token/memref.FBICQ | ^cond
        ^body single_block infer
"""
"""Source: `StablehloOps.td`."""
