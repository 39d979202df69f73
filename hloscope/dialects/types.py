"""Reader of StableHLO's own types.  Source: StableHLO spec, "Types"."""

from __future__ import annotations

from hloscope.ir import FutureType, TensorType, TokenType, Type
from hloscope.mlir import AsmParser, type_text


def read_type(parser: AsmParser, mnemonic: str) -> Type | None:
    """Read a type after its mnemonic, `!stablehlo.token` or `!stablehlo.future`."""
    match mnemonic:
        case "token":
            return TokenType()
        case "future":
            return _future(parser)
    parser.fail(f"unknown stablehlo type: {mnemonic}", parser.mnemonic_at)


def _future(parser: AsmParser) -> Type:
    """Read `<t, u>`, the result types of a future."""
    at = parser.at
    parser.token("<")
    types = [] if parser.peek() == ">" else parser.type_list()
    parser.token(">")
    for type in types:
        if not isinstance(type, TensorType):
            text = type_text(type)
            parser.fail(f"future element type must be a ranked tensor, but got '{text}'", at)
    return FutureType(tuple(types))
