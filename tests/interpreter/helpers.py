"""What the tests of evaluation share."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.values import World
from hloscope.mlir.text.lexer import is_mlir
from hloscope.stablehlo import parse_stablehlo


def read(text: str) -> Any:
    """The module of a text in either language."""
    return parse_stablehlo(text) if is_mlir(text) else parse_hlo(text)


def values(text: str, *arguments: Any, world: World | None = None) -> Any:
    """The results of a program as lists; one alone as it is."""
    found = tuple(map(plain, evaluate(read(text), arguments, world)))
    return found[0] if len(found) == 1 else found


def grid(text: str, arguments: list[list[Any]], replicas: int = 1, partitions: int = 1) -> Any:
    """The only result of every process, as lists."""
    found = evaluate_grid(read(text), arguments, replicas, partitions)
    return [plain(results[0] if len(results) == 1 else results) for results in found]


def plain(value: Any) -> Any:
    """Arrays as lists."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
