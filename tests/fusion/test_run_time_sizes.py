"""Sizes known only at run time: what is read of them, and of what they choose."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

from hloscope.fusion import OUT_OF_STEP, Analysis, Region, grouped
from hloscope.fusion.leaves import Leaves
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, Precision
from hloscope.ir.graph import Instruction, Module
from hloscope.ir.types import TensorType
from tests.fusion.dynamic_programs import STEPS, Index, Pairs, program, truth

PARTS = 24


def related(access: Access, shape: Index) -> Pairs:
    """All pairs of a map, for any values of its runtime variables."""
    map = access.map
    assert map is not None
    runs = [range(max(v.interval.lo, 0), min(v.interval.hi, 9) + 1) for v in map.runtime]
    return {
        (index, touched)
        for index in np.ndindex(*shape)
        for given in product(*runs)
        for touched in map.points(index, given)
    }


def claimed(accesses: Iterable[Access], shape: Index) -> tuple[Pairs, bool, bool]:
    """The pairs said, are these all of them, and none besides?"""
    accesses = tuple(accesses)
    unknown = any(a.map is None for a in accesses)
    pairs = set().union(*[related(a, shape) for a in accesses if a.map is not None])
    return pairs, not unknown, all(a.precision is Precision.EXACT for a in accesses)


def disagreements(module: Module, random: np.random.Generator, *, picky: bool) -> list[str]:
    """What the maps of the root to the parameters say wrongly."""
    root = module.entry.root
    assert isinstance(root.type, TensorType)
    shape = root.type.shape
    real = truth(module, shape, random)
    if real is None:
        return []
    analysis = Analysis()
    found = grouped(analysis, Region.of_computation(module.entry), root, 0, opened=False)
    wrong = []
    for number, parameter in enumerate(module.entry.parameters):
        said, is_all, is_exact = claimed(found.get(parameter, {}).get(0, ()), shape)
        if is_all and not real[number] <= said:
            missing = sorted(real[number] - said)[:3]
            wrong.append(f"{parameter.name}: missing {missing}, exact: {is_exact}")
        if picky and number < 3 and is_all and is_exact and said != real[number]:
            wrong.append(f"{parameter.name}: not exact, besides {sorted(said - real[number])[:3]}")
    return wrong


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", sorted(STEPS))
def test_no_random_program_reads_what_is_not_said(name: str, full: bool) -> None:
    for seed in range(60 if full else 12):
        text, names = program(seed, name)
        random = np.random.default_rng(seed)
        # The order that a sort finds, and starts that nothing depends on, are not solved for.
        picky = not {"sort", "dot", "dynamic_slice", "dynamic_update_slice"} & set(names)
        wrong = disagreements(parse_hlo(text), random, picky=picky)
        assert not wrong, "\n".join([text, *wrong])


def test_a_truth_without_the_size_is_noticed() -> None:
    text, _ = program(0, "size_of")
    module = parse_hlo(text)
    found = truth(module, (), np.random.default_rng(0))
    assert found is not None
    assert any(found[number] for number in (1, 2))


@pytest.mark.slow(keep=6)
@pytest.mark.parametrize("name", sorted(STEPS))
def test_what_is_reached_is_the_inverse_of_what_is_read(name: str) -> None:
    for seed in range(4):
        text, _ = program(seed, name)
        analysis = Analysis()
        for ins in parse_hlo(text).entry:
            _check_inverse(analysis, ins, text)


def _check_inverse(analysis: Analysis, ins: Instruction, text: str) -> None:
    for k, operand in enumerate(ins.operands):
        for tensor, there in enumerate(analysis.tensors(operand.type)):
            for output, here in enumerate(analysis.tensors(ins.type)):
                if not isinstance(here, TensorType) or not isinstance(there, TensorType):
                    continue
                back = analysis.output_to_input(ins, output).get((k, tensor), ())
                forth = analysis.input_to_output(ins, k, tensor).get(output, ())
                a, a_all, a_exact = claimed(back, here.shape)
                b, b_all, b_exact = claimed(forth, there.shape)
                assert (a_all, a_exact) == (b_all, b_exact), (ins.name, text)
                assert a == {(y, x) for x, y in b}, (ins.name, text)


@pytest.mark.parametrize("other", ["f32[3]", "f32[<=3]"])
def test_a_size_that_only_the_callee_does_not_know_is_told(other: str) -> None:
    """Whether the other parameter has such a size too changes nothing."""
    module = parse_hlo(
        f"c {{ a = f32[<=4] parameter(0) b = {other} parameter(1) ROOT r = f32[3] negate(b) }}\n"
        "ENTRY e { x = f32[4] parameter(0) y = f32[3] parameter(1)"
        " ROOT k = f32[3] call(x, y), to_apply=c }"
    )
    flows = [*Analysis().reads(module.entry.root, 0)]
    assert [flow.operand for flow in flows] == [0, 1]
    assert {a.reason for flow in flows for a in flow.accesses or ()} == {OUT_OF_STEP}


@pytest.mark.parametrize(
    ("type", "has_sizes"),
    [("f32[4]", False), ("f32[<=4]", True), ("(f32[4], f32[<=4])", True), ("(f32[4])", False)],
)
def test_types_with_sizes_known_only_at_run_time_are_told_from_others(
    type: str, has_sizes: bool
) -> None:
    leaves, parsed = Leaves(), parse_type(type)
    assert leaves.has_sizes(parsed) is has_sizes
    assert leaves.has_sizes(parsed) is has_sizes  # known by now
