"""Programs that nest: what is said of them against what they do, and one language against another.

A failure names a seed; `python -m tests.agreement.search LANGUAGE SEED SEED+1` prints the smallest
program that fails in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from typing import Final

import numpy as np
import pytest

import hloscope as hs
from hloscope.indexing import Accesses, Precision
from hloscope.indexing.rules import registry
from hloscope.indexing.rules.registry import identity, sizes
from hloscope.ir.graph import Instruction
from hloscope.ops.shape import Reverse
from hloscope.proof import Execution, Outcome
from tests.agreement.execution import Runner, observe
from tests.agreement.generated import SPELL, FailureError, Report, Said, check, program_of
from tests.agreement.search import smallest
from tests.generator import Options, Program, generate, walk
from tests.generator.kinds import kinds
from tests.generator.program import Node, Region, Spelling, Value
from tests.generator.value_types import Tensor

PARTS = 4


def seeds(part: int, full: bool) -> range:
    """Every fourth seed: a sample, or ten thousand in all."""
    return range(part, 10_000 if full else 60, PARTS)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("language", SPELL)
def test_what_moves_is_in_the_maps(language: str, part: int, full: bool) -> None:
    total, wrong = Report(), []
    for seed in seeds(part, full):
        try:
            total += check(program_of(seed, language), language)
        except FailureError as error:
            wrong.append(f"seed {seed}: {error}")
    print(total)
    assert not wrong, "\n".join(wrong[:20])
    assert total.pairs["moved"] > len(seeds(part, full))


def focus(*families: str, depth: int = 3, steps: int = 6, replicas: int = 1) -> Options:
    """Programs of element-wise ops and a few other families."""
    chosen = frozenset({"elementwise", *families})
    return Options(depth=depth, steps=steps, replicas=replicas, families=chosen)


FOCUS: Final = {
    "captured tuple": focus("tuples", "control", "calls"),
    "captured bounded dimension": focus("dynamic", "control", "calls"),
    "tuple of tuples": focus("tuples", "control", "shape"),
    "regions 4 deep": focus("control", "calls", depth=6, steps=12),
    "call in the body of another op": focus("calls", "control"),
    "index from a region": focus("control", "slicing"),
    "chain of 64 ops": focus("chains", "control"),
    "collective in if": focus("collectives", "control", replicas=2),
    "collective in case": focus("collectives", "control", replicas=2),
    "collective in while": focus("collectives", "control", replicas=2),
    "collective in call": focus("collectives", "calls", replicas=2),
    "chain of 3 or more collectives": focus("collectives", replicas=4),
    "asynchronous collective": focus("collectives", replicas=2),
    "region in a body of scalars": focus("reduction", "control", "calls"),
    "branch indexes with a captured value": focus("control", "slicing"),
    "part of a captured value": focus("control", "slicing", "calls"),
    "scatter with batching dimensions": focus("gather_scatter", "control"),
}
"""Options of programs that have a kind of thing often."""


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("kind", FOCUS)
@pytest.mark.parametrize("language", SPELL)
def test_what_moves_is_in_the_maps_of_every_kind(language: str, kind: str, full: bool) -> None:
    options = replace(FOCUS[kind], languages=(language,))
    left, total = 200 if full else 8, Report()
    for seed in count():
        program = generate(seed, options)
        if kind in kinds(program):
            total += check(program, language, draws=2)
            left -= 1
        if not left:
            break
    assert total.pairs["moved"]


@pytest.mark.slow
@pytest.mark.parametrize("language", SPELL)
def test_a_wrong_rule_is_shown_by_a_minimal_program(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reverse` is said to leave elements where they are, in both directions."""

    def nothing_moves(ins: Instruction, op: Reverse, number: int) -> tuple[Accesses, ...]:
        return (identity(sizes(ins.type)),)

    assert all(registry.lookup(way, Reverse) for way in registry.Direction)  # are registered by now
    monkeypatch.setattr(registry, "_NEAREST", {way: {} for way in registry.Direction})
    for rules in registry.RULES.values():
        monkeypatch.setitem(rules, Reverse, registry.Entry(nothing_moves))
    options = focus("shape", "control", "calls", steps=8)
    failing = (
        (program, kind)
        for program in (generate(seed, options) for seed in count())
        if (kind := failure(program, language))
    )
    for program, kind in islice(failing, 3):
        small, said = smallest(program, language, kind)
        assert said.startswith("missing")
        assert [node.name for node in walk(small.entry)] == ["stablehlo.reverse"], said
        (param,) = small.entry.params
        assert isinstance(param.type, Tensor)
        assert set(param.type.sizes) <= {1, 2}


def failure(program: Program, language: str) -> str:
    """What is wrong with what is said of a program; empty if nothing is."""
    try:
        check(program, language)
    except FailureError as error:
        return error.kind
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("language", SPELL)
def test_most_answers_are_exact_where_nothing_is_repeated(language: str, full: bool) -> None:
    claims: Counter[Precision] = Counter()
    for seed in range(1000 if full else 80):
        program = program_of(seed, language)
        if all(node.name != "stablehlo.while" for node in walk(program.entry)):
            said = Said(hs.read(SPELL[language](program)), program.replicas)
            for accesses in said.back.values():
                claims[max((a.precision for a in accesses), default=Precision.EXACT)] += 1
    print(claims)
    assert claims[Precision.EXACT] >= 0.9 * claims.total()


def both_languages(full: bool) -> Iterator[Program]:
    """Programs whose every op has one meaning.

    A window of a scatter that sticks out is dropped as a whole by HLO, by element in StableHLO.
    """
    for seed in range(4000 if full else 40):
        program = generate(seed, Options(steps=8, masks=seed % 2 > 0))
        if all(node.name != "stablehlo.scatter" for node in walk(program.entry)):
            yield program


def test_both_languages_say_and_do_the_same(full: bool) -> None:
    compared = 0
    for program in both_languages(full):
        found = []
        for spell in SPELL.values():
            read = hs.read(spell(program))
            said, rng = Said(read), np.random.default_rng(program.seed)
            seen = observe(Runner(read.module), said.outputs, rng, "plain")
            claims = {pair: said.claims(pair, seen)[0] for pair in seen.moved}
            found.append((seen.moved, claims))
        (moved, claims), (moved_too, claims_too) = found
        for pair, one in claims.items():
            where = f"seed {program.seed}, output and input {pair}"
            other = claims_too[pair]
            assert (moved[pair] == moved_too[pair]).all(), where
            if one.is_exact and other.is_exact:
                assert (one.touched == other.touched).all(), where
                compared += 1
    assert compared > 60


@pytest.mark.slow
def test_evidence_by_execution_agrees(full: bool) -> None:
    """The product's own way to run programs finds nothing that contradicts its maps either."""
    seen = 0
    for seed in range(600 if full else 12):
        program = generate(seed, Options(("mlir",), steps=6))
        read = hs.read(SPELL["mlir"](program))
        entry = read.module.entry
        execution = Execution(entry.root, entry)
        for o in range(len(program.entry.results)):
            for k in range(len(entry.parameters)):
                shown = execution.check(o, k, 0)
                assert shown.violation is None, f"seed {seed}: {shown.violation}"
                seen += shown.seen
    assert seen > 20


@pytest.mark.slow
def test_no_answer_is_refuted(full: bool) -> None:
    """Nor by isl, nor at single elements, of whole programs and of ops with regions."""
    checked = 0
    for seed in range(600 if full else 16):
        language = ("hlo", "mlir")[seed % 2]
        program = program_of(seed, language)
        read = hs.read(SPELL[language](program))
        answers = [read.root.to_parameters(output=None)]
        answers += [v.indexing(output=None) for v in read.entry if v.calls and v.outputs]
        for answer in answers:
            for proof in answer.prove().checks:
                assert proof.outcome is not Outcome.REFUTED, f"{language}, seed {seed}: {proof}"
                checked += 1
    assert checked > 60


def test_a_float_beside_a_huge_one_is_not_taken_for_unread() -> None:
    """Squares of squares go beyond what floats beside them can change."""
    value, start, row = Value(Tensor("f32")), Value(Tensor("f32")), Value(Tensor("f32", (6,)))
    carry, element, squared = (Value(Tensor("f32")) for _ in range(3))
    times = {"hlo": Spelling("multiply"), "mlir": Spelling("stablehlo.multiply")}
    body = Region((carry, element), (Node((carry, carry), (squared,), (), **times),), (squared,))
    large, total = Value(Tensor("f32")), Value(Tensor("f32"))
    reduce = Node(
        (row, start),
        (large,),
        (body,),
        hlo=Spelling("reduce", "dimensions={0}, to_apply=%0"),
        mlir=Spelling("stablehlo.reduce", "dimensions = array<i64: 0>"),
    )
    two = Node(
        (),
        (start,),
        hlo=Spelling("constant", "2"),
        mlir=Spelling("stablehlo.constant", "value = dense<2.0> : tensor<f32>"),
    )
    plus = {"hlo": Spelling("add"), "mlir": Spelling("stablehlo.add")}
    add = Node((value, large), (total,), (), **plus)
    program = Program(Region((value, row), (two, reduce, add), (total,)))
    for language in SPELL:
        assert check(program, language).pairs == {"claimed": 1, "moved": 1, "hidden": 0}


@pytest.mark.slow
def test_a_wrong_map_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original, noticed = Said.__init__, 0

    def forgetful(self: Said, read: hs.Program, devices: int = 1) -> None:
        original(self, read, devices)
        pair = max(self.back, key=lambda pair: len(self.back[pair]))
        self.back[pair] = ()

    monkeypatch.setattr(Said, "__init__", forgetful)
    for seed in range(24):
        noticed += failure(generate(seed, Options(steps=6, masks=False)), "hlo") == "missing back"
    assert noticed >= 18
