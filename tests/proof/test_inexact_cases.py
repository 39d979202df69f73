"""Where XLA's own expectation is inexact (`xla_exact: false`), the answers here are exact.

What is true is written down once more for each case, element by element, and compared at every
index.  A note says where XLA differs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from hloscope.affine import Interval
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap, Precision
from hloscope.indexing.proofs import prove_inverse
from hloscope.ir.graph import Instruction
from hloscope.ir.types import TensorType
from tests.conftest import SHARED, needs_shared
from tests.fusion.truth import Point, Values

pytestmark = needs_shared

Truth = Callable[[Point], set[Point]]


class Row(NamedTuple):
    """A case of XLA's tests and what is true.

    Attributes:
        note: Where XLA's expectation differs.
        operand: The operand asked about.
        truth: The elements of the operand that an element of the output reads.
        output: The output asked about.
        integers: The values of integer parameters, by number.
    """

    note: str
    operand: int
    truth: Truth
    output: int = 0
    integers: dict[str, int] = {}  # noqa: RUF012  # never changed


def padded(*dims: tuple[int, int, int]) -> Truth:
    """The padding value is read where no element is: `(size, low, interior)` of each dimension."""

    def truth(at: Point) -> set[Point]:
        inner = [(x - low, gap + 1, size) for x, (size, low, gap) in zip(at, dims, strict=True)]
        is_element = all(x % step == 0 and 0 <= x // step < size for x, step, size in inner)
        return set() if is_element else {()}

    return truth


def outside(*starts: int) -> Truth:
    """A dynamic-update-slice of 5 by 10 in 20 by 30 reads its operand beside the update."""
    places = [min(max(start, 0), most) for start, most in zip(starts, (15, 20), strict=True)]

    def truth(at: Point) -> set[Point]:
        rows, columns = (x - place for x, place in zip(at, places, strict=True))
        return set() if 0 <= rows < 5 and 0 <= columns < 10 else {at}

    return truth


def moved(sizes: Point, move: Callable[[Any], Any]) -> Truth:
    """Each element comes from where numpy moves it from."""
    numbers = move(np.arange(np.prod(sizes)).reshape(sizes))
    return lambda at: {tuple(int(x) for x in np.unravel_index(numbers[at], sizes))}


def prefix(at: Point) -> set[Point]:
    """All elements up to the own one, along the last dimension."""
    return {(*at[:-1], x) for x in range(at[-1] + 1)}


def sliced_twice(at: Point) -> set[Point]:
    """Starts 7 and 9 in 150 by 64, then 3 and 40 (which is clamped to 16) in 50 by 32."""
    return {(at[0] + 7 + 3, at[1] + 9 + 16)}


PAD_VALUE: Final = "the padding value is read by padded elements only"
NEGATIVE: Final = "the same, with edges cut off"
PREFIX: Final = "an element depends on all before it, which XLA treats as element-wise"
UPDATED: Final = "what the update replaces is not read"
A, D, T, P = (
    "indexing_analysis_test",
    "docs_indexing",
    "symbolic_tile_test",
    "tile_propagation_test",
)
ROWS: Final[dict[str, list[Row]]] = {
    f"{A}::ScanOp::0": [Row(PREFIX, 0, prefix)],
    f"{A}::ScanOp::1": [Row("the last carry reads all", 0, lambda at: prefix((9,)), 1)],
    f"{A}::PadOp::0": [Row(PAD_VALUE, 1, padded((4, 1, 1), (4, 4, 0)))],
    f"{D}::Pad::1": [Row(PAD_VALUE, 1, padded((4, 1, 1), (4, 4, 0)))],
    f"{A}::PadOpNoInterior::0": [Row(PAD_VALUE, 1, padded((2, 1, 0), (8, 0, 0)))],
    f"{A}::PadOpNegativePadding::0": [Row(NEGATIVE, 1, padded((7, -3, 1)))],
    f"{A}::ConvolutionOp_BatchGroups::0": [
        Row(
            "the output feature says which batch group is read, XLA reads all seven",
            0,
            lambda at: {
                (at[3] // 3 * 2 + at[0], at[1] + y, at[2] + x, c)
                for y, x, c in product(range(3), range(5), range(4))
            },
        )
    ],
    f"{A}::FusionWithRTVarsSimplification_Iota::0": [
        Row("an iota as index is clamped like any other", 0, lambda at: {(min(at[0], 32), 0)})
    ],
    f"{A}::FusionOpWithDynSliceOfDynSlice::0": [
        Row(
            "XLA's labels of inner and outer offsets are swapped",
            0,
            sliced_twice,
            integers={"1": 7, "2": 9, "3": 3, "4": 40},
        )
    ],
    f"{D}::DynamicUpdateSlice::0": [
        Row(UPDATED, 0, outside(*starts), integers={"2": starts[0], "3": starts[1]})
        for starts in ((0, 0), (3, 7), (15, 20), (99, -1))
    ],
    f"{T}::CanPropagateTileThroughDynamicUpdateSlice::0": [
        Row(UPDATED, 0, outside(3, 7), integers={"2": 3, "3": 7})
    ],
    f"{T}::CanPropagateTileThroughSplitReshapeOfReverse::0": [
        Row(
            "XLA's tile loses a condition when it multiplies by -1; the map keeps all elements",
            0,
            moved((1, 8, 6, 4), lambda x: x[:, ::-1, ::-1].reshape(48, 4)),
        )
    ],
    f"{T}::CanPropagateTileThroughReverseOfCombiningReshape::0": [
        Row(
            "the offset of XLA's tile is wrong where strides have different signs",
            0,
            moved((48, 4), lambda x: x.reshape(2, 4, 6, 4)[:, ::-1, ::-1]),
        )
    ],
    "symbolic_tile_analysis_test::ExpandingReshapeIsSupportedWithTileParamsOutsideBounds::0": [
        Row(
            "a tile of 8 over a dimension of 5 reaches into the next row; the map does not",
            0,
            moved((20,), lambda x: x.reshape(4, 5)),
        )
    ],
    **{
        f"{P}::CanPropagateTo{side}OfScanOp{rank}::0": [Row(PREFIX, 0, prefix)]
        for side in ("Input", "Output")
        for rank in ("", "2D")
    },
}
SEPARATE: Final = {
    f"{D}::Dot::3": "asked from the input: `test_the_right_operand_of_a_dot_reaches_its_columns`",
    "indexing_map_test::ConstraintIntervalSimplification_FloorDivNegativeDivisorNegativeBounds::0":
    "no HLO: `test_division_by_a_negative_number_bounds_the_right_way_round`",
}  # fmt: skip


@cache
def cases() -> dict[str, dict[str, Any]]:
    """All cases whose expectation is inexact, by name."""
    return {
        case["id"]: case
        for path in sorted((SHARED / "conformance/xla").glob("*.json"))
        for case in json.loads(path.read_text()).get("cases", [])
        if case.get("xla_exact") is False
    }


def asked(case: dict[str, Any]) -> Instruction:
    """The instruction that the case is about: a scan is beside its root."""
    root = parse_hlo(case["hlo"], name=case["id"]).entry.root
    return root.operands[0] if root.op.name == "get_tuple_element" else root


def test_every_inexact_case_is_here() -> None:
    assert cases().keys() == ROWS.keys() | SEPARATE.keys()


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", ROWS)
def test_the_answer_is_exact_at_every_index(name: str) -> None:
    for row in ROWS[name]:
        ins, analysis = asked(cases()[name]), Analysis(convention="xla")
        values = Values(row.integers)
        accesses = analysis.output_to_input(ins, row.output)[row.operand, 0]
        assert all(access.precision is Precision.EXACT for access in accesses)
        type_ = analysis.tensors(ins.type)[row.output]
        assert isinstance(type_, TensorType)
        for at in product(*map(range, type_.shape)):
            assert values.points(accesses, at) == row.truth(at), f"{at}: {row.note}"


@pytest.mark.slow(keep=7)
@pytest.mark.parametrize("name", ROWS)
def test_the_other_direction_is_the_inverse(name: str) -> None:
    row, ins, analysis = ROWS[name][0], asked(cases()[name]), Analysis(convention="xla")
    reads = analysis.output_to_input(ins, row.output)[row.operand, 0]
    reaches = analysis.input_to_output(ins, row.operand)[row.output]
    there, back = ([a.map for a in some if a.map] for some in (reads, reaches))
    assert there
    assert prove_inverse(there, back).is_proved


def test_the_right_operand_of_a_dot_reaches_its_columns() -> None:
    """The document has `d1` where `d2` is meant."""
    (access,) = Analysis(convention="xla").input_to_output(asked(cases()[f"{D}::Dot::3"]), 1)[0]
    assert access.map is not None
    for at in ((0, 0, 0), (3, 255, 63), (1, 200, 17)):
        assert access.map.points(at) == {(at[0], row, at[2]) for row in range(128)}


def test_division_by_a_negative_number_bounds_the_right_way_round() -> None:
    """XLA takes `s0 / -3 in [-11, -5]` for `s0 in [15, 35]`; its test wants that."""
    (name,) = (name for name in SEPARATE if name.startswith("indexing_map_test"))
    m = IndexingMap.parse(cases()[name]["input"])
    true = [s for s in range(-99, 100) if -11 <= s // -3 <= -5]
    simple = m.simplify()
    assert (true[0], true[-1]) == (13, 33)
    assert simple.ranges[0].interval == Interval(13, 33)
    assert simple.equals(m)


def test_residues_are_kept_below_zero() -> None:
    """XLA snaps bounds to a residue by truncation, which loses -5 here."""
    m = IndexingMap.parse("(d0) -> (d0), domain: d0 in [-5, 10], d0 mod 6 in [1, 1]")
    simple = m.simplify()
    found = {at for at in range(-5, 11) if simple.points((at,))}
    assert found == {-5, 1, 7}


def test_residues_that_cannot_be_are_known_to_be_empty() -> None:
    """XLA keeps this map, as its intervals alone do not tell."""
    m = IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 99], d0 mod 8 in [45, 49]")
    assert m.simplify().is_known_empty
