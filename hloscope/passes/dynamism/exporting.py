"""Passes that XLA runs on a program that `jax.export` wrote with symbolic sizes.

Source: XLA `pjrt/mlir_to_hlo.cc`, `python/refine_polymorphic_shapes.cc`,
`stablehlo_ext/transforms/ChloRecomposeOps.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.ir import TensorType, TupleType, Type, UnrankedTensorType
from hloscope.mlir import ArrayAttr, DictAttr, Operation, StringAttr, UnitAttr
from hloscope.passes.dynamism.assertions import is_assertion
from hloscope.passes.dynamism.canonicalize import canonicalize
from hloscope.passes.dynamism.extension import CANONICALIZE, REFINE, SIZE_READERS
from hloscope.passes.dynamism.refining import refine
from hloscope.passes.dynamism.values import READY_MARK, flattened
from hloscope.passes.framework import Pass, Run

# --------------------------------------------------------------------------------- chlo-recompose

_RECOMPOSED: Final = {
    "topk": "top_k",
    **{
        name: name
        for name in "erf tan acos acosh asin asinh atanh cosh sinh mulhi ragged_dot".split()
    },
}
"""CHLO ops by the names of the custom calls that represent them."""
_ATTRIBUTES: Final = "mhlo.attributes"
_ALLOWED: Final = frozenset(["call_target_name", _ATTRIBUTES, "mhlo.version"])


def _represented_op(op: Operation) -> tuple[str, DictAttr] | None:
    """Return the CHLO op that a custom call or composite represents, and its attributes."""
    if op.name == "stablehlo.composite":
        return _composed(op)
    name, given = _chlo_name(op), op.get(_ATTRIBUTES)
    if not name or not {*op.attributes} <= _ALLOWED or not isinstance(given, DictAttr):
        return None
    return name, given


def _composed(op: Operation) -> tuple[str, DictAttr] | None:
    """Return the CHLO op that a composite is named after, and its attributes."""
    named = op.get("name")
    given = op.get("composite_attributes") or DictAttr(())
    if not isinstance(named, StringAttr) or not isinstance(given, DictAttr):
        return None
    dialect, _, last = named.text.partition(".")
    is_known = dialect == "chlo" and last in _RECOMPOSED.values()
    return (named.text, given) if is_known else None


def _chlo_name(op: Operation) -> str:
    """Return the CHLO op that a custom call represents; empty if none."""
    target = op.get("call_target_name")
    if op.name != "stablehlo.custom_call" or not isinstance(target, StringAttr):
        return ""
    dialect, _, name = target.text.partition(".")
    if dialect != "mhlo" or name not in _RECOMPOSED:
        return ""
    if op.get("backend_config") not in (None, StringAttr(b""), DictAttr(())):
        return ""
    if op.get("called_computations") not in (None, ArrayAttr(())):
        return ""
    return f"chlo.{_RECOMPOSED[name]}"


def recompose(run: Run) -> None:
    """Replace custom calls and composites by the CHLO ops that they represent."""
    for function in run.functions():
        for op in run.rewriter.walk(function):
            found = _represented_op(op)
            if found is None:
                continue
            name, given = found
            types = [value.type for value in op.results]
            new = run.rewriter.create(
                name, op.operands, dict(given.entries), types=types, before=op
            )
            run.rewriter.replace(op, new.results)
            run.fired["recompose"] += 1


# -------------------------------------------------------------------------------------- validation


def dynamic_ops(run: Run) -> Iterator[Operation]:
    """Yield the ops with a result, or a region argument, of unknown sizes."""
    for op in run.rewriter.walk():
        values = [*op.results]
        for block in op.blocks:
            values += block.arguments
        if any(map(_is_dynamic, flattened([value.type for value in values]))):
            yield op


def _is_dynamic(type: Type) -> bool:
    if isinstance(type, TensorType):
        return not type.is_static
    return isinstance(type, UnrankedTensorType | TupleType)


def validate(run: Run) -> None:
    """Report errors for unknown sizes; if there are none, for remaining assertions."""
    for op in dynamic_ops(run):
        run.error(op, "has dynamic shapes")
    if run.failed:
        return
    for op in run.rewriter.walk():
        if is_assertion(op):
            run.error(op, "has residual shape assertions")


# ------------------------------------------------------------------------------------------ passes


def _refine(run: Run) -> None:
    rewriter = run.rewriter
    for op in rewriter.walk():
        if op.name in SIZE_READERS:
            rewriter.set_attributes(op, {**op.attributes, READY_MARK: UnitAttr()})
    refine(run, REFINE)
    for op in rewriter.walk():
        if READY_MARK in op.attributes:
            rest = {name: value for name, value in op.attributes.items() if name != READY_MARK}
            rewriter.set_attributes(op, rest)


def _canonicalize(run: Run) -> None:
    canonicalize(run, CANONICALIZE)


RECOMPOSE: Final = Pass(
    "stablehlo-ext-chlo-recompose-ops",
    recompose,
    "Replaces custom calls that represent CHLO ops by these ops.",
    on_functions=True,
)
EXT_REFINE_SHAPES: Final = Pass(
    "stablehlo-ext-refine-shapes",
    _refine,
    "refine-shapes, with XLA's custom calls for dynamic ops.",
)
EXT_CANONICALIZE_DYNAMISM: Final = Pass(
    "stablehlo-ext-canonicalize-dynamism",
    _canonicalize,
    "canonicalize-dynamism, with XLA's custom calls for dynamic ops.",
    on_functions=True,
)
VALIDATE: Final = Pass(
    "validate-static-shapes",
    validate,
    "Fails if a size is unknown, or an assertion about sizes remains.",
)
