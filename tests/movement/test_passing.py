"""Movement and the broadcasts and reductions next to it change places only where values stay."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter import call
from hloscope.movement import Exchange, Flow, Kind, chains_of, exchanges_of

ADD = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }\n"


def shape(sizes: list[int]) -> str:
    return f"s32[{','.join(map(str, sizes))}]"


def braces(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def passings(text: str) -> list[Exchange]:
    return [found for chain in chains_of(Flow(parse_hlo(text))) for found in exchanges_of(chain)]


def check(text: str) -> list[Exchange]:
    """Where they change places, the program the other way round returns the same."""
    module = parse_hlo(text)
    found = passings(text)
    sizes = [p.type.shape for p in module.entry.parameters]
    numbers = [np.arange(1, prod(s) + 1, dtype=np.int32).reshape(s) for s in sizes]
    for passing in found:
        if passing.judged is None:
            assert passing.reason
            continue
        other = parse_hlo(passing.text)
        np.testing.assert_array_equal(
            call(module, numbers), call(other, numbers[: len(other.entry.parameters)])
        )
    return found


def factors(random: Random, size: int) -> list[int]:
    """Sizes whose product is given, in an order of chance."""
    found = []
    while size > 1:
        factor = random.choice([k for k in range(2, size + 1) if size % k == 0])
        found.append(factor)
        size //= factor
    return found + [1] * random.randint(0, 1)


def moves(random: Random, sizes: list[int], value: str) -> tuple[list[str], list[int], str]:
    """Some reshapes and transposes."""
    lines = []
    for k in range(random.randint(1, 3)):
        name = f"m{k}"
        if random.random() < 0.5:
            sizes = factors(random, prod(sizes))
            lines.append(f"{name} = {shape(sizes)} reshape({value})")
        else:
            order = random.sample(range(len(sizes)), len(sizes))
            sizes = [sizes[d] for d in order]
            lines.append(f"{name} = {shape(sizes)} transpose({value}), dimensions={braces(order)}")
        value = name
    return lines, sizes, value


def random_reduction(seed: int) -> str:
    random = Random(seed)
    sizes = factors(random, random.choice([12, 24, 36]))
    lines, now, value = moves(random, sizes, "p")
    dims = sorted(random.sample(range(len(now)), random.randint(0, len(now))))
    kept = [size for d, size in enumerate(now) if d not in dims]
    return ADD + "\n".join(
        [
            "ENTRY e {",
            f"p = {shape(sizes)} parameter(0)",
            "zero = s32[] parameter(1)",
            *lines,
            f"ROOT r = {shape(kept)} reduce({value}, zero), dimensions={braces(dims)}, "
            "to_apply=add",
            "}",
        ]
    )


def random_broadcast(seed: int) -> str:
    random = Random(seed)
    sizes = factors(random, random.choice([6, 12]))
    out = list(sizes)
    for _ in range(random.randint(1, 2)):
        out.insert(random.randint(0, len(out)), random.choice([2, 3]))
    places = sorted(random.sample(range(len(out)), len(sizes)))
    out = [out[k] if k not in places else sizes[places.index(k)] for k in range(len(out))]
    lines, _, _ = moves(random, out, "b")
    first, _, last = lines[-1].partition(" = ")
    return "\n".join(
        [
            "ENTRY e {",
            f"p = {shape(sizes)} parameter(0)",
            f"b = {shape(out)} broadcast(p), dimensions={braces(places)}",
            *lines[:-1],
            f"ROOT {first} = {last}",
            "}",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [random_reduction, random_broadcast])
def test_what_changes_places_computes_the_same(make: object, full: bool) -> None:
    assert callable(make)
    found = [p for seed in range(1000 if full else 120) for p in check(make(seed))]
    changed = [p for p in found if p.judged is not None]
    assert len(changed) >= 20
    assert len(found) > len(changed)  # some may not
    assert {p.judged.kind for p in changed if p.judged} >= {Kind.BITCAST, Kind.TRANSPOSE}


def test_a_transpose_before_a_reduction_is_not_needed() -> None:
    (found,) = check(
        ADD + "ENTRY e { p = s32[64,8] parameter(0) zero = s32[] parameter(1) "
        "t = s32[8,64] transpose(p), dimensions={1,0} "
        "ROOT r = s32[8] reduce(t, zero), dimensions={1}, to_apply=add }"
    )
    assert (found.before, found.after) == (2048, 0)
    assert "reduce(p, zero), dimensions={0}" in found.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "p = s32[6] parameter(0) zero = s32[] parameter(1) m = s32[2,3] reshape(p) "
            "ROOT r = s32[2] reduce(m, zero), dimensions={1}, to_apply=add",
            "dimension 0 of p is reduced in part only",
        ),
        (
            "p = s32[3] parameter(0) b = s32[2,3] broadcast(p), dimensions={1} "
            "ROOT m = s32[6] reshape(b)",
            "broadcast in part only",
        ),
    ],
)
def test_what_is_mixed_stays_where_it_is(body: str, said: str) -> None:
    (found,) = passings(f"{ADD}ENTRY e {{ {body} }}")
    assert found.judged is None
    assert said in found.reason


def test_what_others_read_too_is_written_all_the_same() -> None:
    text = ADD + (
        "ENTRY e { p = s32[64,8] parameter(0) zero = s32[] parameter(1) "
        "t = s32[8,64] transpose(p), dimensions={1,0} "
        "r = s32[8] reduce(t, zero), dimensions={1}, to_apply=add "
        "n = s32[8,64] negate(t) ROOT both = (s32[8], s32[8,64]) tuple(r, n) }"
    )
    assert passings(text) == []
