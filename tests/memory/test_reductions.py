"""Reductions and transposes in memory order, and from which sizes on they have an emitter."""

from __future__ import annotations

from hloscope.hlo_parser import parse_hlo
from hloscope.memory.storage import PackedTile, ReductionShape, TransposeShape
from hloscope.support.devices import device_of
from tests.memory.test_emitters import ADD, kernel

ROWS, COLUMNS = True, False
SHAPES = {
    # A type and the reduced dimensions: rows are `[reduced, kept, reduced]`, columns
    # `[kept, reduced, kept]`.
    ("f32[7,100,128]", "0,2"): (ROWS, (7, 100, 128)),
    ("f32[7,100,128]", "2"): (ROWS, (1, 700, 128)),
    ("f32[7,100,128]", "1,2"): (ROWS, (1, 7, 12800)),
    ("f32[7,100,128]", "1"): (COLUMNS, (7, 100, 128)),
    ("f32[7,100,128]", "0"): (COLUMNS, (1, 7, 12800)),
    ("f32[7,100,128]", "0,1"): (COLUMNS, (1, 700, 128)),
    ("f32[2,3,5,7]", "1,2"): (COLUMNS, (2, 15, 7)),
    ("f32[2,3,5,7]", "0,3"): (ROWS, (2, 15, 7)),
    # The layout decides which dimension varies fastest.
    ("f32[7,100]{0,1}", "0"): (ROWS, (1, 100, 7)),
    ("f32[7,100]{0,1}", "1"): (COLUMNS, (1, 100, 7)),
    # One result is a single row; without reduced dimensions every element is kept.
    ("f32[7,100,128]", "0,1,2"): (ROWS, (1, 1, 89600)),
    ("f32[7,1,128]", "0,2"): (ROWS, (1, 1, 896)),
    ("f32[7,100,128]", ""): (COLUMNS, (1, 1, 89600)),
    ("f32[]", ""): (ROWS, (1, 1, 1)),
    ("f32[0,4]", "0"): (COLUMNS, (1, 0, 4)),
    # Neither the reduced nor the kept dimensions are consecutive.
    ("f32[2,3,5,7]", "0,2"): None,
    ("f32[2,3,5,7]", "1,3"): None,
    ("f32[2,3,5,7,11]", "0,2,4"): None,
}
WORTH_IT = {
    # A row has at least as many elements as a warp, or divides a warp.
    (ROWS, (1, 5, 0)): False,
    (ROWS, (1, 5, 1)): True,
    (ROWS, (1, 5, 2)): True,
    (ROWS, (1, 5, 3)): False,
    (ROWS, (1, 5, 16)): True,
    (ROWS, (1, 5, 17)): False,
    (ROWS, (1, 5, 31)): False,
    (ROWS, (1, 5, 32)): True,
    (ROWS, (1, 5, 33)): True,
    # The longer a column is, the fewer columns suffice: 32, 8, 3 and any number.
    (COLUMNS, (1, 31, 1000)): False,
    (COLUMNS, (1, 32, 31)): False,
    (COLUMNS, (1, 32, 32)): True,
    (COLUMNS, (1, 63, 31)): False,
    (COLUMNS, (1, 64, 7)): False,
    (COLUMNS, (1, 64, 8)): True,
    (COLUMNS, (1, 64, 31)): True,
    (COLUMNS, (1, 127, 7)): False,
    (COLUMNS, (1, 128, 2)): False,
    (COLUMNS, (1, 128, 3)): True,
    (COLUMNS, (1, 255, 2)): False,
    (COLUMNS, (1, 256, 1)): True,
    (COLUMNS, (1, 256, 2)): True,
}
"""Sizes on both sides of each limit, and whether XLA prefers the reduction emitter; warps of 32."""


def test_reductions_are_rows_or_columns_of_memory() -> None:
    for (type_, dimensions), expected in SHAPES.items():
        text = ADD.replace("{T}", "f32") + f"ENTRY e {{ p = {type_} parameter(0)"
        text += " z = f32[] constant(0) ROOT r = reduce(p, z),"
        text += f" dimensions={{{dimensions}}}, to_apply=add }}"
        found = ReductionShape.of(parse_hlo(text).entry.root)
        assert (found and (found.by_rows, found.sizes)) == expected, (type_, dimensions)
        if found is not None:
            first, middle, last = found.sizes
            assert found.kept == ((middle,) if found.by_rows else (first, last))


def test_short_rows_and_columns_have_no_reduction_emitter() -> None:
    device = device_of("h100")
    assert device.warp == 32
    found = {
        (rows, sizes): ReductionShape(rows, sizes).is_worth_it(device) for rows, sizes in WORTH_IT
    }
    assert found == WORTH_IT


def followed(sizes: str, kept: str, dimensions: str) -> str:
    """The emitter of a fusion that reduces an array and negates the result."""
    text = ADD.replace("{T}", "f32") + f"ENTRY e {{ p = f32[{sizes}] parameter(0)"
    text += f" z = f32[] constant(0) r = f32[{kept}] reduce(p, z), dimensions={{{dimensions}}},"
    return kernel(f"{text} to_apply=add ROOT n = f32[{kept}] negate(r) }}")[2].emitter


def alone(sizes: str, kept: str, dimensions: str) -> str:
    """The emitter of the reduction without an op behind it."""
    text = ADD.replace("{T}", "f32") + f"ENTRY e {{ p = f32[{sizes}] parameter(0)"
    text += f" z = f32[] constant(0) ROOT r = f32[{kept}] reduce(p, z),"
    return kernel(f"{text} dimensions={{{dimensions}}}, to_apply=add }}")[2].emitter


def test_an_op_behind_a_reduction_needs_one_block_for_each_result() -> None:
    """Larger reductions need atomic updates, so the result is not complete within the kernel."""
    limits = {
        ("8,4,64", "4", "0,2"): "reduction",
        ("9,4,64", "4", "0,2"): "loop",
        ("8,4,16384", "4", "0,2"): "reduction",
        ("8,4,16385", "4", "0,2"): "loop",
        ("4,16384", "4", "1"): "reduction",
        ("4,16385", "4", "1"): "loop",
        ("4096,64", "64", "0"): "reduction",
        ("4097,64", "64", "0"): "loop",
        ("9,4096,64", "9,64", "1"): "reduction",
        ("31,64", "64", "0"): "loop",
    }
    for program, emitter in limits.items():
        assert followed(*program) == emitter, program
        assert alone(*program) == ("loop" if program[0] == "31,64" else "reduction"), program


MINOR_MOVES, MINOR_STAYS = (1, 0), (1, 0, 2)
TILED = {
    # Both exchanged sizes are at least 16, or at least 8 with a product of at least 8192.
    ((16, 16), MINOR_MOVES, 32): True,
    ((15, 16), MINOR_MOVES, 32): False,
    ((16, 15), MINOR_MOVES, 32): False,
    ((8, 1024), MINOR_MOVES, 32): True,
    ((1024, 8), MINOR_MOVES, 32): True,
    ((8, 1023), MINOR_MOVES, 32): False,
    ((1023, 8), MINOR_MOVES, 32): False,
    ((7, 4096), MINOR_MOVES, 32): False,
    ((4096, 7), MINOR_MOVES, 32): False,
    # The fastest-varying dimension stays: at most 64 bits, with the smaller exchanged size at
    # least 128.
    ((4, 2, 2), MINOR_STAYS, 32): True,
    ((2, 4, 2), MINOR_STAYS, 32): True,
    ((64, 64, 3), MINOR_STAYS, 32): False,
    ((8, 9, 2), MINOR_STAYS, 8): True,
    ((7, 9, 2), MINOR_STAYS, 8): False,
    ((9, 7, 2), MINOR_STAYS, 8): False,
}
"""Sizes of the output, permutation and bits, and whether XLA transposes in shared memory."""


def test_small_transposes_are_not_tiled() -> None:
    found = {key: TransposeShape(*key).is_tiled for key in TILED}
    assert found == TILED


def test_elements_of_words_and_minor_dimensions_that_stay_have_no_packed_tile() -> None:
    assert PackedTile.of(TransposeShape((64, 96), MINOR_MOVES, 16)) is not None
    assert PackedTile.of(TransposeShape((64, 96), MINOR_MOVES, 32)) is None
    assert PackedTile.of(TransposeShape((64, 96), MINOR_MOVES, 64)) is None
    assert PackedTile.of(TransposeShape((64, 96, 4), MINOR_STAYS, 16)) is None
    # Ten words of two elements in each direction, and whole words.
    for size, is_packed in ((20, True), (22, True), (21, False), (18, False), (19, False)):
        for sizes in ((size, 64), (64, size)):
            found = PackedTile.of(TransposeShape(sizes, MINOR_MOVES, 16))
            assert (found is not None) == is_packed, sizes
