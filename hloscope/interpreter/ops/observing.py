"""`interpreter.print` and `interpreter.probe`: values printed, and written to files.

Source: StableHLO's `InterpreterOps.cpp` and `NumPy.cpp`.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final

import numpy as np

from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.shown import value_text
from hloscope.interpreter.values import EvaluationError, Value, dtype_of
from hloscope.interpreter.world import World
from hloscope.ir import QuantizedType, TensorType, Type
from hloscope.ops import Print, Probe

PROBE: Final = "probe"
"""Key of `World.extra`: folder that probes write to."""
PRINT: Final = "print"
"""Key of `World.extra`: function that takes the text of `interpreter.print`."""

_INDEX: Final = "index.csv"


@evaluates(Print)
def _print(op: Print, at: Site) -> Kernel:
    """Print the operand with its name and type, and return it."""
    ins, world = at.ins.operands[0], at.world
    type_ = ins.type

    def kernel(value: Value) -> Value:
        write = world.extra.get(PRINT, print)
        write(f"%{ins.name} = {value_text(value, type_, spell=world.spell)}")
        return value

    return kernel


@evaluates(Probe)
def _probe(op: Probe, at: Site) -> Kernel:
    """Write each value to a file, and add it to `index.csv`, in the order of evaluation."""
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
    """Return value number `number` of the probe, counted from 0.

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
    """The value as an array of the numpy type that probe files use for it."""
    assert isinstance(type_, TensorType)
    element = type_.element
    code = _code("u" if isinstance(element, QuantizedType) else element.kind, value.dtype)
    return np.frombuffer(value.tobytes(), code).reshape(value.shape)


def _code(kind: str, dtype: np.dtype[Any]) -> str:
    """Numpy type code in a probe file.

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
