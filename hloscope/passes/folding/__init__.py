"""Constant folding of StableHLO by patterns, in one file per op family."""

from hloscope.passes.folding.elementwise import fold_select as fold_select
from hloscope.passes.folding.folder import (
    AGGRESSIVE_FOLDER as AGGRESSIVE_FOLDER,
    FOLDS as FOLDS,
    OPTIONS as FOLDER_OPTIONS,
    PURE_LOOPS as PURE_LOOPS,
    SHAPE_FOLDS as SHAPE_FOLDS,
    body_of as body_of,
    fold_patterns as fold_patterns,
    fold_reduce_of_no_dimensions as fold_reduce_of_no_dimensions,
    fold_reduce_to_outer_values as fold_reduce_to_outer_values,
)
from hloscope.passes.folding.index import (
    INDEX_FOLDS as INDEX_FOLDS,
    fold_get_dimension_size as fold_get_dimension_size,
    fold_integers as fold_integers,
    signed_integers as signed_integers,
)
from hloscope.passes.patterns import FOLD_ELEMENTS as FOLD_ELEMENTS, Limits as Limits

__all__ = [
    "AGGRESSIVE_FOLDER",
    "FOLDER_OPTIONS",
    "FOLDS",
    "FOLD_ELEMENTS",
    "INDEX_FOLDS",
    "PURE_LOOPS",
    "SHAPE_FOLDS",
    "Limits",
    "body_of",
    "fold_get_dimension_size",
    "fold_integers",
    "fold_patterns",
    "fold_reduce_of_no_dimensions",
    "fold_reduce_to_outer_values",
    "fold_select",
    "signed_integers",
]
