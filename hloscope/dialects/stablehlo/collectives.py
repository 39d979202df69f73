"""Rows of the ops between devices and with the host."""

from typing import Final

ROWS: Final = """
    all_gather effect | operands*:FBICQ | all_gather_dim:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result*:FBICQ | pairwise_element@c6
    all_reduce effect | operands*:FBICQ | replica_groups:groups channel_handle?:channel
        use_global_device_ids?:unit | result*:FBICQ | ^computation single_block infer
    all_to_all effect | operands*:FBICQ | split_dimension:i64>=0 concat_dimension:i64>=0
        split_count:i64>0
        replica_groups:groups channel_handle?:channel | result*:FBICQ | pairwise_element@c9 infer
    collective_broadcast effect since=0.16.0 | operands*:FBICQ | replica_groups:groups
        channel_handle?:channel has_dynamic_root?:unit | result*:FBICQ | infer
    collective_permute effect | operand:FBICQ | source_target_pairs:table channel_handle?:channel |
        result:FBICQ | same_element@c5 infer
    collective_reduce effect since=1.19.0 | operands*:FBICQ | replica_groups:groups
        channel_handle?:channel
        use_global_device_ids?:unit has_dynamic_root?:unit | result*:FBICQ | ^computation
        single_block infer
    cross-replica-sum effect | operand:FBICQ | replica_groups:table | result:FBICQ | compatible
    infeed effect | token:token | infeed_config:string="" layout?:array |
        result*:static.FBICQ/static.FBICQA/token |
    outfeed effect | inputs*:FBICQA token:token | outfeed_config:string="" | result:token | infer
    partition_id effect | | | result:u | infer ~nullary
    recv effect | token:token | channel_handle:channel is_host_transfer?:bool
        source_target_pairs?:ints |
        result*:static.FBICQ/static.FBICQA/token |
    reduce_scatter effect | operand:FBICQ | scatter_dimension:i64>=0 replica_groups:groups
        channel_handle?:channel use_global_device_ids?:unit | result:FBICQ | ^computation
    replica_id effect | | | result:u | infer ~nullary
    send effect | inputs*:FBICQA token:token | channel_handle:channel is_host_transfer?:bool
        source_target_pairs?:ints | result:token | infer
"""
"""Source: `StablehloOps.td`."""
