"""Spelling of VHLO's attributes and types: one row each, for parser and printer.

A row: name | spelling. `{name:kind}` in a spelling is a field of the bytecode row, and `[[…]]` is
optional. Attributes and types without a row have no fields. The kinds are explained in
`vhlo_printing` and `vhlo_parsing`.

Source: `VhloAttrs.td`, `VhloTypes.td`, and what jaxlib prints.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.lazy import pattern
from hloscope.vhlo import ATTRIBUTES, TYPES, CodeRow

_ROWS: Final = """
    complex_v1           | <{element_type:one}>
    func_v1              | <({inputs:types}) -> {outputs:types}>
    tensor_v1            | <{shape:sizes}{element_type:one}[[, {encoding:one}]]>
    tuple_v1             | <{types:many}>
    quant_v1             | <{storage_type:one}:{expressed_type:one}, {scale:f64}:{zero_point:int}, \
{storage_type_min:int}:{storage_type_max:int}, {flags:int}>
    quant_per_axis_v1    | <{storage_type:one}:{expressed_type:one}, {quantized_dimension:int}, \
[{scales:f64s}], [{zero_points:ints}], {storage_type_min:int}:{storage_type_max:int}, {flags:int}>
    unranked_tensor_v1   | <{element_type:one}>
    buffer_v1            | <{shape:sizes}{element_type:one}>
    future_v1            | <{types:many}>

    #array_v1            | <[{value:many}]>
    #bool_v1             | <{value:truth}>
    #dict_v1             | <{{value:pairs}}>
    #float_v1            | <{value:number}>
    #integer_v1          | <{value:plain}>
    #output_operand_alias_v1 | <outputTupleIndices = [{output_tuple_indices:ints}], \
operandIndex = {operand_index:int}, operandTupleIndices = [{operand_tuple_indices:ints}]>
    #string_v1           | <{value:string}>
    #tensor_v1           | <{data:plain}>
    #type_v1             | <{value:one}>
    #type_extensions_v1  | <bounds = [{bounds:bounds}]>
    #result_accuracy_v1  | <atol = {atol:f64}, rtol = {rtol:f64}, ulps = {ulps:int}, \
mode = {mode:mode}>
    #sub_axis_info_v1    | <pre_size = {pre_size:int}, size = {size:int}>
    #axis_ref_v1         | <name = {name:one}[[, sub_axis_info = {sub_axis_info:one}]]>
    #replica_group_mesh_axes_v1 | <mesh = {mesh:one}, axes = {axes:one}>
    #mesh_axis_v1        | <name = {name:one}, size = {size:int}>
    #mesh_v1             | <axes = {axes:one}[[, device_ids = {device_ids:one}]]>
"""


class Piece(NamedTuple):
    """A part of a spelling: text, or a field with its kind; and whether it is optional."""

    text: str
    kind: str = ""
    optional: bool = False


_PIECE: Final = pattern(r"\{(\w+):(\w+)\}|\[\[|\]\]|(?:(?!\{\w+:|\[\[|\]\]).)+")


def _pieces(spelling: str) -> tuple[Piece, ...]:
    found: list[Piece] = []
    optional = False
    for part in _PIECE.finditer(spelling):
        if part[0] in ("[[", "]]"):
            optional = part[0] == "[["
        elif part[1]:
            found.append(Piece(part[1], part[2], optional))
        else:
            found.append(Piece(part[0], optional=optional))
    return tuple(found)


FORMS: Final[dict[str, tuple[Piece, ...]]] = {
    name.strip(): _pieces(spelling.strip())
    for row in _ROWS.replace("\\\n", "").strip().splitlines()
    if row.strip()
    for name, _, spelling in [row.partition(" | ")]
}
"""Spellings by name; names of attributes begin with `#`."""

ROWS: Final[dict[str, tuple[CodeRow, ...]]] = {}
"""Bytecode rows by name, as in `FORMS`; a tensor type has two, with and without encoding."""
for _sign, _table in (("#", ATTRIBUTES), ("", TYPES)):
    for _row in _table:
        _name = _sign + _row.name
        ROWS[_name] = (*ROWS.get(_name, ()), _row)
