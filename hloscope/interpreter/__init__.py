"""The reference interpreter: every op on numpy arrays.

Names load on first use, so that importing the package does not load numpy.
"""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.interpreter.covered import coverage as coverage
    from hloscope.interpreter.evaluation import (
        as_value as as_value,
        call as call,
        evaluate as evaluate,
    )
    from hloscope.interpreter.liveness import PURE as PURE, STRUCTURE as STRUCTURE
    from hloscope.interpreter.numbers.distance import (
        Difference as Difference,
        within as within,
        within_ulps as within_ulps,
    )
    from hloscope.interpreter.ops.collectives import groups_of as groups_of
    from hloscope.interpreter.ops.mesh_axes import mesh_groups as mesh_groups, meshes as meshes
    from hloscope.interpreter.ops.observing import PRINT as PRINT, PROBE as PROBE
    from hloscope.interpreter.ops.partition import divided as divided
    from hloscope.interpreter.parallel import (
        INFEED as INFEED,
        OUTFEED as OUTFEED,
        Grid as Grid,
        Group as Group,
        Watch as Watch,
        call_grid as call_grid,
        check_grid as check_grid,
        run_grid as run_grid,
    )
    from hloscope.interpreter.plan import Plan as Plan, Plans as Plans, run as run
    from hloscope.interpreter.registry import Kernel as Kernel, kernel as kernel
    from hloscope.interpreter.shown import text_size as text_size, value_text as value_text
    from hloscope.interpreter.summary import Statistics as Statistics, statistics as statistics
    from hloscope.interpreter.values import (
        TOKEN as TOKEN,
        Array as Array,
        EvaluationError as EvaluationError,
        Token as Token,
        Value as Value,
        byte_size as byte_size,
        check_evaluable as check_evaluable,
        dtype_of as dtype_of,
        fits as fits,
    )
    from hloscope.interpreter.world import Trail as Trail, World as World

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
