"""Definitions of the ops about control flow, other devices, the host, tokens and tuples."""

from typing import Final

ROWS: Final = """
    after_all | inputs*:token |  | result:token | infer
    all_gather | operands*:FBICQ | all_gather_dim:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result*:FBICQ | pairwise_element
    all_reduce | operands*:FBICQ | replica_groups:groups channel_handle?:channel
        use_global_device_ids?:unit | result*:FBICQ | ^computation single_block infer
    all_to_all | operands*:FBICQ | split_dimension:i64>=0 concat_dimension:i64>=0 split_count:i64>0
        replica_groups:groups channel_handle?:channel | result*:FBICQ | pairwise_element infer
    async_done | operand:future |  | result:FBICQ | infer
    async_start | operands*:FBICQ |  | result:future | ^body single_block infer
    case | index:i |  | result*:FBICQ/A/token | ^branches* single_block infer
    collective_broadcast | operands*:FBICQ | replica_groups:groups channel_handle?:channel
        has_dynamic_root?:unit | result*:FBICQ | infer
    collective_permute | operand:FBICQ | source_target_pairs:ints channel_handle?:channel |
        result:FBICQ | same_element infer
    collective_reduce | operands*:FBICQ | replica_groups:groups channel_handle?:channel
        use_global_device_ids?:unit has_dynamic_root?:unit | result*:FBICQ | ^computation
        single_block infer
    composite | inputs*:FBICQ/A/token/tuple | name:string composite_attributes?:dict
        decomposition:symbol version?:i32 | result*:FBICQ/A/token/tuple | ^composite_regions*+
    create_token |  |  | output:token | infer
    cross-replica-sum | operand:FBICQ | replica_groups:ints | result:FBICQ | compatible
    custom_call | inputs*:any.FBICQA/memref.FBICQ/token/anytuple/future | call_target_name:string
        has_side_effect?:bool backend_config?:config api_version?:api_version
        called_computations?:symbols operand_layouts?:layouts result_layouts?:layouts
        output_operand_aliases?:aliases | result*:any.FBICQA/memref.FBICQ/token/anytuple/future |
    get_tuple_element | operand:tuple | index:i32>=0 | result:FBICQ/A/token/tuple/memref.FBICQ |
        infer
    if | pred:B |  | result*:FBICQ/A/token | ^true_branch ^false_branch single_block infer
    infeed | token:token | infeed_config?:string layout?:array |
        result*:static.FBICQ/static.FBICQA/token |
    optimization_barrier | operand*:FBICQ/token |  | result*:FBICQ/token | pairwise infer
    outfeed | inputs*:FBICQA token:token | outfeed_config?:string | result:token | infer
    partition_id |  |  | result:u | infer
    recv | token:token | channel_handle:channel is_host_transfer?:bool source_target_pairs?:ints |
        result*:static.FBICQ/static.FBICQA/token |
    reduce_scatter | operand:FBICQ | scatter_dimension:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result:FBICQ | ^computation
    replica_id |  |  | result:u | infer
    return | results*:FBICQ/A/token/memref.FBICQ |  |  | terminator
    send | inputs*:FBICQA token:token | channel_handle:channel is_host_transfer?:bool
        source_target_pairs?:ints | result:token | infer
    tuple | val*:FBICQ/A/token/tuple/memref.FBICQ |  | result:tuple | infer
    while | operand*:FBICQ/A/token/memref.FBICQ |  | result*:FBICQ/A/token/memref.FBICQ | ^cond
        ^body single_block infer
"""
"""Source: `StablehloOps.td`."""
