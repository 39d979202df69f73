"""How each op indexes: one file per op family, one rule per op and direction.

Importing the package registers all rules.
"""

from hloscope.indexing.rules import (
    batch_norm as batch_norm,
    checking as checking,
    collectives as collectives,
    contraction as contraction,
    control as control,
    convolution as convolution,
    custom_calls as custom_calls,
    dynamic as dynamic,
    elementwise as elementwise,
    gather_scatter as gather_scatter,
    linalg as linalg,
    partition as partition,
    ragged as ragged,
    random as random,
    reduction as reduction,
    scan as scan,
    shape as shape,
    slicing as slicing,
    transfers as transfers,
    windows as windows,
)
