"""Ops that compare values (dialect `check`), and ops that print values or write them to files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.shown import FAR, Difference, exactly, value_text, within, within_ulps
from hloscope.interpreter.values import Array, EvaluationError, Value, World, dtype_of
from hloscope.ir import Op, QuantizedType, TensorType, TupleType, Type, Written
from hloscope.ops import (
    TOLERANCE,
    CustomCall,
    ExpectAlmostEq,
    ExpectAlmostEqConst,
    ExpectClose,
    ExpectEq,
    ExpectEqConst,
    ExpectSerializedEq,
    Print,
    Probe,
)

# --------------------------------------------------------------------------------------------------
# Ops that compare values: dialect `check`, and custom calls of the same names.
#
# Source: StableHLO's `CheckOps.cpp`; the custom calls have other tolerances.


Comparison = Callable[[Array, Array], Difference | None]


def _number(text: Written, default: int) -> int:
    """Return the integer that an attribute states; `default` if the attribute is missing."""
    found = text.value
    return default if found is None else int(found)


def _compared(what: str, compare: Comparison, found: Any, expected: Any) -> None:
    """Compare a value with the expected one; return nothing if they agree.

    Args:
        what: Text that names the check in the message.
        compare: Returns the difference of two arrays, or `None`.
        found: The value.
        expected: The expected value.

    Raises:
        EvaluationError: Their shapes or elements differ.
    """
    if found.shape != expected.shape:
        raise EvaluationError(
            f"{what}: found shape {list(found.shape)}, expected {list(expected.shape)}"
        )
    difference = compare(found, expected)
    if difference is not None:
        raise EvaluationError(f"{what}: {difference}")


def _pair(what: str, compare: Comparison) -> Kernel:
    """Return a kernel that compares its two operands by `compare`, the found and expected value.

    `what` names the check in messages.
    """

    def kernel(found: Value, expected: Value) -> Value:
        _compared(what, compare, found, expected)
        return ()

    return kernel


def _comparison(op: Op) -> Comparison:
    """Return the comparison that an op of the dialect `check` makes."""
    match op:
        case ExpectAlmostEq() | ExpectAlmostEqConst():
            return partial(within, tolerance=op.tolerance)
        case ExpectClose():
            most = _number(op.max_ulp_difference, 1) & FAR  # unsigned
            least = _number(op.min_ulp_difference, 0) & FAR
            return partial(within_ulps, most=most, least=least)
        case _:
            return exactly


@evaluates(ExpectEq, ExpectAlmostEq, ExpectClose)
def _expect(op: Op, at: Site) -> Kernel:
    return _pair(op.name, _comparison(op))


@evaluates(ExpectEqConst, ExpectAlmostEqConst)
def _expect_const(op: ExpectEqConst | ExpectAlmostEqConst, at: Site) -> Kernel:
    """Return a kernel that compares its operand with the constant of the op."""
    compare, expected = _comparison(op), op.value.array(op.value.type or TupleType(()))

    def kernel(found: Value) -> Value:
        _compared(op.name, compare, found, expected)
        return ()

    return kernel


@evaluates(ExpectSerializedEq)
def _expect_serialized_eq(op: ExpectSerializedEq, at: Site) -> Kernel:
    """Return a kernel that compares the operand with a value that a probe has written to a file."""
    number = _number(op.iteration, 0)
    (type_,) = at.operands
    world = at.world

    def kernel(found: Value) -> Value:
        _compared(op.name, exactly, found, probed(world, op.probe_id, number, type_))
        return ()

    return kernel


_CALLS: Final[dict[str, Comparison]] = {
    "check.expect_eq": exactly,
    "check.expect_almost_eq": partial(within, tolerance=1e-3),
    "check.expect_close": partial(within_ulps, most=3),
}
"""Comparison by the target of a custom call."""


@implements(*_CALLS)
def _call(op: CustomCall, at: Site) -> Kernel:
    return _pair(op.call_target_name, _CALLS[op.call_target_name])


@implements("check.eq")
def _call_check(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of the custom call `check.eq`: it returns true if its operands are equal.

    It raises an error if they differ.
    """
    compare, true = partial(within, tolerance=TOLERANCE), np.bool_(True)
    shape = at.result.sizes if isinstance(at.ins.type, TensorType) else ()
    result = np.broadcast_to(true, [size or 1 for size in shape])

    def kernel(found: Value, expected: Value) -> Value:
        _compared(op.call_target_name, compare, found, expected)
        return result

    return kernel


# --------------------------------------------------------------------------------------------------
# `interpreter.print` and `interpreter.probe`: values printed, and written to files.
#
# Source: StableHLO's `InterpreterOps.cpp` and `NumPy.cpp`.


PROBE: Final = "probe"
"""Key of `World.extra` for the folder that probes write to."""
PRINT: Final = "print"
"""Key of `World.extra` for the function that takes the text of `interpreter.print`."""

_INDEX: Final = "index.csv"


@evaluates(Print)
def _print(op: Print, at: Site) -> Kernel:
    """Return the kernel of `interpreter.print`, which prints the operand and returns it.

    The text has the operand's name and type.
    """
    ins, world = at.ins.operands[0], at.world
    type_ = ins.type

    def kernel(value: Value) -> Value:
        write = world.extra.get(PRINT, print)
        write(f"%{ins.name} = {value_text(value, type_, spell=world.spell)}")
        return value

    return kernel


@evaluates(Probe)
def _probe(op: Probe, at: Site) -> Kernel:
    """Return the kernel of `interpreter.probe`, which writes its operand to a file and returns it.

    Each value gets one entry in `index.csv`, in the order of evaluation.
    """
    type_, world = at.ins.type, at.world

    def kernel(value: Value) -> Value:
        folder = _folder(world)
        index = folder / _INDEX
        number = len(_rows(index)) + 1
        path = folder / f"probe{number}.npy"
        try:
            with path.open("wb") as file:
                np.lib.format.write_array(file, _stored(value, type_), allow_pickle=False)
            with index.open("a", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(
                    [op.probe_id, world.spell(type_, "bare"), str(path)]
                )
        except OSError as error:
            raise EvaluationError(f"cannot write probe `{op.probe_id}`: {error}") from None
        return value

    return kernel


def probed(world: World, probe_id: str, number: int, type_: Type) -> Any:
    """Return the value with index `number` (from 0) that the probe `probe_id` has written.

    Raises:
        EvaluationError: The probe wrote fewer values, or a value of another type.
    """
    folder = _folder(world)
    rows = [row for row in _rows(folder / _INDEX) if row[:1] == [probe_id]]
    if number >= len(rows):
        raise EvaluationError(
            f"probe `{probe_id}` wrote {len(rows)} values, none is number {number}"
        )
    _, found, path = rows[number]
    expected = world.spell(type_, "bare")
    if found != expected:
        raise EvaluationError(f"probe `{probe_id}` wrote {found}, expected {expected}")
    with Path(path).open("rb") as file:
        stored = np.lib.format.read_array(file, allow_pickle=False)
    assert isinstance(type_, TensorType)
    return np.frombuffer(stored.tobytes(), dtype_of(type_.element)).reshape(stored.shape)


def _folder(world: World) -> Path:
    folder = world.extra.get(PROBE)
    if folder is None:
        raise EvaluationError("there is no folder for probes: name one with `--probe`")
    return Path(folder)


def _rows(index: Path) -> list[list[str]]:
    if not index.exists():
        return []
    with index.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _stored(value: Any, type_: Type) -> np.ndarray[Any, Any]:
    """Return the value as an array of the numpy type that probe files use for the element type."""
    assert isinstance(type_, TensorType)
    element = type_.element
    code = _code("u" if isinstance(element, QuantizedType) else element.kind, value.dtype)
    return np.frombuffer(value.tobytes(), code).reshape(value.shape)


def _code(kind: str, dtype: np.dtype[Any]) -> str:
    """Return the numpy type code that a probe file has for elements of this kind and dtype.

    As in StableHLO's files, signless integers and small floats are unsigned, unsigned integers
    signed.
    """
    size = dtype.itemsize
    match kind:
        case "float" if size >= 4:
            return f"<f{size}"
        case "complex":
            return f"<f{size}" if size == 8 else f"<c{size}"
        case "unsigned" | "pred":
            return f"<i{size}"
        case _:
            return f"<u{size}"
