"""Texts of programs of one op, and arrays to call them with."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.interpreter.values import dtype_of
from hloscope.ir.types import TensorType
from hloscope.mlir.text.parser import parse_type


def one(op: str, result: str, *operands: str) -> str:
    """A program of one op of operands `%a`, `%b` …"""
    names = ["%a", "%b", "%c"]
    taken = ", ".join(f"{n}: tensor<{t}>" for n, t in zip(names, operands, strict=False))
    return f"""func.func @main({taken}) -> tensor<{result}> {{
      %0 = stablehlo.{op}
      return %0 : tensor<{result}>
    }}"""


def array(type_: str, *numbers: int) -> Any:
    """An array of an element type of MLIR."""
    tensor = parse_type(f"tensor<{type_}>")
    assert isinstance(tensor, TensorType)
    return np.array(numbers, "i8").astype(dtype_of(tensor.element)).reshape(tensor.shape)


def hlo(*lines: str) -> str:
    """A module of an entry with these instructions."""
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])
