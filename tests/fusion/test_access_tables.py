"""Tables of what is read: what plain dictionaries say, in work that grows with the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.fusion.parameter_reads import ParameterReads, Tables
from hloscope.indexing import Access, Accesses
from hloscope.ir import TokenType, Type
from tests.large import many_parameters

Flows: TypeAlias = list[tuple[Accesses | None, int]]

TOKEN = TokenType()
WORDS = [Access.unknown(word) for word in "abcd"]
"""Stand for accesses: joined, they are a set; what stands before another one takes its place."""
BLOCKED = WORDS[3]
"""Through this one nothing is read."""


def join(_: Type, parts: Sequence[tuple[Accesses | None, Accesses]]) -> Accesses:
    found = {a for first, then in parts for a in (then if first is None else first)}
    return tuple([a for a in WORDS if a in found and a is not BLOCKED])


sets = st.sets(st.sampled_from(WORDS), min_size=1).map(lambda s: tuple(w for w in WORDS if w in s))
numbers = st.one_of(st.integers(0, 10), st.integers(0, 5000))
entries = st.dictionaries(numbers, sets.map(lambda s: join(TOKEN, [(s, s)])).filter(bool))
flows = st.lists(st.tuples(st.none() | sets, st.integers(0, 9)), max_size=4)


@pytest.mark.parametrize("is_plain", [lambda _: False, lambda accesses: BLOCKED not in accesses])
@given(st.lists(entries, min_size=1, max_size=4), st.lists(flows, max_size=6))
def test_tables_say_what_dictionaries_say(
    is_plain: Callable[[Accesses], bool], starts: list[dict[int, Accesses]], steps: list[Flows]
) -> None:
    tables = Tables(join, is_plain)
    plain = [dict(start) for start in starts]
    known = [
        tables.joined([(None, tables.single(k, TOKEN, a)) for k, a in s.items()]) for s in starts
    ]
    for step in steps:
        chosen = [(first, at % len(plain)) for first, at in step]
        ends = sorted({k for _, at in chosen for k in plain[at]})
        merged = {
            k: join(TOKEN, [(f, plain[at][k]) for f, at in chosen if k in plain[at]]) for k in ends
        }
        plain.append({k: a for k, a in merged.items() if a})
        known.append(tables.joined([(f, known[at]) for f, at in chosen]))
    for table, expected in zip(known, plain, strict=True):
        items = list(tables.items(table))
        assert [number for number, _ in items] == sorted(expected)
        assert {number: reading.accesses for number, reading in items} == expected


def slices(n: int) -> str:
    """A chain of slices, to each of which a parameter is added."""
    lines, value = [f"p0 = f32[{2 * n}] parameter(0)"], "p0"
    for i in range(1, n):
        size = 2 * n - i
        lines += [
            f"s{i} = f32[{size}] slice({value}), slice={{[1:{size + 1}]}}",
            f"p{i} = f32[{size}] parameter({i})",
            f"x{i} = f32[{size}] add(s{i}, p{i})",
        ]
        value = f"x{i}"
    return "\n".join(["ENTRY e {", *lines, f"ROOT r = f32[{n + 1}] negate({value})", "}"])


def residual(n: int) -> str:
    """Each layer adds to the value before it a product with a parameter of its own, and a bias."""
    lines = ["x0 = f32[8,8] parameter(0)"]
    for i in range(1, n):
        lines += [
            f"w{i} = f32[8,8] parameter({2 * i - 1})",
            f"b{i} = f32[8] parameter({2 * i})",
            f"m{i} = f32[8,8] dot(x{i - 1}, w{i}), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={0}",
            f"c{i} = f32[8,8] broadcast(b{i}), dimensions={{1}}",
            f"s{i} = f32[8,8] add(m{i}, c{i})",
            f"x{i} = f32[8,8] add(x{i - 1}, s{i})",
        ]
    return "\n".join(["ENTRY e {", *lines, f"ROOT r = f32[8,8] negate(x{n - 1})", "}"])


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("make", [many_parameters, residual, slices])
def test_what_is_kept_grows_with_the_program(make: Callable[[int], str]) -> None:
    def kept(n: int) -> int:
        program = hs.read(make(n))
        reads = ParameterReads(program.analysis, program.entry.ir)
        found = reads.of(program.root.ir, 0)
        assert len(found) == len(program.entry.ir.parameters)
        return reads._tables.size

    assert kept(400) < 7 * kept(100)  # times the logarithm; tables of their own would take 16
