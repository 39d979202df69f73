"""Definitions of the ops of other dialects that StableHLO programs use.

Those with two columns name their inherent attributes and leave the rest unchecked.
"""

from typing import Final

BUILTIN: Final = """
    module |  | sym_name?:string sym_visibility?:string |  | ^bodyRegion single_block no_terminator
        isolated symbol_table
    unrealized_conversion_cast | inputs*:anything |  | outputs*:anything |
"""

FUNC: Final = """
    call | operands*:anything | callee:symbol arg_attrs?:dicts res_attrs?:dicts no_inline?:unit |
        result*:anything |
    call_indirect | callee:function callee_operands*:anything | arg_attrs?:dicts res_attrs?:dicts |
        results*:anything |
    constant |  | value:symbol | result:anything |
    func |  | sym_name:string function_type:type sym_visibility?:string arg_attrs?:dicts
        res_attrs?:dicts no_inline?:unit |  | ^body+ isolated symbol
    return | operands*:anything |  |  | terminator
"""

SDY: Final = """
    mesh | sym_name mesh
    constant | value
    sharding_constraint | sharding
    sharding_group | group_id
    reshard | sharding
    manual_computation | in_shardings out_shardings manual_axes
    named_computation | name in_shardings? out_shardings?
    propagation_barrier | allowed_direction
    data_flow_edge | sharding?
    func_data_flow_edge |
    all_gather | gathering_axes out_sharding
    all_slice | slicing_axes out_sharding
    all_to_all | params out_sharding
    all_reduce | reduction_axes out_sharding
    reduce_scatter | reduce_scatter_axes out_sharding
    collective_permute | out_sharding
    sharded_to_unreduced | axes out_sharding
    replicated_to_unreduced | axes out_sharding
    return |
"""

ARITH: Final = """
    constant | value
    addi | overflowFlags?
    addf | fastmath?
    subi | overflowFlags?
    subf | fastmath?
    muli | overflowFlags?
    mulf | fastmath?
    divsi | isExact?
    divui | isExact?
    divf | fastmath?
    ceildivsi |
    floordivsi |
    remsi |
    remui |
    andi |
    ori |
    xori |
    shli | overflowFlags?
    shrsi | isExact?
    shrui | isExact?
    maxsi |
    maxui |
    minsi |
    minui |
    maximumf | fastmath?
    minimumf | fastmath?
    negf | fastmath?
    cmpi | predicate
    cmpf | predicate fastmath?
    index_cast |
    index_castui | nonNeg?
    extsi |
    extui | nonNeg?
    extf | fastmath?
    trunci | overflowFlags?
    truncf | roundingmode? fastmath?
    sitofp |
    uitofp | nonNeg?
    fptosi |
    fptoui |
    bitcast |
    select |
"""

TENSOR: Final = """
    cast |
    dim |
    empty |
    extract |
    from_elements |
    insert |
    splat |
    rank |
    reshape |
    generate |
    yield |
    concat | dim
    expand_shape | reassociation static_output_shape
    collapse_shape | reassociation
    extract_slice | static_offsets static_sizes static_strides operandSegmentSizes
    insert_slice | static_offsets static_sizes static_strides operandSegmentSizes
    pad | static_low static_high nofold? operandSegmentSizes
"""

SHAPE: Final = """
    any |
    assuming |
    assuming_all |
    assuming_yield |
    broadcast | error?
    const_shape | shape
    const_size | value
    const_witness | passing
    concat |
    cstr_broadcastable |
    cstr_eq |
    cstr_require | msg
    div |
    from_extents |
    from_extent_tensor |
    get_extent |
    index_to_size |
    is_broadcastable |
    mul |
    num_elements |
    rank |
    shape_of |
    size_to_index |
    split_at |
    to_extent_tensor |
    value_as_shape |
    value_of |
    yield |
"""

CF: Final = """
    assert | msg
    br |
    cond_br | operandSegmentSizes branch_weights?
    switch | case_values? case_operand_segments operandSegmentSizes
"""
"""Source: the definitions of the dialects `sdy`, `arith`, `tensor`, `shape` and `cf`."""
