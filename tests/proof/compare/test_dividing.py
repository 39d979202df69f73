"""Arrays cut by shardings, and arguments that tell programs apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hloscope
from hloscope.errors import UnsupportedError
from hloscope.proof import cuts_of, edge_arguments, limits_of

HLO = "ENTRY e {{ ROOT p = s32[{sizes}] parameter(0), sharding={{{sharding}}} }}"


def cut(sharding: str, sizes: str, partitions: int) -> tuple[object, object]:
    program = hloscope.read(HLO.format(sizes=sizes, sharding=sharding))
    (found,), _ = cuts_of(program.module, program.entry.ir, partitions)
    assert found is not None
    return found, program.entry.ir.arguments[0]


@given(st.integers(1, 9), st.integers(1, 9), st.permutations(range(6)))
def test_parts_of_a_sharding_are_the_array(rows: int, columns: int, order: list[int]) -> None:
    devices = ",".join(map(str, order))
    found, type_ = cut(f"devices=[2,3]{devices}", f"{rows},{columns}", 6)
    array = np.arange(rows * columns).reshape(rows, columns)
    seen = np.full_like(array, -1)
    height, width = -(-rows // 2), -(-columns // 3)
    for number, device in enumerate(order):
        i, j = divmod(number, 3)
        part = found.part(array, device)  # type: ignore[attr-defined]
        seen[i * height : i * height + height, j * width : j * width + width] = part
        filled = found.filled(array, device)  # type: ignore[attr-defined]
        assert filled.shape == found.local(type_).sizes  # type: ignore[attr-defined]
        assert (filled[: part.shape[0], : part.shape[1]] == part).all()
    assert (seen == array).all()


def test_devices_of_a_replicated_subgroup_have_the_same_part() -> None:
    found, _ = cut("devices=[2,2]<=[4] last_tile_dim_replicate", "4", 4)
    array = np.arange(4)
    parts = [found.part(array, k).tolist() for k in range(4)]  # type: ignore[attr-defined]
    assert parts == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_shardings_of_stablehlo_are_cut() -> None:
    program = hloscope.read(
        'sdy.mesh @m = <["x"=2, "y"=2]>\n'
        "func.func @main(%a: tensor<4xf32> {mhlo.sharding = "
        '"{devices=[2,2]<=[4] last_tile_dim_replicate}"},'
        ' %b: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"y"}]>})'
        " -> (tensor<4x6xf32> {sdy.sharding = "
        '#sdy.sharding<@m, [{"x"}, {}]>}) {\n'
        "  return %b : tensor<4x6xf32>\n}"
    )
    given_, results = cuts_of(program.module, program.entry.ir, 4)
    assert [cut and cut.counts for cut in given_] == [(2,), (1, 2)]
    assert [cut and cut.counts for cut in results] == [(2, 1)]
    second = given_[1]
    assert second is not None
    assert [place[1] for place in second.places] == [0, 1, 0, 1]


@pytest.mark.parametrize("sharding", ["manual", "maximal device=1", "devices=[3]<=[3]"])
def test_other_shardings_are_refused(sharding: str) -> None:
    with pytest.raises(UnsupportedError):
        cut(sharding, "6", 2)


def test_arguments_are_starts_beyond_what_is_clamped_and_the_same_for_one_run() -> None:
    program = hloscope.read(
        "ENTRY e { x = s32[9] parameter(0) i = s32[] parameter(1)\n"
        "  ROOT a = s32[6] dynamic-slice(x, i), dynamic_slice_sizes={6} }"
    )
    entry = program.entry.ir
    limits = limits_of([entry])
    assert {-1, 0, 2, 3, 4, 9} <= {*limits}  # 9 - 6 is the last start that is not clamped
    runs = [edge_arguments(entry.arguments, limits, run) for run in range(64)]
    assert runs[3][1] == edge_arguments(entry.arguments, limits, 3)[1]
    starts = {int(run[1]) for run in runs}
    assert min(starts) < 0
    assert {*range(4)} & starts
    assert max(starts) > 3
    assert sorted(np.asarray(runs[0][0]).tolist()) == [*range(9)]


@pytest.mark.parametrize(
    "element",
    ["pred", "s4", "u4", "s8", "u64", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f32", "f64", "c64"],
)
def test_all_element_types_have_arguments(element: str) -> None:
    program = hloscope.read(f"ENTRY e {{ ROOT p = {element}[3,2] parameter(0) }}")
    for run in range(12):
        (value,) = edge_arguments(program.entry.ir.arguments, (0, 1, 1 << 40), run)
        assert np.asarray(value).shape == (3, 2)
