"""Every value that programs compute on their way is of the type its op infers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.ops.checking import PRINT, PROBE
from hloscope.interpreter.values import Value, World, fits
from hloscope.ir.graph import Instruction, Module
from hloscope.ir.op import NotInferredError
from hloscope.ir.types import TupleType, compatible
from hloscope.ops.control import Parameter, Result
from hloscope.stablehlo import parse_stablehlo
from tests.interpreter import chunks, models

_NO_OPS = Parameter, Result


def watcher(module: Module, found: dict[str, str]) -> Callable[[Instruction, Value], None]:
    """Looks at values of the entry; elsewhere, arrays may stand for scalars."""
    looked_at = {ins for ins in module.entry if not isinstance(ins.op, _NO_OPS)}

    def watch(ins: Instruction, value: Value) -> None:
        if ins not in looked_at or ins.type == TupleType(()):
            return
        types = [ins.type]
        with suppress(NotInferredError):
            inferred = ins.op.infer(tuple(o.type for o in ins.operands), ins.calls)
            if compatible(inferred, ins.type):  # a dot may be declared wider than its operands
                types.append(inferred)
        given = np.asarray(value) if isinstance(value, np.generic) else value
        for type_ in types:
            why = fits(given, type_)
            if why:
                found[f"{ins.name} {ins.op.name}"] = why

    return watch


@pytest.mark.slow
def test_values_in_test_files_are_of_the_inferred_types(shared: Path, full: bool) -> None:
    wrong: dict[str, str] = {}
    for name in chunks.MANIFESTS:
        every = [c for c in chunks.chunks(name) if not c.is_disabled]
        for chunk in every if full else every[::40]:
            try:
                module = parse_stablehlo(chunk.text)
                found: dict[str, str] = {}
                world = World(extra={PRINT: lambda _: None, PROBE: None})
                world.watch = watcher(module, found)
                evaluate(module, chunks.arguments(chunk), world)
            except HloscopeError:
                continue  # `test_chunks` tells
            wrong |= {f"{chunk.id}: {where}": why for where, why in found.items()}
    assert not wrong


@pytest.mark.slow
def test_values_in_real_programs_are_of_the_inferred_types(shared: Path, full: bool) -> None:
    wrong: dict[str, str] = {}
    names = [n for n in models.programs() if models.programs()[n].get("mesh") is None]
    for name in names if full else names[::9]:
        for kind in models.RECORDED:
            module, found = models.load(name, kind), dict[str, str]()
            world = World(watch=watcher(module, found))
            try:
                evaluate(module, models.recorded(name, "inputs"), world)
            except HloscopeError:
                continue  # `test_models` tells
            wrong |= {f"{name} {kind}: {where}": why for where, why in found.items()}
    assert not wrong
