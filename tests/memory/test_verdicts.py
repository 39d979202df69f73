"""XLA's own verdicts: its map check and its heuristic, on small maps and programs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hloscope.affine import Dim, Expr, Interval, Range
from hloscope.hlo_parser import parse_hlo, parse_type
from hloscope.indexing import IndexingMap
from hloscope.memory import Launch, answers, by_heuristic
from hloscope.memory.answers import bank_use
from hloscope.memory.kernel import SharedAccess
from hloscope.memory.verdicts import by_map, transposes
from hloscope.support.devices import device_of

H100 = device_of("h100")

# --------------------------------------------------------------------------- the map check


def verdict(address: str, more: str = "", *, type: str = "f32[4096]", **ranges: str) -> bool:
    """XLA's verdict on an address.

    Args:
        address: Address as an expression of `th_x`, `bl_x`, and `s0`, `s1` or `rt0`.
        more: Constraints, as text.
        type: Type of the array.
        ranges: Ranges of variables, as text; those of `th_x` and `bl_x` are known otherwise.
    """
    dims = {"th_x": "0, 127", "th_y": "0, 0", "th_z": "0, 0", "bl_x": "0, 9", "bl_y": "0, 0",
            "bl_z": "0, 0"}  # fmt: skip
    loops = [name for name in ranges if name.startswith("s")]
    values = [name for name in ranges if name.startswith("rt")]
    heads = f"({', '.join(dims)})" + (f"[{', '.join(loops)}]" if loops else "")
    heads += f"{{{', '.join(values)}}}" if values else ""
    where = ", ".join(f"{name} in [{range}]" for name, range in {**dims, **ranges}.items())
    text = f"{heads} -> ({address}), domain: {where}{f', {more}' if more else ''}"
    return by_map(IndexingMap.parse(text), parse_type(type))  # type: ignore[arg-type]


def test_the_distance_of_lanes_decides() -> None:
    assert verdict("th_x")
    assert verdict("th_x + bl_x * 1000")
    assert verdict("th_x * -1 + 500")
    assert not verdict("th_x * 2")
    assert not verdict("th_x * -4 + 500")
    assert verdict("bl_x")  # each lane reads the same element


@pytest.mark.parametrize(
    ("last", "is_coalesced"), [(1, False), (2, False), (3, True), (4, True), (30, True)]
)
def test_a_loop_that_bridges_the_distance_of_lanes_makes_one_run(
    last: int, is_coalesced: bool
) -> None:
    assert verdict("th_x * 4 + s0", s0=f"0, {last}") is is_coalesced
    assert verdict("th_x * -4 + s0 + 500", s0=f"0, {last}") is is_coalesced
    assert verdict("th_x * 4 + s0", s0=f"7, {last + 7}") is is_coalesced
    assert not verdict("th_x * 4 + s0 * 2", s0=f"0, {last}")  # its elements are apart


def test_only_the_innermost_loop_counts() -> None:
    assert verdict("th_x * 4 + s1 + s0 * 1000", s0="2, 5", s1="0, 3")
    assert not verdict("th_x * 4 + s0 + s1 * 1000", s0="2, 5", s1="0, 3")
    assert verdict("th_x + s0 * 1000", s0="0, 3")


def test_lanes_that_share_elements_are_joined_to_runs() -> None:
    assert verdict("th_x floordiv 2")  # 16 elements: half a transaction
    assert not verdict("th_x mod 2 * 1000")
    halves = "th_x floordiv 16 * 1000 + th_x mod 16"
    assert not verdict(halves)  # two runs of 64 bytes, which one transaction could hold
    assert verdict(halves, type="f64[4096]")  # two runs of 128 bytes
    assert verdict("th_x mod 2 * 2 + s0", s0="0, 1")  # the loop joins elements 0, 1 and 2, 3
    assert verdict("th_x floordiv 8 * 2 + s0", s0="0, 2")  # runs overlap


def test_a_term_of_lane_and_loop_is_not_coalesced() -> None:
    assert not verdict("(th_x + s0) floordiv 2", s0="0, 2")


def test_constraints_on_the_address_are_allowed() -> None:
    assert verdict("th_x * 4 + s0", "th_x * 4 + s0 in [0, 100]", s0="0, 3")
    assert not verdict("th_x * 4 + s0", "th_x * 3 + s0 in [0, 90]", s0="0, 3")
    two = "th_x * 4 + s0 in [0, 100], th_x * 3 + s0 in [0, 90]"
    assert not verdict("th_x * 4 + s0", two, s0="0, 3")
    # With more than one loop, constraints are dropped.
    assert verdict("th_x * 4 + s1 + s0 * 1000", "th_x * 3 + s1 in [0, 90]", s0="2, 5", s1="0, 3")


def test_what_the_first_warp_does_not_read_is_coalesced() -> None:
    assert verdict("th_x * 2", th_x="32, 127")
    assert not verdict("th_x mod 8 * 2", th_x="24, 127")
    assert not verdict("th_x * 2", th_x="0, 31")
    assert verdict("th_x * 2 + bl_x", bl_x="1, 9")  # the first block takes no part
    assert not verdict("th_x * 2 + bl_x", bl_x="-1, 9")


def test_run_time_values_are_at_their_middle() -> None:
    assert verdict("th_x + rt0", rt0="0, 9")
    assert not verdict("th_x * 2 + rt0", rt0="0, 9")


def test_scalars_are_coalesced_and_undefined_maps_are_not() -> None:
    assert verdict("th_x * 2", type="f32[]")
    undefined = IndexingMap.undefined()
    assert undefined.is_undefined
    assert not by_map(undefined, parse_type("f32[]"))  # type: ignore[arg-type]
    assert not by_map(undefined, parse_type("f32[8]"))  # type: ignore[arg-type]


# --------------------------------------------------------------------------- the heuristic

COUNTED = [
    ("transpose(p), dimensions={1,0}", "f32[8,4]", True),
    ("transpose(p), dimensions={0,1}", "f32[4,8]", False),
    ("copy(p)", "f32[4,8]{1,0}", False),
    ("copy(p)", "f32[4,8]{0,1}", True),
    ("negate(p)", "f32[4,8]{0,1}", False),
]


@pytest.mark.parametrize(("op", "type", "counts"), COUNTED)
def test_transposes_and_copies_of_the_fastest_dimension_count(
    op: str, type: str, counts: bool
) -> None:
    body = f"p = f32[4,8] parameter(0) ROOT r = {type} {op} }}"
    assert transposes(parse_hlo(f"ENTRY e {{ {body}").entry.root) is counts
    fused = f"f {{ {body} ENTRY e {{ p = f32[4,8] parameter(0) "
    fused += f"ROOT c = {type} fusion(p), kind=kLoop, calls=f }}"
    assert transposes(parse_hlo(fused).entry.root) is counts


@pytest.mark.parametrize(
    ("shape", "dimensions", "result", "counts"),
    [
        ("4,5,8", "1,0,2", "5,4,8", False),
        ("4,5,8", "2,1,0", "8,5,4", True),
        ("4,8,1", "0,2,1", "4,1,8", False),  # the fastest dimension is that of 8
        ("4,8,1", "1,0,2", "8,4,1", True),
        ("1,1,1", "2,1,0", "1,1,1", False),
        ("1,1,8", "0,2,1", "1,8,1", False),
    ],
)
def test_dimensions_of_one_element_do_not_count(
    shape: str, dimensions: str, result: str, counts: bool
) -> None:
    text = f"ENTRY e {{ p = f32[{shape}] parameter(0) "
    text += f"ROOT r = f32[{result}] transpose(p), dimensions={{{dimensions}}} }}"
    assert transposes(parse_hlo(text).entry.root) is counts


SPREAD = {
    "b = f32[4,8] broadcast(q), dimensions={0}": False,
    "b = f32[4,8] iota(), iota_dimension=0": False,
    "i = f32[4,8] iota(), iota_dimension=0 b = f32[4,8] negate(i)": False,
    "i = f32[32] iota(), iota_dimension=0 b = f32[4,8] bitcast(i)": False,
    "i = f32[32] iota(), iota_dimension=0 b = f32[4,8] reshape(i)": True,
    "i = f32[4,8] iota(), iota_dimension=0 b = f32[4,8] add(i, i)": True,
    "b = f32[4,8] negate(p)": True,
}


@pytest.mark.parametrize(("value", "counts"), SPREAD.items(), ids=SPREAD)
def test_transposes_of_broadcasts_and_iotas_do_not_count(value: str, counts: bool) -> None:
    text = f"ENTRY e {{ p = f32[4,8] parameter(0) q = f32[4] parameter(1) {value} "
    text += "ROOT r = f32[8,4] transpose(b), dimensions={1,0} }"
    root = parse_hlo(text).entry.root
    assert transposes(root) is counts
    for emitter in ("loop", "transpose"):  # the transpose emitter reads in its own order
        expected = not counts or emitter == "transpose"
        assert by_heuristic(emitter, root, None, H100) is expected
        assert by_heuristic(emitter, root.operands[0], root, H100) is expected


def test_a_reduction_fused_into_a_reduction_is_not_coalesced() -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { p = f32[8,64,512] parameter(0) z = f32[] constant(0)
      n = f32[8,64,512] negate(p)
      r = f32[8,64] reduce(n, z), dimensions={2}, to_apply=add
      ROOT s = f32[8] reduce(r, z), dimensions={1}, to_apply=add }"""
    root = parse_hlo(text).entry.root
    row = root.operands[0]
    assert not by_heuristic("reduction", row, root, H100)
    assert by_heuristic("reduction", row, None, H100)
    assert by_heuristic("loop", row, root, H100)
    assert by_heuristic("reduction", row.operands[0], row, H100)
    assert by_heuristic("reduction", row, row.operands[0], H100)


# --------------------------------------------------------------------------- bank conflicts


@pytest.mark.parametrize(
    ("constraint", "active"),
    [
        ((Dim(0), Interval(0, 31)), range(32)),
        ((Dim(0), Interval(3, 7)), range(3, 8)),
        ((Dim(0), Interval(5, 5)), [5]),
        ((Dim(0) % 8, Interval(2, 4)), [k for k in range(32) if 2 <= k % 8 <= 4]),
        ((Dim(0) % 8, Interval(0, 0)), [0, 8, 16, 24]),
        ((Dim(0), Interval(40, 50)), []),
    ],
)
def test_lanes_within_the_constraints_take_part(
    constraint: tuple[Expr, Interval], active: Sequence[int]
) -> None:
    """All lanes read a column of 32 words, which lies in one bank."""
    column = Launch.of(32, 1).map((), [Dim(0), 0]).add_constraint(*constraint)
    found = bank_use(SharedAccess("read", column, (32, 32), 32), Launch.of(32, 1), H100)
    assert found.most == len(active)
    assert found.requests == bool(active)
    if active:
        assert [k for k, word in enumerate(found.worst) if word is not None] == [*active]
        assert [word for word in found.worst if word is not None] == [32 * k for k in active]


@pytest.mark.parametrize(
    ("bits", "width", "requests", "most"),
    [(8, 4, 1, 1), (8, 128, 1, 32), (32, 33, 1, 1), (32, 2, 1, 2), (64, 16, 2, 16), (64, 1, 2, 1)],
)
def test_banks_serve_words_of_four_bytes(bits: int, width: int, requests: int, most: int) -> None:
    """Lanes read a column; of 8-byte elements, half a warp at a time."""
    column = Launch.of(32, 1).map((), [Dim(0), 0])
    found = bank_use(SharedAccess("read", column, (32, width), bits), Launch.of(32, 1), H100)
    assert (found.requests, found.most, found.mean) == (requests, most, most)
    assert found.bytes == 32 * width * bits // 8


@pytest.mark.parametrize(("most", "requests", "is_exact"), [(7, 7, False), (8, 8, True)])
def test_no_more_requests_than_the_limit_are_evaluated(
    most: int, requests: int, is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two warps issue one request in each of four iterations."""
    monkeypatch.setattr(answers, "MOST_REQUESTS", most)
    launch = Launch.of(64, 1)
    rows = launch.map((4,), [Dim(0) * Range(0)])
    found = bank_use(SharedAccess("read", rows, (64 * 4,), 32), launch, H100)
    assert (found.requests, found.is_exact) == (requests, is_exact)
