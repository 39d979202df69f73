"""What a prover and a walk remember: it changes no answer, and it keeps calls of calls small."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np
import pytest

import hloscope
from hloscope.indexing import Access, Accesses
from hloscope.ir.types import TensorType
from hloscope.proof import Check, Outcome, Prover
from hloscope.proof.graph import Steps, Walker
from hloscope.proof.integers import Values
from hloscope.proof.relations import ElementFollower

SCATTER: Final = """
  {0}i = s32[2,1] constant({{{{{1}}},{{{2}}}}})
  {0} = f32[6] scatter(p, {0}i, u), update_window_dims={{}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add"""
PROGRAM: Final = f"""HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
turned {{ p = f32[6] parameter(0) ROOT r = f32[6] reverse(p), dimensions={{0}} }}
again {{ q = f32[6] parameter(0) ROOT s = f32[6] reverse(q), dimensions={{0}} }}
same {{ p = f32[6] parameter(0) ROOT r = f32[6] copy(p) }}
ENTRY e {{ p = f32[6] parameter(0) u = f32[2] parameter(1) z = f32[] constant(0)
  n = s32[] constant(2) k = s32[] constant(3) v = s32[] parameter(2)
  {SCATTER.format("first", 0, 1)} {SCATTER.format("second", 4, 2)}
  {SCATTER.format("third", 0, 1)}
  at2 = f32[3] dynamic-slice(p, n), dynamic_slice_sizes={{3}}
  at3 = f32[3] dynamic-slice(p, k), dynamic_slice_sizes={{3}}
  at = f32[3] dynamic-slice(p, v), dynamic_slice_sizes={{3}}
  sum = f32[] reduce(p, z), dimensions={{0}}, to_apply=add
  f = f32[6] fusion(p), kind=kLoop, calls=turned
  g = f32[6] fusion(p), kind=kLoop, calls=again
  h = f32[6] fusion(p), kind=kLoop, calls=same
  twice = f32[6] add(p, p) both = f32[6] add(first, second)
  ROOT t = (f32[6], f32[6]) tuple(both, twice) }}
"""
Question = tuple[hloscope.InstructionView, int, int, Accesses]


def shifted(accesses: Accesses) -> Accesses:
    return tuple(
        [
            Access(a.map.with_(results=[e + 1 for e in a.map.results]), a.precision)
            for a in accesses
            if a.map is not None
        ]
    )


def questions(program: hloscope.Program) -> Iterator[Question]:
    """About each instruction: its maps, wrong ones, and those of its neighbours."""
    known: list[Accesses] = []
    for view in program:
        if view.ir not in program.module.entry.instructions or not view.operands:
            continue
        for output in view.indexing().answer.outputs:
            for operand in output.operands:
                mine = operand.accesses
                known.append(mine)
                for said in (mine, shifted(mine), (), *known[-4:-1]):
                    yield view, output.number, operand.number, said


def checked(prover: Prover, question: Question) -> tuple[object, ...]:
    view, output, operand, said = question
    try:
        check = prover.check(view.ir, output, operand, 0, said)
    except hloscope.HloscopeError as error:
        return type(error), error.message
    return check.outcome, check.by, check.counter_example


def fits(question: Question) -> bool:
    """Have the maps the ranks of the output and the operand?"""
    view, _, operand, said = question
    types = view.ir.type, view.operands[operand].ir.type
    ranks = tuple([len(t.shape) if isinstance(t, TensorType) else 1 for t in types])
    maps = [a.map for a in said]
    return all(m is not None and (len(m.dims), len(m.results)) == ranks for m in maps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_one_verifier_answers_as_fresh_ones_in_any_order(seed: int) -> None:
    every = [q for q in questions(hloscope.read(PROGRAM)) if fits(q)]
    random.Random(seed).shuffle(every)
    every = every[:60]

    def prover() -> Prover:
        # A process that is forked from a large one takes long: the time for all must not run out.
        return Prover(seconds=10.0, seconds_of_isl=math.inf)

    one = prover()
    remembered = [checked(one, q) for q in every]
    assert remembered == [checked(prover(), q) for q in every]
    assert [checked(one, q) for q in reversed(every)] == remembered[::-1]
    outcomes = {found[0] for found in remembered}
    assert {Outcome.PROVED, Outcome.REFUTED} <= outcomes


@pytest.mark.slow
@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_scatters_at_other_constant_indices_are_other_questions(order: tuple[str, str]) -> None:
    program = hloscope.read(PROGRAM)
    prover = Prover()
    one, other = (program[name] for name in order)

    def check(asked: hloscope.InstructionView, about: hloscope.InstructionView) -> list[Check]:
        outputs = about.indexing().answer.outputs
        return [prover.check(asked.ir, 0, o.number, 0, o.accesses) for o in outputs[0].operands]

    for asked in (one, other):
        assert all(c.outcome is Outcome.PROVED for c in check(asked, asked)), asked.name
    assert any(c.is_refuted for c in check(other, one))
    assert any(c.is_refuted for c in check(one, other))


def test_equal_questions_are_answered_by_one_proof() -> None:
    program = hloscope.read(PROGRAM)
    prover = Prover()
    for one, other, equal in (("first", "third", True), ("f", "g", True), ("f", "h", False)):
        found = []
        for name in (one, other):
            answer = program[name].indexing().answer.outputs[0].operands[0]
            found.append(prover.check(program[name].ir, 0, 0, 0, answer.accesses))
        assert (found[0] is found[1]) is equal


def cpu() -> float:
    """Seconds that this process and its children have worked."""
    return sum(os.times()[:4])


def tree(depth: int) -> str:
    """Calls of calls, two on each level: 2 ** depth ways to the parameter."""
    text = ["f0 { p = f32[4] parameter(0) ROOT r = f32[4] reverse(p), dimensions={0} }"]
    text += [
        f"f{k} {{ p = f32[4] parameter(0) a = f32[4] call(p), to_apply=f{k - 1}"
        f" b = f32[4] call(p), to_apply=f{k - 1} ROOT c = f32[4] add(a, b) }}"
        for k in range(1, depth + 1)
    ]
    entry = f"ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[4] call(p), to_apply=f{depth} }}"
    return "\n".join(["HloModule m", *text, entry])


def test_a_tree_of_calls_is_walked_once_for_equal_elements() -> None:
    root = hloscope.read(tree(40)).root
    steps = Steps()
    walker: Walker[Any] = Walker(steps, follower := ElementFollower(Values(0)))
    found = walker.operands(root.ir, 0, follower.start(np.arange(4)[:, None]))
    rows = found[0, 0].elements[()]
    assert rows.tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]
    assert walker._count < 4 * 41


def test_a_tree_of_calls_is_proved_at_once() -> None:
    root = hloscope.read(tree(40)).root
    begin = cpu()
    check = root.indexing().prove().checks[0]
    assert check.outcome is Outcome.PROVED
    assert check.by == ("isl", "enumerated 4")
    assert cpu() - begin < 2


@pytest.mark.parametrize(
    ("body", "steps_in_all"),
    [("slice(p), slice={[1:3]}", 49), ("dynamic-slice(p, k), dynamic_slice_sizes={2}", 1274)],
)
def test_walks_of_other_questions_are_not_walked_again(body: str, steps_in_all: int) -> None:
    """One step for each, unless they read values: these belong to one trial."""
    head = "p = f32[4] parameter(0) k = s32[] parameter(1) ROOT r = f32[2]"
    levels = [f"f0 {{ {head} {body} }}"]
    levels += [f"f{k} {{ {head} call(p, k), to_apply=f{k - 1} }}" for k in range(1, 50)]
    entry = f"ENTRY e {{ {head} call(p, k), to_apply=f49 }}"
    module = hloscope.read("\n".join(["HloModule m", *levels, entry])).module
    steps, counted = Steps(), 0
    for k in range(1, 50):
        walker: Walker[Any] = Walker(steps, follower := ElementFollower(Values(0)))
        found = walker.operands(
            module.computations[f"f{k}"].root, 0, follower.start(np.arange(2)[:, None])
        )
        assert len(found[0, 0].elements[()]) == 2
        counted += walker._count
    assert counted == steps_in_all


def chain(n: int) -> str:
    """Three pairs of a reshape and a transpose of f32[4n,30,9]."""
    return f"""ENTRY e {{ p = f32[{4 * n},30,9] parameter(0)
      a = f32[{4 * n},5,6,9] reshape(p)
      b = f32[9,6,{4 * n},5] transpose(a), dimensions={{3,2,0,1}}
      c = f32[6,18,{10 * n}] reshape(b)
      d = f32[18,{10 * n},6] transpose(c), dimensions={{1,2,0}}
      g = f32[12,{90 * n}] reshape(d)
      ROOT r = f32[{90 * n},12] transpose(g), dimensions={{1,0}} }}"""


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("n", [1, 8, 100])
def test_a_chain_of_reshapes_and_transposes_is_proved(n: int) -> None:
    program = hloscope.read(chain(n))
    found = program.root.to_parameters()
    begin = cpu()
    check = found.prove().checks[0]
    assert cpu() - begin < 2
    assert check.outcome is Outcome.PROVED, str(check)


def random_chain(seed: int) -> str:
    """Two to four pairs of a reshape and a transpose; all sizes have small factors."""
    rng = random.Random(seed)
    primes = [rng.choice([2, 2, 3, 5, 7]) for _ in range(rng.randint(3, 6))]
    lines = [f"p = f32[{prod(primes)}] parameter(0)"]
    last = "p"
    for k in range(rng.randint(2, 4)):
        rng.shuffle(primes)
        cuts = sorted(rng.sample(range(1, len(primes)), rng.randint(1, len(primes) - 1)))
        ends = [0, *cuts, len(primes)]
        shape = [prod(primes[a:b]) for a, b in pairwise(ends)]
        order = rng.sample(range(len(shape)), len(shape))
        listed = ",".join(map(str, shape)), ",".join(str(shape[d]) for d in order)
        lines.append(f"a{k} = f32[{listed[0]}] reshape({last})")
        dimensions = ",".join(map(str, order))
        lines.append(f"t{k} = f32[{listed[1]}] transpose(a{k}), dimensions={{{dimensions}}}")
        last = f"t{k}"
    return "ENTRY e { " + "\n".join([*lines[:-1], f"ROOT {lines[-1]}"]) + " }"


@pytest.mark.slow
def test_random_chains_of_reshapes_and_transposes_are_never_refuted(full: bool) -> None:
    outcomes: Counter[Outcome] = Counter()
    for seed in range(200 if full else 12):
        checks = hloscope.read(random_chain(seed)).root.to_parameters().prove().checks
        outcomes.update(check.outcome for check in checks)
    assert not outcomes[Outcome.REFUTED]
    assert outcomes[Outcome.PROVED] > 0.9 * outcomes.total(), outcomes
