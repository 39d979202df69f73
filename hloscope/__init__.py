"""hloscope: which elements of which tensors an HLO or StableHLO instruction touches.

>>> import hloscope
>>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) ROOT r = f32[32] reshape(p) }")
>>> print(program["r"].indexing().map)
(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]

Names are loaded when they are first used: starting costs nothing that is not needed.
"""

from hloscope.support.doors import door

TYPE_CHECKING = False  # `typing` takes long to load, and this is loaded first of all
if TYPE_CHECKING:
    from hloscope.api import (
        Coalescing as Coalescing,
        ComputationView as ComputationView,
        Element as Element,
        Footprint as Footprint,
        Indexing as Indexing,
        InstructionView as InstructionView,
        Program as Program,
        Tensor as Tensor,
        bank_conflicts as bank_conflicts,
        deserialize as deserialize,
        diff as diff,
        doctor as doctor,
        evaluate as evaluate,
        evaluate_grid as evaluate_grid,
        execute_kernel as execute_kernel,
        explain_dynamic as explain_dynamic,
        opt as opt,
        parametric as parametric,
        read as read,
        refine as refine,
        run_ptx as run_ptx,
        scan_files as scan_files,
        schema as schema,
        serialize as serialize,
        shared_banks as shared_banks,
        thread_values as thread_values,
        verify as verify,
    )
    from hloscope.display import sliders as sliders
    from hloscope.errors import (
        Diagnostic as Diagnostic,
        HloscopeError as HloscopeError,
        InputError as InputError,
        ParseError as ParseError,
        UnknownNameError as UnknownNameError,
        UnsupportedError as UnsupportedError,
        VerifyError as VerifyError,
    )
    from hloscope.hlo_parser import parse_hlo as parse_hlo, print_hlo as print_hlo
    from hloscope.indexing import (
        Access as Access,
        IndexingMap as IndexingMap,
        Precision as Precision,
    )
    from hloscope.interpreter import EvaluationError as EvaluationError
    from hloscope.passes import fold as fold
    from hloscope.simplifier import simplify as simplify
    from hloscope.stablehlo import (
        Builder as Builder,
        infer as infer,
        parse_stablehlo as parse_stablehlo,
        print_stablehlo as print_stablehlo,
    )

__version__ = "0.2.0"

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
