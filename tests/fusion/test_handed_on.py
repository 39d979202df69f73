"""Whole tuples that are handed on: each part is that part, and execution shows the same."""

from __future__ import annotations

import random

import pytest

import hloscope
from hloscope.indexing import IndexingMap, Precision
from hloscope.indexing.rules.registry import sizes
from hloscope.proof import Execution

HANDING_ON = {
    "copy": "copy(t)",
    "opt-barrier": "opt-barrier(t)",
    "custom-call": 'custom-call(t), custom_call_target="Sharding"',
    "domain": 'domain(t), domain={kind="sharding", entry={replicated}, exit={maximal device=0}}',
}


def tuple_type(rng: random.Random, depth: int = 0) -> str:
    """A random type of at least two parts, tuples within."""
    parts = []
    for _ in range(rng.randint(2 - bool(depth), 3)):
        if depth < 2 and rng.random() < 0.4:
            parts.append(tuple_type(rng, depth + 1))
        else:
            element = rng.choice(["f32", "s32", "pred", "c64"])
            parts.append(f"{element}{rng.choice(['[]', '[3]', '[2,3]', '[0]'])}")
    return f"({', '.join(parts)})"


@pytest.mark.parametrize("op", HANDING_ON)
def test_each_part_of_a_tuple_is_that_part(op: str) -> None:
    rng = random.Random(op)
    for _ in range(6):
        type_ = tuple_type(rng)
        program = hloscope.read(
            f"ENTRY e {{ t = {type_} parameter(0) ROOT r = {type_} {HANDING_ON[op]} }}"
        )
        root, analysis = program.root.ir, program.analysis
        leaves = analysis.leaves(root.type)
        execution = Execution(root)
        for k in range(len(leaves)):
            shape = sizes(leaves[k])
            if 0 not in shape:
                ((place, accesses),) = analysis.output_to_input(root, k).items()
                expected = (Precision.EXACT, str(IndexingMap.identity(shape)))
                assert place == (0, k)
                assert [(a.precision, str(a.map)) for a in accesses] == [expected]
                assert [*analysis.input_to_output(root, 0, k)] == [k]
            for leaf in range(len(leaves)):
                for inverse in (False, True):
                    shown = execution.check(k, 0, leaf, inverse=inverse)
                    assert shown.violation is None
                    assert shown.seen == shown.pairs


BEGUN = {
    "as it is": "b = {type} copy(s)",
    "behind a barrier": "b = {type} opt-barrier(s)",
    "out of a tuple": "t = ({type}, f32[2]) tuple(s, p) b = {type} get-tuple-element(t), index=0",
    "copied": "c = {type} copy(s) b = {type} opt-barrier(c)",
}
PAIR = "HloModule m add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) } "


@pytest.mark.parametrize("way", BEGUN.values(), ids=BEGUN)
def test_the_results_of_a_reduction_of_several_arrays_end_one_by_one(way: str) -> None:
    type_ = "(f32[2], f32[3], f32[2])"
    program = hloscope.read(
        f"{PAIR} ENTRY e {{ p = f32[2] parameter(0) q = f32[3] parameter(1) "
        f"s = {type_} all-reduce-start(p, q, p), replica_groups={{}}, to_apply=add "
        f"{way.format(type=type_)} ROOT d = {type_} all-reduce-done(b) }}"
    )
    ends_part_by_part(program, 0)


@pytest.mark.parametrize("way", BEGUN.values(), ids=BEGUN)
def test_the_results_of_a_call_are_behind_its_operands(way: str) -> None:
    type_ = "((f32[2], f32[3]), (f32[3], f32[2]), s32[])"
    program = hloscope.read(
        "HloModule m swap { a = f32[2] parameter(0) b = f32[3] parameter(1) "
        "ROOT r = (f32[3], f32[2]) tuple(b, a) } "
        "ENTRY e { p = f32[2] parameter(0) q = f32[3] parameter(1) "
        f"s = {type_} call-start(p, q), to_apply=swap "
        f"{way.format(type=type_)} ROOT d = (f32[3], f32[2]) call-done(b) }}"
    )
    ends_part_by_part(program, 2)


def ends_part_by_part(program: hloscope.Program, first: int) -> None:
    done, analysis = program.root.ir, program.analysis
    execution = Execution(done)
    begun = len(analysis.leaves(done.operands[0].type))
    for k in range(len(analysis.leaves(done.type))):
        assert [*analysis.output_to_input(done, k)] == [(0, first + k)]
        assert [*analysis.input_to_output(done, 0, first + k)] == [k]
        for leaf in range(begun):
            for inverse in (False, True):
                shown = execution.check(k, 0, leaf, inverse=inverse)
                assert (shown.reason, shown.violation) == ("", None)
                assert shown.seen == shown.pairs
