"""Rows of the dialect `tensor`."""

from typing import Final

ROWS: Final = """
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
"""Source: MLIR's definition of the dialect."""
