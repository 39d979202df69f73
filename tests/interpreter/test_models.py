"""Real programs give what was recorded, from every text they come as."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import SHARED, needs_shared
from tests.interpreter import models, modules
from tests.interpreter.chunks import PASS

NAMES = sorted(models.programs()) if SHARED.is_dir() else []
SAMPLE = 4

NOT_AS_RECORDED = {
    "cholesky_expander.part0": "the operand is not positive definite",
    "cholesky_expander.part1": "the operand is not positive definite",
    "import_emit_stablehlo.part42": "an unstable sort may leave equal elements in any order",
    "import_emit_stablehlo.part115": "how often an initial value that is not neutral counts",
    "side_output_unsigned": "how often an initial value that is not neutral counts",
    "hlo_parser_test_0674": "how often an initial value that is not neutral counts",
    "hlo_parser_test_0693": "how often an initial value that is not neutral counts",
    "hlo_traversal_test_0328": "how often an initial value that is not neutral counts",
    "hlo_traversal_test_0529": "how often an initial value that is not neutral counts",
    "elemental_hlo_to_mlir_test_0271": "how often an initial value that is not neutral counts",
    "import_emit_stablehlo.part119": "calls `foo`",
    "import_emit_stablehlo.part120": "calls `foo`",
    "hlo_constant_folding_test_0929": "asks for a seed",
    "reshape_mover_test_0170": "the value of a constant was not printed",
    "hlo_evaluator_test_3713": "what was recorded is memory nobody wrote to",
    "hlo_evaluator_test_3767": "what was recorded is memory nobody wrote to",
    "trip_count_annotator_test_0078": "a long loop",
    "trip_count_annotator_test_0114": "a long loop",
    "trip_count_annotator_test_0153": "a long loop",
    "hlo_ordering_test_0549": "an endless loop",
    "instruction_hoister_test_0154": "a bitcast of an array to a tuple",
    "float_normalization_test_0887": "XLA does not round to bf16 between two ops",
    "hlo_dataflow_analysis_test_1476": "a size that is set only says what part is of meaning",
    "hlo_dataflow_analysis_test_1897": "what should be 0 is off by rounding",
    "sort_utils_test_0233": "the comparator is not an order",
    "support_test_1878": "XLA gives bits of another type than the program says",
    "convolution_type_canonicalizer_test_0038": "whether floats or integers are multiplied",
}
"""Parts of names of modules whose recorded outputs are not those of their evaluation, and why."""


NOT_ON_GPUS = {
    "large_constants": "the values of constants were not printed",
    "platform_dependent_case": "computes something else on GPUs",
}


@needs_shared
@pytest.mark.parametrize("kind", models.RECORDED)
@pytest.mark.parametrize("name", NAMES)
def test_recorded_outputs(name: str, kind: str, full: bool) -> None:
    if not full and (NAMES.index(name) + models.RECORDED.index(kind)) % SAMPLE:
        pytest.skip("only with --full")
    outcome = models.run(name, kind)
    assert outcome.status == PASS, outcome.detail


@pytest.mark.slow
@needs_shared
def test_modules_of_xla(full: bool) -> None:
    records = modules.records()[:: 1 if full else 15]
    failed = [o for o in map(modules.run, records) if o.status != PASS]
    unknown = [o for o in failed if not any(name in o.file for name in NOT_AS_RECORDED)]
    assert not unknown, "\n".join(f"{o.file}: {o.reason}\n{o.detail}" for o in unknown)


@pytest.mark.slow(keep=10)
@needs_shared
@pytest.mark.parametrize("name", NAMES)
def test_programs_compiled_for_gpus(name: str, full: bool) -> None:
    if not full and NAMES.index(name) % SAMPLE:
        pytest.skip("only with --full")
    if name in NOT_ON_GPUS:
        pytest.skip(NOT_ON_GPUS[name])
    outcome = models.run(name, "gpu")
    assert outcome.status == PASS, outcome.detail


def test_deviations() -> None:
    a, b = np.array([1.0, np.nan, np.inf, 3.0]), np.array([1.1, np.nan, np.inf, 3.0])
    off, why = models.deviation(a, b, 0.0, 0.01)
    assert round(off, 6) == 10
    assert "1 of 4 elements are off, the worst at [0]" in why
    assert models.deviation(np.array([1, 2]), np.array([1, 3]), 1.0, 1.0)[0] == np.inf


@needs_shared
def test_small_floats_are_stored_as_bits() -> None:
    (first, *_) = models.recorded("bf16_matmul_layernorm", "inputs")
    assert first.dtype.name == "bfloat16"
