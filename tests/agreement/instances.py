"""Instructions the interpreter can run, made of the random cases of `tests/indexing/truth`.

The cases are about indices: most are of f32, and bodies add, whatever the op.  Here operands get
element types the op takes, results the type that is inferred, and bodies the form the op needs.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from hloscope.errors import HloscopeError
from hloscope.interpreter.ops.checking import PROBE
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.registry import kernel
from hloscope.interpreter.values import TOKEN, World, dtype_of
from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.ir.op import NotInferredError, Op
from hloscope.ir.types import (
    ELEMENT_TYPES,
    ElementType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
)
from hloscope.ops import OPS
from hloscope.ops.control import AddDependency, Parameter
from hloscope.ops.elementwise import ELEMENTWISE, Compare, ImplicitBroadcast
from hloscope.ops.quantize import UniformDequantize, UniformQuantize
from hloscope.ops.reduction import Reduce, Sort
from hloscope.ops.windows import ReduceWindow, SelectAndScatter
from hloscope.stablehlo.kinds import AttributeText
from tests.indexing.truth.generator import SCALAR, body
from tests.indexing.truth.marks import Case, Operand

Array = np.ndarray[Any, Any]
Arguments = list[Any]

QUANTIZED: Final = QuantizedType(
    "!quant.uniform<i8:f32, 1.250000e-01:-3>",
    8,
    "quantized",
    storage=ELEMENT_TYPES["s8"],
    expressed=ELEMENT_TYPES["f32"],
    scales=(0.125,),
    zero_points=(-3,),
    storage_min=-128,
    storage_max=127,
)
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "reduce_precision": {"exponent_bits": 6, "mantissa_bits": 9},
    "chlo.constant_like": {
        "settings": (("value", AttributeText("1.0 : f32")),),
        "value_type": ELEMENT_TYPES["f32"],
    },
}
_KINDS: Final = {
    "reduce_precision": "float",
    "is_finite": "float",
    "chlo.is_inf": "float",
    "chlo.is_neg_inf": "float",
    "chlo.is_pos_inf": "float",
    "imag": "complex",
}
"""Kinds of elements, where others would always give the same."""
_TRIED: Final = ("f32", "s32", "pred", "c64", "u8", "bf16", "f64", "s64", "f16", "s4", "f8e4m3fn")


@dataclass(frozen=True, eq=False)
class Instance:
    """An instruction and how to run it alone."""

    case: Case
    module: Module

    @property
    def ins(self) -> Instruction:
        return self.case.ins

    def run(self, arguments: Sequence[Arguments]) -> list[Array]:
        """The arrays it gives for the arguments of each member of the group."""
        with np.errstate(all="ignore"):
            if len(arguments) > 1:
                found = evaluate_grid(self.module, arguments, len(arguments), 1)[self.case.member]
            else:
                found = run(self._plan, arguments[0])
        return [np.asarray(value) for value in _leaves(found)]

    @property
    def _plan(self) -> Any:
        return _plan(self.module)


@cache
def _plan(module: Module) -> Any:
    return Plans(World(extra={PROBE: probes()})).of(module.entry)


@cache
def probes() -> Path:
    """A folder for probes."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif value is not TOKEN:
        yield value


# ------------------------------------------------------------------------------------- types


def is_elementwise(op: Op) -> bool:
    """Is it one of the ops whose element types are chosen here?"""
    return isinstance(op, ImplicitBroadcast) or op.name in ELEMENTWISE


@cache
def signatures(name: str) -> tuple[tuple[ElementType, ...], ...]:
    """Element types of operands that an element-wise op is evaluated for."""
    cls: Any = OPS[name]
    arity = ELEMENTWISE[cls.applies].arity if issubclass(cls, ImplicitBroadcast) else cls.arity
    found = []
    for element in map(ELEMENT_TYPES.__getitem__, _TRIED):
        first = ELEMENT_TYPES["pred"] if name.endswith("select") else element
        types = (first, *(element,) * (arity - 1))
        if name.endswith("_inf") and element.name.endswith("fn"):
            continue  # there is none
        if element.kind not in _KINDS.get(name, element.kind):
            continue
        if name == "stochastic_convert":
            types = (ELEMENT_TYPES["f32"], ELEMENT_TYPES["u32"])
        arrays = tuple([TensorType(t, ()) for t in types])
        op = settled(cls(), 0)
        operands = tuple([Instruction("p", t, Parameter(i)) for i, t in enumerate(arrays)])
        try:
            kernel(Instruction("r", result_of(op, arrays, arrays[-1]), op, operands), World())
        except HloscopeError:
            continue
        found.append(types)
    assert found, f"no element type is known for `{name}`"
    return tuple(dict.fromkeys(found))


def settled(op: Any, seed: int) -> Any:
    """The op with the parameters it needs."""
    if op.name.endswith("compare"):
        direction = ("EQ", "NE", "LT", "LE", "GT", "GE")[seed % 6]
        return type(op)(comparison_direction=direction)
    return type(op)(**FIELDS[op.name]) if op.name in FIELDS else op


def result_of(op: Op, operands: tuple[Type, ...], declared: Type, calls: Any = ()) -> Type:
    """The inferred type, with the declared sizes and layouts where it leaves them open."""
    try:
        inferred = op.infer(operands, calls)
    except NotInferredError:
        return declared
    return _closed(inferred, declared)


def _closed(inferred: Type, declared: Type) -> Type:
    if isinstance(inferred, TupleType) and isinstance(declared, TupleType):
        parts = zip(inferred.elements, declared.elements, strict=True)
        return TupleType(tuple([_closed(i, d) for i, d in parts]))
    if isinstance(inferred, TensorType) and isinstance(declared, TensorType):
        return TensorType(inferred.element, declared.sizes, declared.layout)
    return inferred


# --------------------------------------------------------------------------------- instances


def instance(case: Case, seed: int) -> Instance:
    """The case as something to run."""
    case = replace(case, operands=tuple(_operands(case, seed)))
    op: Op = case.ins.op
    if is_elementwise(op):
        op = settled(op, seed)
    calls = _bodies(case)
    operands = tuple([o.ins for o in case.operands])
    declared = case.ins.type
    if isinstance(op, UniformQuantize):
        assert isinstance(declared, TensorType)
        declared = TensorType(QUANTIZED, declared.sizes)
    type_ = result_of(op, tuple([o.type for o in operands]), declared, calls)
    ins = Instruction("result", type_, op, operands, calls)
    entry = Computation("entry", Body((*operands, ins), operands, ins))
    every = {c.name: c for c in (*calls, entry)}
    return Instance(replace(case, ins=ins), Module("instance", every, entry))


def _operands(case: Case, seed: int) -> Iterator[Operand]:
    """The operands with types that the op takes."""
    op, types = case.ins.op, [o.ins.type for o in case.operands]
    if is_elementwise(op):
        known = signatures(op.name)
        elements = known[seed % len(known)]
        types = [
            TensorType(e, t.sizes)
            for e, t in zip(elements, types, strict=True)
            if isinstance(t, TensorType)
        ]
    if isinstance(op, UniformDequantize) and isinstance(types[0], TensorType):
        types[0] = TensorType(QUANTIZED, types[0].sizes)
    if isinstance(op, AddDependency):
        types[1] = TokenType()
    for operand, type_ in zip(case.operands, types, strict=True):
        old, values = operand.ins, operand.values
        made = Instruction(old.name, type_, old.op)
        if op.name == "set_dimension_size" and values is not None:
            values = np.array(case.outputs[0].shape[0])
        if op.name == "collective_reduce" and values is not None:
            values = np.zeros_like(values)
        yield replace(operand, ins=made, values=values)


def _bodies(case: Case) -> tuple[Computation, ...]:
    """Called computations of the form the op needs; of several values, each result reads all."""
    op, calls = case.ins.op, case.ins.calls
    if isinstance(op, Sort):
        return (_comparison("LT", 2 * len(case.operands)),)
    if isinstance(op, SelectAndScatter):
        return _comparison("GE", 2), calls[1]
    if isinstance(op, Reduce | ReduceWindow) and len(case.operands) > 2:
        count = len(case.operands)
        return (body(count, [range(count)] * (count // 2)),)
    return calls


def _comparison(direction: str, parameters: int) -> Computation:
    params = tuple([Instruction(f"a{i}", SCALAR, Parameter(i)) for i in range(parameters)])
    op = Compare(comparison_direction=direction)
    root = Instruction("root", TensorType(ELEMENT_TYPES["pred"], ()), op, params[:2])
    return Computation("comparator", Body((*params, root), params, root))


# ------------------------------------------------------------------------------------ values


Draw = Callable[[np.random.Generator, ElementType, Any], Array]


def drawn(rng: np.random.Generator, element: ElementType, shape: Any, kind: int) -> Any:
    """Random values: near one (`kind` 0), or from a few, so that some are equal."""
    if isinstance(element, QuantizedType):
        element = element.storage
    dtype = dtype_of(element)
    if element.kind == "pred":
        return rng.random(shape) < 0.5
    if element.kind == "complex":
        parts = [drawn(rng, ELEMENT_TYPES["f64"], shape, kind) for _ in range(2)]
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if element.kind == "float":
        if kind == 0:
            return rng.uniform(0.5, 1.5, shape).astype(dtype)
        return rng.choice([0.5, 1.0, 2.0, -1.0], shape).astype(dtype)
    most = (1 << element.bits - (element.kind == "signed")) - 1
    return rng.choice([0, 1, 2, 3, most, most // 2, most // 3], shape).astype(dtype)


def arguments(case: Case, rng: np.random.Generator, kind: int) -> list[Arguments]:
    """Arguments for each member of the group."""
    op = case.ins.op
    return [[_argument(op, o, rng, kind) for o in case.operands] for _ in range(case.group)]


def _argument(op: Op, operand: Operand, rng: np.random.Generator, kind: int) -> Any:
    type_ = operand.ins.type
    if isinstance(type_, TokenType):
        return TOKEN
    if isinstance(type_, TupleType):
        return tuple(
            drawn(rng, t.element, t.sizes, kind)
            for t in type_.elements
            if isinstance(t, TensorType)
        )
    assert isinstance(type_, TensorType)
    if operand.values is not None:
        return operand.values.astype(dtype_of(type_.element))
    values = drawn(rng, type_.element, type_.sizes, kind)
    if op.name == "cholesky":  # such that there is a factor
        values = (values + 9 * np.eye(values.shape[-1])).astype(values.dtype)
    return values
