"""Chains told of equal fusions at once are those that are found one by one."""

from __future__ import annotations

from typing import Any

import pytest

import hloscope
from hloscope.ir import Module
from hloscope.movement import Chain, Flow, Planner, chain_to, chains_of


def facts(chain: Chain) -> tuple[Any, ...]:
    """All that is told of a chain."""
    leaves = [(leaf.value, leaf.maps, leaf.via) for leaf in chain.leaves]
    told = chain.sink, chain.steps, leaves, chain.sources, chain.kind, chain.blocking
    figures = (Planner(chain.flow).saved_alone(chain),)
    return *told, *figures, chain.read, chain.is_cut


def check(module: Module) -> list[Chain]:
    """Compare all chains with those of each value, told without patterns."""
    found = list(chains_of(Flow(module)))
    by_value = [chain for c in module for ins in c if (chain := chain_to(Flow(module), ins))]
    assert [*map(facts, found)] == [*map(facts, by_value)]
    return found


INSIDE = """
body{k} {{
  x = f32[4,8] parameter(0)
  y = f32[4,8] parameter(1)
  z = f32[] constant(2)
  row = f32[8,4] reshape(x)
  back = f32[4,8] reshape(row)
  s = f32[8] broadcast(z), dimensions={{}}
  t = f32[8,4] broadcast(s), dimensions={{0}}
  u = f32[4,8] transpose(t), dimensions={{1,0}}
  a = f32[4,8] add(back, {other})
  m = f32[4,8] multiply(a, u)
  v = f32[4,8] broadcast(z), dimensions={{}}
  w = f32[4,8] sine(v)
  n = f32[4,8] subtract(m, w)
  {end}
}}"""
ENDS = {
    "one": "ROOT r = f32[4,8] negate(n)",
    "moved": "ROOT r = f32[8,4] transpose(n), dimensions={1,0}",
    "two": "ROOT r = (f32[4,8], f32[4,8]) tuple(n, u)",
}
TYPES = {"one": "f32[4,8]", "moved": "f32[8,4]", "two": "(f32[4,8], f32[4,8])"}
HANDED = ("p, q", "p, p", "p, b", "b, b", "c, d", "f, q")
"""Different values, the same one twice, single elements broadcast, and what was moved before."""


def fusions() -> str:
    """Equal fusions with whatever makes a difference to what their values are."""
    bodies, lines, returned = [], [], []
    kinds = [(end, other, handed) for end in ENDS for other in "yu" for handed in HANDED]
    for k, (end, other, handed) in enumerate(kinds * 2):
        bodies.append(INSIDE.format(k=k, other=other, end=ENDS[end]))
        lines.append(f"k{k} = {TYPES[end]} fusion({handed}), kind=kLoop, calls=body{k}")
        returned.append((f"k{k}", TYPES[end]))
        if end == "two":
            lines.append(f"e{k} = f32[4,8] get-tuple-element(k{k}), index=1")
            lines.append(f"g{k} = f32[8,4] transpose(e{k}), dimensions={{1,0}}")
            returned[-1] = f"g{k}", "f32[8,4]"
    names, types = [", ".join(some) for some in zip(*returned, strict=True)]
    return (
        "\n".join(bodies)
        + "\n"
        + f"""
ENTRY main {{
  p = f32[4,8] parameter(0)
  q = f32[4,8] parameter(1)
  o = f32[] parameter(2)
  b = f32[4,8] broadcast(o), dimensions={{}}
  c = f32[4,8] reshape(q)
  d = f32[4,8] exponential(c)
  h = f32[8,4] transpose(p), dimensions={{1,0}}
  f = f32[4,8] transpose(h), dimensions={{1,0}}
  {chr(10).join(lines)}
  ROOT out = ({types}) tuple({names})
}}"""
    )


@pytest.mark.slow
def test_equal_fusions_have_the_chains_that_each_has() -> None:
    found = check(hloscope.read(fusions()).module)
    patterns = [chain.pattern for chain in found if chain.pattern is not None]
    assert len(patterns) > 2 * len({*patterns}) > 0


def test_a_computation_with_two_callers_has_no_pattern() -> None:
    text = """
    inner { x = f32[4,8] parameter(0)  z = f32[] constant(1)
      u = f32[4,8] broadcast(z), dimensions={}  ROOT r = f32[4,8] add(x, u) }
    ENTRY e { p = f32[4,8] parameter(0)
      a = f32[4,8] fusion(p), kind=kLoop, calls=inner
      ROOT b = f32[4,8] fusion(a), kind=kLoop, calls=inner }"""
    assert [chain.pattern for chain in check(hloscope.read(text).module)] == [None]
