"""Every attribute and type of VHLO: its code in bytecode, first version and fields.

A row: code name version | fields, each `name:kind` | value in memory. The values are those of
`hloscope.mlir` and `hloscope.ir`, as in StableHLO: `i32_v1` is `i32`, `array_v1` an `ArrayAttr`. So
only ops need a conversion, and a row is all that is known about an attribute. The kinds of fields
are explained in `hloscope.bytecode.fields`, the values in `hloscope.bytecode.values`. Rows are only
added; no attribute or type has been removed yet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.ops import API_VERSIONS
from hloscope.vhlo.versions import Version, version_of

_ATTRIBUTES: Final = """
    1  array_v1                   0.9.0  | value:attrs | array
    2  bool_v1                    0.9.0  | value:varint | bool
    3  comparison_direction_v1    0.9.0  | value:varint | enum comparison_direction
    4  comparison_type_v1         0.9.0  | value:varint | enum comparison_type
    5  api_version_v1             0.9.0  | value:varint | enum api_version
    6  dict_v1                    0.9.0  | value:pairs | dict
    7  fft_type_v1                0.9.0  | value:varint | enum fft_type
    8  float_v1                   0.9.0  | type:type value:bits | float
    9  integer_v1                 0.9.0  | type:type value:bits | integer
    10 output_operand_alias_v1    0.9.0  | output_tuple_indices:svarints operand_index:svarint \
operand_tuple_indices:svarints | struct output_operand_alias
    11 precision_v1               0.9.0  | value:varint | enum precision
    12 rng_algorithm_v1           0.9.0  | value:varint | enum rng_algorithm
    13 rng_distribution_v1        0.9.0  | value:varint | enum rng_distribution
    14 string_v1                  0.9.0  | value:string | string
    15 tensor_v1                  0.9.0  | type:type data:blob | dense
    16 transpose_v1               0.9.0  | value:varint | enum transpose
    17 type_v1                    0.9.0  | value:type | type
    18 type_extensions_v1         0.9.0  | bounds:svarints | struct bounds
    19 result_accuracy_mode_v1    1.9.0  | value:varint | enum result_accuracy_mode
    20 result_accuracy_v1         1.9.0  | atol:f64 rtol:f64 ulps:svarint mode:attr | accuracy
    21 sub_axis_info_v1           1.16.0 | pre_size:svarint size:svarint | struct sub_axis_info
    22 axis_ref_v1                1.16.0 | name:attr sub_axis_info:flagged | axis_ref
    23 replica_group_mesh_axes_v1 1.16.0 | mesh:attr axes:attr | mesh_axes
    24 mesh_axis_v1               1.16.0 | name:attr size:svarint | struct mesh_axis
    25 mesh_v1                    1.16.0 | axes:attr device_ids:attr? | mesh
"""
"""Source: `VhloBytecode.cpp`, `VhloAttrs.td`."""

_TYPES: Final = """
    0  bool_v1            0.9.0  | | i1
    1  complex_v1         0.9.0  | element_type:type | complex
    2  bf16_v1            0.9.0  | | bf16
    3  f16_v1             0.9.0  | | f16
    4  f32_v1             0.9.0  | | f32
    5  f64_v1             0.9.0  | | f64
    6  f8E4M3FN_v1        0.9.0  | | f8E4M3FN
    7  f8E5M2_v1          0.9.0  | | f8E5M2
    8  func_v1            0.9.0  | inputs:types outputs:types | function
    9  index_v1           0.9.0  | | index
    10 i4_v1              0.9.0  | | i4
    11 i8_v1              0.9.0  | | i8
    12 i16_v1             0.9.0  | | i16
    13 i32_v1             0.9.0  | | i32
    14 i64_v1             0.9.0  | | i64
    15 ui4_v1             0.9.0  | | ui4
    16 ui8_v1             0.9.0  | | ui8
    17 ui16_v1            0.9.0  | | ui16
    18 ui32_v1            0.9.0  | | ui32
    19 ui64_v1            0.9.0  | | ui64
    20 tensor_v1          0.9.0  | shape:svarints element_type:type | tensor
    21 tensor_v1          0.9.0  | encoding:attr shape:svarints element_type:type | encoded
    22 token_v1           0.9.0  | | token
    23 tuple_v1           0.9.0  | types:types | tuple
    24 quant_v1           0.9.0  | flags:varint storage_type:type expressed_type:type scale:f64 \
zero_point:svarint storage_type_min:svarint storage_type_max:svarint | quantized
    25 unranked_tensor_v1 0.9.0  | element_type:type | unranked
    26 witness_v1         0.9.0  | | witness
    27 f8E4M3FNUZ_v1      0.10.0 | | f8E4M3FNUZ
    28 f8E5M2FNUZ_v1      0.10.0 | | f8E5M2FNUZ
    29 f8E4M3B11FNUZ_v1   0.11.0 | | f8E4M3B11FNUZ
    30 quant_per_axis_v1  0.18.0 | flags:varint storage_type:type expressed_type:type \
quantized_dimension:varint storage_type_min:svarint storage_type_max:svarint scales:f64s \
zero_points:svarints | quantized_axis
    31 i2_v1              1.2.0  | | i2
    32 ui2_v1             1.2.0  | | ui2
    33 none_v1            1.6.0  | | none
    34 tf31_v1            1.6.0  | | tf32
    35 f8E4M3_v1          1.7.0  | | f8E4M3
    36 f8E3M4_v1          1.7.0  | | f8E3M4
    37 f4E2M1FN_v1        1.8.0  | | f4E2M1FN
    38 f6E2M3FN_v1        1.8.0  | | f6E2M3FN
    39 f6E3M2FN_v1        1.8.0  | | f6E3M2FN
    40 f8E8M0FNU_v1       1.8.0  | | f8E8M0FNU
    41 buffer_v1          1.13.0 | shape:svarints element_type:type | buffer
    42 future_v1          1.15.0 | types:types | future
"""
"""Source: `VhloBytecode.cpp`, `VhloTypes.td`."""

ENUMS: Final = {"api_version": list(API_VERSIONS)}
"""Enums of VHLO that StableHLO does not have."""


class CodeRow(NamedTuple):
    """An attribute or a type of VHLO.

    Attributes:
        code: Number in bytecode.
        name: Name without the dialect.
        since: The first version that has it.
        fields: Name and kind of each field, in the order of bytecode.
        value: Kind of the value in memory, and for some kinds its name.
    """

    code: int
    name: str
    since: Version
    fields: tuple[tuple[str, str], ...]
    value: tuple[str, ...]


def code_row(row: str) -> CodeRow:
    """Parse a row `code name version | fields | value`.

    >>> code_row("17 type_v1 0.9.0 | value:type | type").fields
    (('value', 'type'),)
    """
    head, fields, value = row.split("|")
    code, name, since = head.split()
    pairs = tuple((name, kind) for name, _, kind in (f.partition(":") for f in fields.split()))
    return CodeRow(int(code), name, version_of(since), pairs, tuple(value.split()))


ATTRIBUTES: Final = tuple(map(code_row, _ATTRIBUTES.strip().splitlines()))
"""Every attribute by its code."""
TYPES: Final = tuple(map(code_row, _TYPES.strip().splitlines()))
"""Every type by its code."""
