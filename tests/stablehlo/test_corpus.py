"""Real programs: all read, and they say the same as the HLO text of the same program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hloscope
from hloscope.api.program import Program
from hloscope.indexing import Accesses, prove_equal
from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.types import TensorType
from hloscope.ops.control import UnknownOp
from hloscope.ops.gather_scatter import Scatter
from hloscope.stablehlo import parse_stablehlo
from tests.conftest import SHARED

MODELS = SHARED / "real" / "models"
TEXTS = sorted(
    [*MODELS.glob("*.mlir"), *(SHARED / "conformance/stablehlo/jax_samples").glob("*.mlir")]
)
SAMPLE = """
    conv_variants convnet_fwd convolve_correlate einsum_zoo embedding_gather_scatter_grad
    gather_variants heat_stencil_rk4 integer_bit_ops mandelbrot_while mlp_train_step
    lu_solve_det_inv platform_dependent_case pooling_max_avg_grad sort_topk_argmax
    stft_spectrogram zero_size_and_scalars
""".split()
WITH_BOTH = sorted(
    p.name.split(".")[0] for p in MODELS.glob("*.stablehlo.mlir") if ".poly." not in p.name
)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.name)
def test_a_real_program_is_read(path: Path) -> None:
    module = parse_stablehlo(path.read_text(), name=path.name)
    for computation in module:
        for ins in computation:
            if isinstance(ins.op, UnknownOp):
                assert not ins.op.opcode.startswith(("stablehlo.", "chlo.", "func."))


@pytest.mark.parametrize("name", WITH_BOTH)
def test_parameters_and_outputs_have_the_types_of_the_hlo(name: str) -> None:
    ours, hlo = both(name)
    for mine, theirs in (
        (ours.entry.parameters, hlo.entry.parameters),
        ([ours.root], [hlo.root]),
    ):
        found = [bare(t) for p in mine for t in p.outputs]
        assert found == [bare(t) for p in theirs for t in p.outputs]


def bare(type: object) -> object:
    return (type.element, type.sizes) if isinstance(type, TensorType) else type


def both(name: str) -> tuple[Program, Program]:
    hlo = MODELS / f"{name}.hlo.txt"
    if not hlo.exists():
        pytest.skip(f"no {hlo.name}")
    return hloscope.read(MODELS / f"{name}.stablehlo.mlir"), hloscope.read(hlo)


@pytest.mark.parametrize("name", WITH_BOTH)
def test_every_output_reads_the_same_as_in_the_hlo(name: str, full: bool) -> None:
    """Output to input of the entry, as relations; by default three outputs of some programs."""
    if not full and name not in SAMPLE:
        pytest.skip("with --full only: minutes for all programs")
    ours, hlo = both(name)
    count = len(ours.root.outputs)
    compared = 0
    for k in range(count if full else min(3, count)):
        (mine,) = ours.root.to_parameters(k).answer.outputs
        (theirs,) = hlo.root.to_parameters(k).answer.outputs
        for a, b in zip(mine.operands, theirs.operands, strict=True):
            if not full or not (is_unknown(a.accesses) and is_unknown(b.accesses)):
                assert same(a.accesses, b.accesses), f"{k} {a.name}"
            compared += bool(a.accesses)
    assert compared or name == "zero_size_and_scalars"


@pytest.mark.slow
def test_no_scatter_of_the_programs_differs_between_the_languages() -> None:
    """Where windows can stick out, a scatter is another op in HLO: such programs are named here."""
    named: dict[str, list[str]] = {}
    for path in (MODELS / f"{name}.stablehlo.mlir" for name in WITH_BOTH):
        module = parse_stablehlo(path.read_text(), name=path.name)
        for ins in (ins for computation in module for ins in within(computation)):
            types = tuple(operand.type for operand in ins.operands)
            if isinstance(ins.op, Scatter) and ins.op.may_exceed_bounds(types):
                named.setdefault(path.name, []).append(ins.name)
    assert named == {}


def within(computation: Computation) -> Iterator[Instruction]:
    """The instructions of a computation and of its regions."""
    for ins in computation:
        yield ins
        for region in ins.calls:
            yield from within(region)


def is_unknown(accesses: Accesses) -> bool:
    return any(access.map is None for access in accesses)


def same(mine: Accesses, theirs: Accesses) -> bool:
    """Are both unions equal, by their text or else by isl?"""
    if {str(a.map) for a in mine} == {str(a.map) for a in theirs}:
        return True
    assert all(a.map is not None for a in (*mine, *theirs))
    sides = [[a.map for a in side if a.map is not None] for side in (mine, theirs)]
    return prove_equal(*sides).is_proved
