"""The generator of programs: a seed gives one program, which is right, and can be made smaller."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest

import hloscope as hs
from tests.generator import Options, Program, builder, generate, isolated, options_of, shrink, walk
from tests.generator.builder import ROWS, Builder, Row
from tests.generator.hlo_text import hlo_text
from tests.generator.kinds import kinds
from tests.generator.program import Region, captured, read
from tests.generator.shrink import measure
from tests.generator.stablehlo_text import stablehlo_text

SPELL = {"hlo": hlo_text, "mlir": stablehlo_text}


def programs(language: str, full: bool) -> list[Program]:
    """A sample; of most seeds the programs have ops of one language only."""
    seeds = range(4000 if full else 100)
    return [generate(seed, options_of(seed, language)) for seed in seeds]


def depth(region: Region) -> int:
    return 1 + max((depth(r) for node in region.nodes for r in node.regions), default=0)


def test_a_seed_gives_the_same_program_always() -> None:
    for seed in range(50):
        options = options_of(seed, "hlo", "mlir")
        one, other = generate(seed, options), generate(seed, options)
        assert hlo_text(one) == hlo_text(other)
        assert stablehlo_text(one) == stablehlo_text(other)


@pytest.mark.parametrize("language", SPELL)
def test_every_program_is_right(language: str, full: bool) -> None:
    for program in programs(language, full):
        text = SPELL[language](program)
        assert not hs.verify(text), f"seed {program.seed}\n{text}"


def test_programs_of_both_languages_are_right_in_both(full: bool) -> None:
    for seed in range(2000 if full else 60):
        program = generate(seed, Options())
        assert program.languages == ("hlo", "mlir")
        for spell in SPELL.values():
            assert not hs.verify(spell(program)), f"seed {seed}\n{spell(program)}"


@pytest.mark.slow
@pytest.mark.parametrize("language", SPELL)
def test_every_step_is_taken(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: Counter[str] = Counter()

    def counting(row: Row) -> Row:
        def take(g: Builder) -> None:
            taken[row.take.__name__] += 1
            row.take(g)

        return replace(row, take=take)

    monkeypatch.setattr(builder, "ROWS", list(map(counting, ROWS)))
    for seed in range(150):
        generate(seed, Options((language,), steps=20, replicas=2))
    names = {row.take.__name__ for row in ROWS if language in row.languages}
    assert names <= taken.keys(), names - taken.keys()


def test_regions_nest_and_capture_through_several_levels() -> None:
    deep = through = 0
    for program in programs("mlir", full=False):
        deep += depth(program.entry) > 2
        for node in walk(program.entry):
            for region in node.regions:
                inner = {v for n in region.nodes for r in n.regions for v in captured(r)}
                through += not inner.isdisjoint(captured(region))
    assert deep >= 15
    assert through >= 12


OFTEN: Final = frozenset({
    "branch indexes with a captured value", "part of a captured value",
    "region in a body of scalars", "gather with batching dimensions",
    "scatter with batching dimensions",
    "asynchronous call", "asynchronous collective", "asynchronous op", "bounded dimension",
    "call in a body", "call in the body of another op", "captured bounded dimension",
    "captured tuple", "captures", "captures through two levels", "chain of 2 collectives",
    "chain of 3 or more collectives", "chain of 64 ops", "collective", "collective in call",
    "collective in case", "collective in if", "collective in while", "custom call",
    "custom call with layouts", "empty tensor", "index from a region", "index from arithmetic",
    "index handed in", "index of a constant", "layout", "regions 1 deep", "regions 2 deep",
    "regions 3 deep", "regions 4 deep", "sharding", "size that no type tells",
    "sizes or places as operands", "tuple", "tuple of tuples",
})  # fmt: skip
"""The kinds that a thousand seeds have several times."""


@pytest.mark.slow
def test_every_kind_occurs_often(full: bool) -> None:
    found: Counter[str] = Counter()
    for language in SPELL:
        for seed in range(2000 if full else 500):
            found.update(kinds(generate(seed, options_of(seed, language))))
    assert {kind: found[kind] for kind in OFTEN if found[kind] < 3} == {}


@pytest.mark.slow
def test_a_program_shrinks_to_what_matters() -> None:
    """Of a gather whose result a loop reads, the gather and the loop are left, and little else."""

    def holds(program: Program) -> bool:
        names = {node.name for node in walk(program.entry)}
        if not {"stablehlo.gather", "stablehlo.while"} <= names:
            return False
        return not hs.verify(stablehlo_text(program))

    found = 0
    for seed in range(400):
        program = generate(seed, Options(steps=14))
        if not holds(program):
            continue
        small = shrink(program, holds)
        found += 1
        assert holds(small)
        assert measure(small) <= measure(program)
        assert sum(node.name != "stablehlo.constant" for node in walk(small.entry)) <= 10
        if found == 3:
            break
    assert found == 3


@pytest.mark.slow
def test_a_node_alone_is_a_program() -> None:
    count = 0
    for program in programs("hlo", full=False)[:40]:
        for node in program.entry.nodes:
            if node.regions:
                alone = isolated(node)
                assert alone.entry.params == read(node)
                assert not hs.verify(hlo_text(alone))
                count += 1
    assert count > 20
