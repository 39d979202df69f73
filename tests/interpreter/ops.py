"""One op as a program: what it makes of given arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.interpreter.evaluation import evaluate
from hloscope.ir.arrays import numpy_dtype
from hloscope.ir.types import ElementType, TensorType
from hloscope.mlir.types import ELEMENTS, type_text
from hloscope.stablehlo import parse_stablehlo

FLOATS = tuple(n for n, e in ELEMENTS.items() if e.kind == "float" and e.numpy)
"""Every type of floats, as MLIR spells it."""
INTEGERS = tuple(
    n for n, e in ELEMENTS.items() if e.kind in ("signed", "unsigned") and e.numpy and n != "index"
)
"""Every type of integers."""
COMPLEX = ("complex<f32>", "complex<f64>")


def dtype_of(spelling: str) -> Any:
    """The numpy type of an element type as MLIR spells it."""
    return numpy_dtype(ELEMENTS[spelling])


def array(numbers: Any, spelling: str) -> Any:
    """An array of an element type; its numbers are made of floats where it has no others."""
    dtype = dtype_of(spelling)
    if dtype.kind == "V" or dtype.name.startswith(("float8", "float6", "float4", "bfloat")):
        return np.asarray(numbers, np.float32).astype(dtype)
    return np.asarray(numbers, dtype) if dtype.kind != "c" else np.asarray(numbers).astype(dtype)


def apply(op: str, *operands: Any, result: str = "", attributes: str = "") -> Any:
    """What an op makes of arrays; its result has the type of the first unless `result` names one.

    (`select` chooses by its first array; its result has the type of the second.)

    An op without a dialect's name is one of StableHLO.
    """
    types = [_type(x) for x in operands]
    first = types[op == "select"]
    out = type_text(TensorType(ELEMENTS[result], first.sizes)) if result else type_text(first)
    name = op if "." in op else f"stablehlo.{op}"
    texts = [type_text(t) for t in types]
    parameters = ", ".join(f"%{i}: {t}" for i, t in enumerate(texts))
    names = ", ".join(f"%{i}" for i in range(len(texts)))
    text = (
        f"func.func @main({parameters}) -> {out} {{\n"
        f'  %r = "{name}"({names}) {{{attributes}}} : ({", ".join(texts)}) -> {out}\n'
        f"  return %r : {out}\n}}\n"
    )
    (found,) = evaluate(parse_stablehlo(text), operands)
    return found


def _type(x: Any) -> TensorType:
    return TensorType(_ELEMENTS[x.dtype.name], tuple(x.shape))


_ELEMENTS: dict[str, ElementType] = {
    numpy_dtype(e).name: e for n, e in ELEMENTS.items() if e.numpy and n != "index"
}


def numbers(value: Any) -> list[Any]:
    """The elements of an array, NaNs written as text so that they are equal."""
    flat: Any = np.asarray(value).reshape(-1)
    wide = flat if flat.dtype.kind in "biuc" else flat.astype(np.float64)
    return ["nan" if x != x else x for x in wide.tolist()]
