"""Definitions of ops of MLIR's own dialects and of Shardy's `sdy`, as tables."""

from typing import Final

# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `builtin`.


BUILTIN: Final = """
    module | | sym_name?:string sym_visibility?:string | | ^bodyRegion single_block no_terminator
        isolated symbol_table
    unrealized_conversion_cast | inputs*:anything | | outputs*:anything |
"""
"""Ops of the dialect `builtin`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `func`.


FUNC: Final = """
    call | operands*:anything | callee:callee arg_attrs?:dicts res_attrs?:dicts no_inline?:unit |
        result*:anything |
    call_indirect | callee:function callee_operands*:anything | arg_attrs?:dicts res_attrs?:dicts |
        results*:anything |
    constant | | value:symbol | result:anything |
    func | | sym_name:string function_type:type sym_visibility?:string arg_attrs?:dicts
        res_attrs?:dicts no_inline?:unit | | ^body+ isolated symbol
    return | operands*:anything | | | terminator
"""
"""Ops of the dialect `func`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `cf`.


CF: Final = """
    assert | msg
        ~ %arg, <string msg><attrs><implied inputs i1>
    br terminator | ~br
    cond_br terminator | operandSegmentSizes branch_weights? ~cond_br
    switch terminator | case_values? case_operand_segments operandSegmentSizes
"""
"""Ops of the dialect `cf`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `scf`.


SCF: Final = """
    yield terminator | ~list
    for | unsignedCmp? ~scf.for
    if | ~scf.if
    while | ~scf.while
    condition terminator | ~scf.condition
    execute_region | no_inline?
    forall | staticLowerBound staticUpperBound staticStep mapping? operandSegmentSizes
    forall.in_parallel terminator |
    index_switch | cases
    parallel | operandSegmentSizes
    reduce terminator |
    reduce.return terminator |
"""
"""Ops of the dialect `scf`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `arith`.


ARITH: Final = """
    constant | value ~value
    addi | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    addf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    subi | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    subf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    muli | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    mulf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    divsi | isExact? ~binary_exact
    divui | isExact? ~binary_exact
    divf | fastmath:any=#arith.fastmath<none> roundingmode?:any ~binary_fastmath
    ceildivsi | ~binary_each
    floordivsi | ~binary_each
    remsi | ~binary_each
    remui | ~binary_each
    andi | ~binary_each
    ori | ~binary_each
    xori | ~binary_each
    shli | overflowFlags:any=#arith.overflow<none> ~binary_overflow
    shrsi | isExact? ~binary_exact
    shrui | isExact? ~binary_exact
    maxsi | ~binary_each
    maxui | ~binary_each
    minsi | ~binary_each
    minui | ~binary_each
    maximumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    minimumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    negf | fastmath:any=#arith.fastmath<none>
        ~ %operand<flags fastmath fastmath><attrs> : <each>
    cmpi | predicate
        ~ <numbered integer predicate>, %lhs, %rhs<attrs> : <every type><implied_boolean>
    cmpf | predicate fastmath:any=#arith.fastmath<none>
        ~ <numbered float predicate>, %lhs, %rhs<flags fastmath fastmath><attrs> : <every
        type><implied_boolean>
    index_cast | ~cast
    index_castui | nonNeg? ~cast_nneg
    extsi | ~cast
    extui | nonNeg? ~cast_nneg
    extf | fastmath? ~cast_fastmath
    trunci | overflowFlags:any=#arith.overflow<none>
        ~ %in<flags overflow overflowFlags><attrs> : <in> to <out>
    truncf | roundingmode? fastmath? ~cast_fastmath
    sitofp | ~cast
    uitofp | nonNeg? ~cast_nneg
    fptosi | ~cast
    fptoui | ~cast
    bitcast | ~cast
    select |
        ~ %condition, %true, %false<attrs> : <choice>
    maxnumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    minnumf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    remf | fastmath:any=#arith.fastmath<none> ~binary_fastmath
    ceildivui | ~binary_each
    addui_extended names=sum,overflow |
    subui_extended |
    mulsi_extended names=low,high |
    mului_extended names=low,high |
"""
"""Ops of the dialect `arith`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `tensor`.


TENSOR: Final = """
    cast names=cast | ~cast
    dim names=dim |
        ~<attrs> %source, %index : <in><implied inputs index><implied output index>
    empty |
        ~(%sizes*)<attrs> : <out><implied inputs index>
    extract names=extracted |
        ~ %tensor[%indices*]<attrs> : <in><implied inputs index><implied output element>
    from_elements names=from_elements |
        ~ %elements*<attrs> : <out><implied inputs element>
    insert names=inserted |
        ~ %scalar into %dest[%indices*]<attrs> : <insertion>
    splat names=splat |
        ~ %input<attrs> : <out><implied inputs element>
    rank names=rank |
        ~ %tensor<attrs> : <in><implied output index>
    reshape names=reshape |
        ~ %source(%shape)<attrs> : <function>
    generate names=generated |
    yield terminator |
        ~ %value<attrs> : <in>
    concat names=concat | dim
        ~ dim(<i64 dim>) %inputs*<attrs> : <function>
    expand_shape names=expanded | reassociation static_output_shape
        ~ %src <array reassociation> output_shape <sizes static_output_shape><attrs> : <in> into
        <out><implied inputs index>
    collapse_shape names=collapsed | reassociation
        ~ %src <array reassociation><attrs> : <in> into <out>
    extract_slice names=extracted_slice | static_offsets static_sizes static_strides
        operandSegmentSizes
    insert_slice names=inserted_slice | static_offsets static_sizes static_strides
        operandSegmentSizes
    pad names=padded | static_low static_high nofold? operandSegmentSizes
    bitcast names=bitcast | ~cast
    gather names=gather | gather_dims unique?
    scatter names=scatter | scatter_dims unique?
    parallel_insert_slice | static_offsets static_sizes static_strides operandSegmentSizes
"""
"""Ops of the dialect `tensor`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `shape`.


SHAPE: Final = """
    any | ~variadic_arrow
    assuming | ~assuming
    assuming_all |
        ~ %inputs*<attrs><implied inputs !shape.witness><implied output !shape.witness>
    assuming_yield terminator | ~list
    broadcast | error? ~variadic_arrow
    const_shape | shape
        ~ <attrs><shape shape> : <out>
    const_size | value
        ~ <index value><attrs><implied output !shape.size>
    const_witness | passing
        ~ <bool passing><attrs><implied output !shape.witness>
    concat | ~binary_arrow
    cstr_broadcastable | ~witness
    cstr_eq | ~witness
    cstr_require | msg
        ~ %pred, <string msg><attrs><implied inputs i1><implied output !shape.witness>
    div | ~binary_arrow
    from_extents |
        ~ %extents*<attrs> : <in *><implied output !shape.shape>
    from_extent_tensor |
        ~ %input<attrs> : <in><implied output !shape.shape>
    get_extent | ~binary_arrow
    index_to_size |
        ~ %arg<attrs><implied inputs index><implied output !shape.size>
    is_broadcastable | ~predicate
    mul | ~binary_arrow
    num_elements | ~unary_arrow
    rank | ~unary_arrow
    shape_of | ~unary_arrow
    size_to_index |
        ~ %arg<attrs> : <in><implied output index>
    split_at names=head,tail |
    to_extent_tensor | ~unary_arrow
    value_as_shape | ~unary_arrow
    value_of | ~unary_arrow
    yield terminator | ~list
    add | ~binary_arrow
    dim | ~binary_arrow
    max | ~binary_arrow
    min | ~binary_arrow
    shape_eq | ~predicate
"""
"""Ops of the dialect `shape`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `memref`.


MEMREF: Final = """
    alloc | alignment? operandSegmentSizes
    alloca | alignment? operandSegmentSizes
    assume_alignment | alignment
    cast names=cast | ~cast
    copy |
    dealloc |
    dim names=dim |
    get_global | name
    global | sym_name sym_visibility? type initial_value? constant? alignment?
    load | nontemporal? alignment?
    memory_space_cast | ~cast
    rank |
    reinterpret_cast | static_offsets static_sizes static_strides operandSegmentSizes
    reshape |
    store | nontemporal? alignment?
    subview | static_offsets static_sizes static_strides operandSegmentSizes
    view |
"""
"""Ops of the dialect `memref`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `bufferization`.


BUFFERIZATION: Final = """
    to_buffer | read_only? ~cast
    to_tensor | restrict? writable? ~cast
"""
"""Ops of the dialect `bufferization`; `rows` explains the notation.

Source: MLIR's definition of the dialect.
"""


# --------------------------------------------------------------------------------------------------
# Definitions of the dialect `sdy`.


SDY: Final = """
    mesh | sym_name mesh
        ~ <symbol sym_name> = <bare sdy.mesh mesh><attrs>
    constant | value ~value
    sharding_constraint | sharding ~resharding
    sharding_group | group_id
        ~ %input group_id=<i64 group_id><attrs> : <every type>
    reshard | sharding ~resharding
    manual_computation | in_shardings out_shardings manual_axes ~manual_computation
    named_computation | name in_shardings? out_shardings? ~named_computation
    propagation_barrier | allowed_direction
        ~ %input allowed_direction=<numbered direction allowed_direction><attrs> : <each>
    data_flow_edge | sharding?
        ~ %input(? sharding=<bare sdy.sharding sharding>?)<attrs> : <each>
    func_data_flow_edge |
        ~ %input<attrs> : <each>
    all_gather | gathering_axes out_sharding
        ~ <inside list_of_axis_ref_lists gathering_axes> %tensor out_sharding=<bare sdy.sharding
        out_sharding><attrs> : <each>
    all_slice | slicing_axes out_sharding
        ~ <inside list_of_axis_ref_lists slicing_axes> %tensor out_sharding=<bare sdy.sharding
        out_sharding><attrs> : <each>
    all_to_all | params out_sharding
        ~ <inside all_to_all_param_list params> %tensor out_sharding=<bare sdy.sharding
        out_sharding><attrs> : <each>
    all_reduce | reduction_axes reduction_op? out_sharding
        ~ <unless_first reduction reduction_op><inside axis_ref_list reduction_axes> %tensor
        out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>
    reduce_scatter | reduce_scatter_axes reduction_op? out_sharding
        ~ <unless_first reduction reduction_op><inside list_of_axis_ref_lists
        reduce_scatter_axes> %tensor out_sharding=<bare
        sdy.sharding out_sharding><attrs> : <each>
    collective_permute | out_sharding
        ~ %tensor out_sharding=<bare sdy.sharding out_sharding><attrs> : <each>
    sharded_to_unreduced | axes out_sharding
        ~ <inside list_of_axis_ref_lists axes> %tensor out_sharding=<bare sdy.sharding
        out_sharding><attrs> : <each>
    replicated_to_unreduced | axes out_sharding
        ~ <inside axis_ref_list axes> %tensor out_sharding=<bare sdy.sharding out_sharding><attrs> :
        <each>
    return terminator | ~list
"""
"""Ops of the dialect `sdy`; `rows` explains the notation.

Source: Shardy's definition of the dialect.
"""
