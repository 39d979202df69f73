"""Constant folding of StableHLO by patterns: one op family a file, computed by the interpreter."""

from hloscope.passes.folding import elementwise, shape, sizes
from hloscope.passes.folding.folds import Folds as Folds
from hloscope.passes.folding.limits import FOLD_LIMIT as FOLD_LIMIT, Limits as Limits

SHAPE_FOLDS = elementwise.SHAPE + shape.SHAPE + sizes.SHAPE
"""Folds that sizes are computed with; `SHAPE_FOLDS(None, optimize_float=False)` are patterns."""
