"""The pass `stablehlo-aggressive-folder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hloscope.passes.folding.control import CONTROL, PURE_LOOPS
from hloscope.passes.folding.elementwise import ELEMENTWISE, SHAPE_ELEMENTWISE
from hloscope.passes.folding.index import INDEX_FOLDS
from hloscope.passes.folding.reduction import REDUCTION
from hloscope.passes.folding.shape import ARRANGING, SHAPE_ARRANGING
from hloscope.passes.folding.sizes import SIZES
from hloscope.passes.framework import Option, Pass, Run
from hloscope.passes.limits import FOLD_ELEMENTS, LimitedRewrites, Limits
from hloscope.passes.patterns import Patterns

SHAPE_FOLDS: Final = SHAPE_ELEMENTWISE + SHAPE_ARRANGING + SIZES
"""Folds of ops that compute sizes; `SHAPE_FOLDS(None, optimize_float=False)` are patterns."""

FOLDS: Final[LimitedRewrites] = SHAPE_FOLDS + ELEMENTWISE + ARRANGING + REDUCTION + CONTROL
"""All folds that are right without assumptions."""


def as_bool(text: str) -> bool:
    """Parse `true`, `false`, `1` or `0`.

    Raises:
        ValueError: The text is none of them.
    """
    if text not in ("true", "false", "1", "0"):
        raise ValueError(f"`{text}` is neither `true` nor `false`")
    return text in ("true", "1")


OPTIONS: Final[Mapping[str, Option]] = {
    "assume-no-undeclared-side-effects": Option(
        default=False, help="Assume that calls and unknown ops have no effects.", read=as_bool
    ),
    "fold-op-element-limit": Option(
        default=FOLD_ELEMENTS,
        help="Largest number of elements of a constant that some folds create.",
        read=int,
    ),
    "optimize-float": Option(default=True, help="Fold floats, too.", read=as_bool),
}
"""Options of the folder, shared by passes that include its patterns."""


def fold_patterns(options: Mapping[str, Any]) -> Patterns:
    """Return the patterns of the folder for these options."""
    limits = Limits(options["fold-op-element-limit"], optimize_float=options["optimize-float"])
    folds = FOLDS
    if options["assume-no-undeclared-side-effects"]:
        folds = PURE_LOOPS + folds
    return folds.within(limits)


def _run(run: Run) -> None:
    run.greedy_bottom_up(fold_patterns(run.options) + INDEX_FOLDS)


AGGRESSIVE_FOLDER: Final = Pass(
    "stablehlo-aggressive-folder",
    _run,
    "Computes ops of constants.",
    OPTIONS,
    on_functions=True,
)
