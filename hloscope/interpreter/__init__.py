"""The reference interpreter: every op on numpy arrays.

Names load on first use, so that importing the package does not load numpy.
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.interpreter.evaluation import (
        as_value as as_value,
        call as call,
        evaluate as evaluate,
    )
    from hloscope.interpreter.ops.checking import PRINT as PRINT, PROBE as PROBE
    from hloscope.interpreter.ops.collectives import groups_of as groups_of
    from hloscope.interpreter.ops.partition import (
        divided as divided,
        mesh_groups as mesh_groups,
        meshes as meshes,
    )
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
    from hloscope.interpreter.registry import (
        Kernel as Kernel,
        coverage as coverage,
        kernel as kernel,
    )
    from hloscope.interpreter.shown import (
        Difference as Difference,
        Statistics as Statistics,
        statistics as statistics,
        text_size as text_size,
        value_text as value_text,
        within as within,
        within_ulps as within_ulps,
    )
    from hloscope.interpreter.straight import PURE as PURE, STRUCTURE as STRUCTURE
    from hloscope.interpreter.values import (
        TOKEN as TOKEN,
        Array as Array,
        EvaluationError as EvaluationError,
        Token as Token,
        Trail as Trail,
        Value as Value,
        World as World,
        byte_size as byte_size,
        check_evaluable as check_evaluable,
        dtype_of as dtype_of,
        fits as fits,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
