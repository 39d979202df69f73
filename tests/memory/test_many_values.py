"""A variable may have more values than fit into memory; what is counted of them needs none."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.support.arrays import np, sorted_unique

WINDOWS = """
greater { a = f32[] parameter(0) b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
windows {
  x = f32[10,24,24,4294967296] parameter(0)
  y = f32[10,12,12,4294967296] parameter(1)
  z = f32[] constant(0)
  ROOT r = f32[10,24,24,4294967296] select-and-scatter(x, y, z),
    window={size=1x2x2x1 stride=1x2x2x1}, select=greater, scatter=add
}
ENTRY e {
  x = f32[10,24,24,4294967296] parameter(0)
  y = f32[10,12,12,4294967296] parameter(1)
  ROOT f = f32[10,24,24,4294967296] fusion(x, y), kind=kLoop, calls=windows
}
"""


@pytest.mark.parametrize("device", ["a6000", "h100"])
@pytest.mark.timeout(60)
def test_values_without_a_known_period_are_not_listed(device: str) -> None:
    root = hloscope.read(WINDOWS).root
    assert str(root.coalescing(device=device))
    assert str(root.footprint(device=device))


def test_sorted_numbers_are_numpys_unique() -> None:
    draw = np.random.default_rng(7)
    for size in (0, 1, 2, 50):
        for shape in ((size,), (size, 3), ()):
            values = draw.integers(-5, 5, shape)
            assert sorted_unique(values).tolist() == np.unique(values).tolist()
