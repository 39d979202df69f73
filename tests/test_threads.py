"""Questions from several threads at once have the answers they have one after another."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import hloscope as hs
from hloscope.affine import Dim, Interval
from hloscope.fusion.analysis import Analysis
from hloscope.simplifier import Domain, forget_domains
from hloscope.simplifier.engine import Engine
from hloscope.support import doors

THREADS = 4
SIZES = range(1, 9)
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
FUSED = """c{n} {{
  p = f32[{8n},4,6] parameter(0)
  t = f32[6,{8n},4] transpose(p), dimensions={{2,0,1}}
  r = f32[{n},8,24] reshape(t)
  z = f32[] constant(0)
  q = f32[{n},8] reduce(r, z), dimensions={{2}}, to_apply=add
  ROOT o = f32[{4n},2] reshape(q)
}}"""
CALL = """  p{n} = f32[{8n},4,6] parameter({k})
  f{n} = f32[{4n},2] fusion(p{n}), kind=kLoop, calls=c{n}"""


def filled(template: str, n: int) -> str:
    """The template for one size."""
    return template.format(**{"n": n, "k": n - 1, "4n": 4 * n, "8n": 8 * n})


TEXT = "\n".join(
    [
        "HloModule m",
        ADD,
        *[filled(FUSED, n) for n in SIZES],
        "ENTRY e {",
        *[filled(CALL, n) for n in SIZES],
        "  ROOT t = tuple(" + ", ".join(f"f{n}" for n in SIZES) + ")",
        "}",
    ]
)


@pytest.fixture(autouse=True)
def tiny_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def asked(program: hs.Program, order: int) -> list[str]:
    """The answers about every fusion, forwards or backwards, in the order of their names."""
    names = [f"f{n}" for n in SIZES]
    found = {}
    for name in names[::order]:
        view = program[name]
        back = view.indexing().to_json()
        forth = view.indexing_from(0).to_json()
        ends = view.to_parameters().to_json()
        found[name] = str((back["outputs"], forth["outputs"], ends["outputs"]))
    return [found[name] for name in names]


def at_once(work: Callable[[int], list[str]]) -> list[list[str]]:
    """What the work gives in each of several threads that begin together."""
    together = threading.Barrier(THREADS)

    def begun(number: int) -> list[str]:
        together.wait(60)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begun, range(THREADS)))


def test_one_program_may_be_asked_by_several_threads() -> None:
    expected = asked(hs.read(TEXT), 1)
    for _ in range(3):
        program = hs.read(TEXT)
        for found in at_once(lambda number, p=program: asked(p, (-1) ** number)):  # type: ignore[misc]
            assert found == expected


def test_programs_may_be_read_and_asked_side_by_side() -> None:
    expected = asked(hs.read(TEXT), 1)
    for found in at_once(lambda number: asked(hs.read(TEXT), (-1) ** number)):
        assert found == expected


def test_domains_are_shared_by_threads() -> None:
    def work(_: int) -> list[str]:
        shown = []
        for k in range(300):  # more than are remembered
            domain = Domain({Dim(0): Interval(0, k), Dim(1): Interval(0, 7)})
            e = (Dim(0) * 8 + Dim(1)) // 8 + (Dim(0) * 8 + Dim(1)) % (k + 1)
            shown.append(f"{domain.simplify(e)} {domain.bounds(e)}")
        return shown

    expected = work(0)
    forget_domains()
    for found in at_once(work):
        assert found == expected


def most_at_once(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> list[int]:
    """How many threads were in a method at each of its calls, which take a while."""
    real: Callable[..., Any] = getattr(owner, method)
    inside: set[int] = set()
    counts: list[int] = []

    def watched(*arguments: Any, **options: Any) -> Any:
        me = threading.get_ident()
        is_outermost = me not in inside
        inside.add(me)
        counts.append(len(inside))
        if is_outermost:
            time.sleep(0.01)  # others come in, if they may
        try:
            return real(*arguments, **options)
        finally:
            if is_outermost:
                inside.discard(me)

    monkeypatch.setattr(owner, method, watched)
    return counts


def test_one_thread_at_a_time_uses_the_engines_of_a_domain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget_domains()
    domain = Domain({Dim(0): Interval(0, 5), Dim(1): Interval(0, 7)})
    counts = most_at_once(monkeypatch, Engine, "simplify")
    at_once(lambda k: [str(domain.simplify((Dim(0) * 8 + Dim(1)) // (k + 2)))])
    assert set(counts) == {1}
    assert len(counts) >= THREADS


def test_one_thread_at_a_time_uses_the_analysis_of_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = hs.read(TEXT)
    counts = most_at_once(monkeypatch, Analysis, "output_to_input")
    at_once(lambda k: [str(program[f"f{k + 1}"].indexing())])
    assert set(counts) == {1}
    assert len(counts) >= THREADS


def test_a_door_that_is_being_read_hides_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    load, _ = doors.door("hloscope.tiling")
    read, asked = doors._imported_for_types, []

    def interrupted(package: str) -> dict[str, str]:
        if not asked:
            asked.append(package)
            asked.append(load("Refusal").__name__)  # what another thread may ask for meanwhile
        return read(package)

    monkeypatch.setattr(doors, "_imported_for_types", interrupted)
    assert load("TilingSpace").__name__ == "TilingSpace"
    assert asked[1:] == ["Refusal"]
