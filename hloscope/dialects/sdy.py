"""Rows of the dialect `sdy`."""

from typing import Final

ROWS: Final = """
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
"""Source: Shardy's definition of the dialect."""
