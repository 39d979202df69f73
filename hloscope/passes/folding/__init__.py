"""Constant folding of StableHLO by patterns: one op family a file, computed by the interpreter."""

from hloscope.passes.folding.folder import (
    AGGRESSIVE_FOLDER as AGGRESSIVE_FOLDER,
    SHAPE_FOLDS as SHAPE_FOLDS,
    fold_patterns as fold_patterns,
)
from hloscope.passes.limits import FOLD_LIMIT as FOLD_LIMIT, Limits as Limits
