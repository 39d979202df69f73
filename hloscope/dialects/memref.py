"""Rows of the dialect `memref`."""

from typing import Final

ROWS: Final = """
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
"""Source: MLIR's definition of the dialect."""
