"""The passes `stablehlo-aggressive-simplification` and `…-target-independent-optimization`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hloscope.passes.folding import FOLDER_OPTIONS, fold_patterns
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.patterns import Patterns
from hloscope.passes.simplifying.control import CONTROL
from hloscope.passes.simplifying.dynamic import DYNAMIC
from hloscope.passes.simplifying.elementwise import ELEMENTWISE, LAWS
from hloscope.passes.simplifying.empty import EMPTY
from hloscope.passes.simplifying.reduction import REDUCTION
from hloscope.passes.simplifying.shape import SHAPE
from hloscope.passes.simplifying.slicing import SLICING

_LIMIT: Final = "fold-op-element-limit"

SIMPLIFICATIONS: Final[LimitedRewrites] = (
    LAWS + ELEMENTWISE + SHAPE + SLICING + DYNAMIC + REDUCTION + CONTROL + EMPTY
)
"""All simplifications, by op family."""

OPTIONS: Final[Mapping[str, Option]] = {_LIMIT: FOLDER_OPTIONS[_LIMIT]}


def simplification_patterns(options: Mapping[str, Any]) -> Patterns:
    """Return the patterns of the simplifier for these options."""
    return SIMPLIFICATIONS.within(Limits(options[_LIMIT]))


def _simplify(run: Run) -> None:
    run.greedy_bottom_up(simplification_patterns(run.options))


def _optimize(run: Run) -> None:
    # Folds have a larger benefit: a constant needs no simplification.
    folds = fold_patterns(run.options).with_benefit(2)
    run.greedy_bottom_up(simplification_patterns(run.options) + folds)


AGGRESSIVE_SIMPLIFICATION: Final = Pass(
    "stablehlo-aggressive-simplification",
    _simplify,
    "Applies algebraic laws; removes ops without effect; uses simpler ops.",
    OPTIONS,
    on_functions=True,
)
TARGET_INDEPENDENT: Final = Pass(
    "stablehlo-target-independent-optimization",
    _optimize,
    "Runs the folder and the simplifier together.",
    FOLDER_OPTIONS,
    on_functions=True,
)
