"""Readers and printers of attributes of the dialects `stablehlo` and `chlo`.

>>> from hloscope.mlir.ir import EnumAttr
>>> from hloscope.mlir.dialects.attributes.structs import enum_text
>>> enum_text(EnumAttr("chlo", "comparison_type", "FLOAT"))
'#chlo<comparison_type FLOAT>'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.mlir import AsmParser, AsmPrinter, Attribute, EnumAttr, StructAttr
from hloscope.mlir.dialects.attributes import notations, structs, structs as enums
from hloscope.mlir.dialects.attributes.structs import DYNAMIC

__all__ = ["DYNAMIC", "EMPTY", "read_chlo", "read_stablehlo", "write_chlo", "write_stablehlo"]

EMPTY: Final[dict[str, dict[str, int | tuple[int, ...]]]] = {
    **{
        mnemonic: structs.empty(description)
        for (_, mnemonic), description in structs.OPTIONAL_FIELDS.items()
    },
    "conv": structs.empty(notations.RAW),
    "channel_handle": {"handle": 0, "type": 0},
}
"""Defaults of the fields of structures of numbers, by mnemonic, in the order of the text.

>>> EMPTY["gather"]["index_vector_dim"]
0
"""

_READ: Final[dict[str, Callable[[AsmParser], StructAttr]]] = {
    "bounds": structs.read_bounds,
    "type_extensions": structs.read_type_extensions,
    "conv": notations.read_conv,
    "result_accuracy": notations.read_result_accuracy,
    "sub_axis_info": notations.read_sub_axis,
    "axis_ref": notations.read_axis_ref,
    "mesh": notations.read_mesh,
}

_WRITE: Final[dict[str, Callable[[AsmPrinter, StructAttr], None]]] = {
    "bounds": lambda printer, attribute: printer.write(structs.bounds_text(attribute)),
    "conv": notations.write_conv,
    "sub_axis_info": notations.write_sub_axis,
    "axis_ref": notations.write_axis_ref,
    "mesh": notations.write_mesh,
}


def read_stablehlo(parser: AsmParser, mnemonic: str) -> Attribute:
    """Read the attribute of `stablehlo` after its mnemonic, and return it."""
    reader = _READ.get(mnemonic)
    if reader is not None:
        return reader(parser)
    if mnemonic in structs.REQUIRED_FIELDS:
        return notations.read_checked(parser, mnemonic)
    return _read(parser, "stablehlo", mnemonic, "StableHLO")


def read_chlo(parser: AsmParser, mnemonic: str) -> Attribute:
    """Read the attribute of `chlo` after its mnemonic, and return it."""
    return _read(parser, "chlo", mnemonic, "chlo")


def _read(parser: AsmParser, dialect: str, mnemonic: str, name: str) -> Attribute:
    if (dialect, mnemonic) in structs.OPTIONAL_FIELDS:
        return structs.read_optional_fields(parser, dialect, mnemonic)
    if (dialect, mnemonic) in enums.ENUMS:
        return enums.read_enum(parser, dialect, mnemonic)
    parser.fail(f"unknown {name} attribute")


def write_stablehlo(printer: AsmPrinter, attribute: Attribute) -> bool:
    """Write an attribute of `stablehlo`; return false if the attribute is not one."""
    return _write(printer, attribute, "stablehlo")


def write_chlo(printer: AsmPrinter, attribute: Attribute) -> bool:
    """Write an attribute of `chlo`; return false if the attribute is not one."""
    return _write(printer, attribute, "chlo")


def _write(printer: AsmPrinter, attribute: Attribute, dialect: str) -> bool:
    """Write an enum or structure of a dialect; return false if the attribute is not one."""
    if isinstance(attribute, EnumAttr) and attribute.dialect == dialect:
        printer.write(enums.enum_text(attribute))
        return True
    if isinstance(attribute, StructAttr) and attribute.dialect == dialect:
        printer.write(f"#{dialect}.{attribute.name}")
        _WRITE.get(attribute.name, structs.write_fields)(printer, attribute)
        return True
    return False
