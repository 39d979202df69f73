"""Tiled kernels end to end: what every parameter's tiles hold is what the root's tile needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

import hloscope
from hloscope.affine import Dim, Range, Runtime, Var
from hloscope.errors import UnsupportedError
from hloscope.indexing import output_to_input
from hloscope.ir import Instruction
from hloscope.tiling import (
    DimensionKind,
    Fused,
    RegionInstruction,
    TilePrecision,
    TilingSpace,
    tiled_kernel,
)

_MAX = """
max { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT m = f32[] maximum(x, y) }
"""
KERNELS = {
    "softmax's shift": (
        """
        p = f32[6,10] parameter(0)
        c = f32[] constant(-inf)
        r = f32[6] reduce(p, c), dimensions={1}, to_apply=max
        b = f32[6,10] broadcast(r), dimensions={0}
        ROOT s = f32[6,10] subtract(p, b)
        """,
        [[2, 4, 3], [4, 16, 16], [1, 1, 1]],
        TilePrecision.EXACT,
    ),
    "a product with bias": (
        """
        p = f32[5,6] parameter(0)
        q = f32[6,4] parameter(1)
        v = f32[4] parameter(2)
        d = f32[5,4] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        b = f32[5,4] broadcast(v), dimensions={1}
        ROOT s = f32[5,4] add(d, b)
        """,
        [[2, 2, 2], [8, 8, 8], [3, 1, 4]],
        TilePrecision.EXACT,
    ),
    "a product of a product": (
        """
        p = f32[4,5] parameter(0)
        q = f32[5,6] parameter(1)
        v = f32[6,3] parameter(2)
        d = f32[4,6] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT e = f32[4,3] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        """,
        [[2, 2, 2, 2], [4, 3, 6, 5]],
        TilePrecision.EXACT,
    ),
    "pieces of a concatenation": (
        """
        p = f32[4,6] parameter(0)
        q = f32[4,3] parameter(1)
        c = f32[4,9] concatenate(p, q), dimensions={1}
        ROOT t = f32[9,4] transpose(c), dimensions={1,0}
        """,
        [[3, 2], [1, 4]],
        TilePrecision.EXACT,
    ),
    "reshapes": (
        """
        p = f32[4,6] parameter(0)
        r = f32[24] reshape(p)
        n = f32[24] negate(r)
        ROOT s = f32[2,2,6] reshape(n)
        """,
        [[1, 1, 6], [1, 2, 6], [1, 1, 3]],
        TilePrecision.EXACT,
    ),
    "a padded slice": (
        """
        p = f32[9,9] parameter(0)
        z = f32[] constant(0)
        s = f32[4,7] slice(p), slice={[1:9:2], [2:9]}
        ROOT d = f32[7,9] pad(s, z), padding=2_1x1_1
        """,
        [[2, 3], [7, 9]],
        TilePrecision.OVER,
    ),
    "transposed steps": (
        """
        p = f32[8,6] parameter(0)
        t = f32[6,8] transpose(p), dimensions={1,0}
        s = f32[6,4] slice(t), slice={[0:6], [0:8:2]}
        ROOT b = f32[6,3,4] broadcast(s), dimensions={0,2}
        """,
        [[4, 2, 3], [6, 1, 1]],
        TilePrecision.EXACT,
    ),
}
CASES = [
    pytest.param(body, sizes, worst, id=f"{name} {sizes}")
    for name, (body, every, worst) in KERNELS.items()
    for sizes in every
]


def _program(body: str) -> Instruction:
    """The body as a fusion of its parameters."""
    lines = [line.strip() for line in body.strip().splitlines()]
    inside = "\n  ".join(lines)
    root = lines[-1].split()[1:]
    given = [line for line in lines if " parameter(" in line]
    outside = "\n  ".join(f"{line.replace(' = ', '.1 = ')}" for line in given)
    names = ", ".join(line.split()[0] + ".1" for line in given)
    return hloscope.read(
        f"{_MAX}f {{\n  {inside}\n}}\nENTRY e {{\n  {outside}\n"
        f"  ROOT k = {root[2]} fusion({names}), kind=kLoop, calls=f\n}}"
    ).root.ir


def _ids(space: TilingSpace, kind: DimensionKind) -> Iterator[dict[Var, int]]:
    counts = [range(d.tiles) if d.kind is kind else (0,) for d in space.dimensions]
    for ids in product(*counts):
        yield {Dim(i): n for i, n in enumerate(ids) if space.dimensions[i].kind is kind}


def _needed(
    fused: Fused, root: Instruction, elements: set[tuple[int, ...]]
) -> dict[Instruction, set[tuple[int, ...]]]:
    """The elements of everything that some elements of the root depend on, op by op."""
    need: dict[Instruction, set[tuple[int, ...]]] = {root: elements}
    for ins in fused.users_first:
        for operand, accesses in zip(fused.operands(ins), output_to_input(ins), strict=True):
            found = need.setdefault(operand, set())
            for access in accesses:
                assert access.map is not None
                for at in need.get(ins, ()):
                    found |= access.map.points(at)
    return need


@pytest.mark.parametrize(("body", "sizes", "worst"), CASES)
def test_parameters_are_read_by_their_tiles_alone(
    body: str, sizes: list[int], worst: TilePrecision
) -> None:
    fused = Fused.of(_program(body))
    space = TilingSpace.of(fused)
    assert isinstance(space, TilingSpace)
    kernel = tiled_kernel(space.with_sizes(sizes))
    assert not kernel.refusals
    space = kernel.space
    (root,), (tile,) = fused.roots, space.root_tiles
    at: dict[Var, int]
    for at in _ids(space, DimensionKind.PARALLEL):
        need = _needed(fused, root, set(product(*tile.indices(at))))
        for parameter in {t.instruction for t in kernel} - fused.inside:
            mine = [t for t in kernel if t.instruction is parameter]
            said: set[tuple[int, ...]] = set()
            for step in _ids(space, DimensionKind.SEQUENTIAL):
                for tiled in mine:
                    said |= set(product(*tiled.tile.indices(at | step)))
            if all(t.fit is TilePrecision.EXACT for t in mine):
                assert said == need[parameter], (parameter, at)
            assert said >= need[parameter], (parameter, at)
    assert max((t.fit for t in kernel), key=[*TilePrecision].index) is worst


def test_rows_that_begin_before_their_first_element_take_none_of_the_row_before() -> None:
    root = _program("""
        p = f32[9] parameter(0)
        q = f32[3,2] parameter(1)
        n = f32[9] negate(p)
        r = f32[3,3] reshape(n)
        ROOT c = f32[3,5] concatenate(q, r), dimensions={1}
    """)
    space = TilingSpace.of(Fused.of(root))
    assert isinstance(space, TilingSpace)
    kernel = tiled_kernel(space.with_sizes([1, 5]), beyond_xla=True)
    (tiled,) = [t for t in kernel if t.instruction.name == "n"]
    assert [*tiled.tile.indices({Dim(0): 1, Dim(1): 0})[0]] == [1, 2, 3, 4, 5]  # 3 to 5 are needed
    assert tiled.fit is TilePrecision.OVER


def _printed(text: str) -> list[str]:
    return [line.split(" = ")[0].strip() for line in text.splitlines() if ".tile_" in line]


def test_a_tiling_prints_itself_and_tells_what_xla_refuses() -> None:
    program = hloscope.read(
        "ENTRY e { p = f32[6,8] parameter(0) r = f32[6,8] reverse(p), dimensions={1} "
        "ROOT n = f32[6,8] negate(r) }"
    )
    view = program["r"]
    refused = view.tiling_space([2, 3])
    assert [str(r.code) for r in refused.refusals] == ["INVALID_ARGUMENT"]
    assert "Refused:" in refused.text()
    more = view.tiling_space([2, 3], beyond_xla=True)
    assert not more.refusals
    assert "Possible, although XLA refuses:" in repr(more)
    assert _printed(more.text()) == ["p.tile_0", "r.tile_0"]
    told = more.to_json()
    assert told["schema"] == "hloscope.tile_space/1"
    assert [entry["name"] for entry in told["tiled"]] == ["p.tile_0", "r.tile_0"]
    assert told["tiled"][0]["offsets"] == ["tid_0 * 2", "tid_1 * -3 + 5"]


TWO = """
f {{ a = f32[4,6] parameter(0)
  n = f32[4,6] negate(a)
  s = f32[{0}] slice(n), slice={{[0:4], [0:{1}]}}
  ROOT t = (f32[4,6], f32[{0}]) tuple(n, s) }}
ENTRY e {{ a = f32[4,6] parameter(0)
  ROOT k = (f32[4,6], f32[{0}]) fusion(a), kind=kLoop, calls=f }}
"""


@pytest.mark.parametrize(
    ("last", "dimensions", "said"),
    [(6, 2, "its roots share their dimensions"), (5, 4, "each root has dimensions of its own")],
)
def test_several_roots_have_a_space_that_xla_refuses(last: int, dimensions: int, said: str) -> None:
    found = hloscope.read(TWO.format(f"4,{last}", last)).root.tiling_space()
    assert len(found.space.dimensions) == dimensions
    assert said in found.xla_refuses
    assert said in found.text()


def test_what_has_no_array_has_no_tiling_space() -> None:
    program = hloscope.read("ENTRY e { ROOT t = token[] after-all() }")
    with pytest.raises(UnsupportedError, match="a root of type token"):
        program.root.tiling_space()


@pytest.mark.parametrize("sizes", [[2], [2, 3, 4], [0, 2], [-1, 2], [2, 1 << 70]])
def test_sizes_that_do_not_fit_are_told(sizes: list[int]) -> None:
    program = hloscope.read("ENTRY e { ROOT p = f32[6,8] parameter(0) }")
    with pytest.raises(ValueError, match="dimension"):
        program.root.tiling_space(sizes)


def test_products_of_products_end_before_there_are_too_many() -> None:
    """Each product is needed twice, by other tiles, in a region of its own."""
    lines = ["d0 = f32[8,8] parameter(0)"]
    for i in range(1, 40):
        contract = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        head = "ROOT " if i == 39 else ""
        lines.append(f"{head}d{i} = f32[8,8] dot(d{i - 1}, d{i - 1}), {contract}")
    found = Fused.of(_program("\n".join(lines)))
    space = TilingSpace.of(found)
    assert isinstance(space, TilingSpace)
    kernel = tiled_kernel(space)
    assert [r.reason for r in kernel.refusals] == ["more than 8,192 tiled instructions"]


def test_deep_kernels_are_tiled_without_recursion() -> None:
    count = 3000
    lines = [
        "n0 = f32[8,8] parameter(0)",
        *[f"n{i} = f32[8,8] negate(n{i - 1})" for i in range(1, count)],
    ]
    lines[-1] = f"ROOT {lines[-1]}"
    space = TilingSpace.of(Fused.of(_program("\n".join(lines))))
    assert isinstance(space, TilingSpace)
    instructions: list[RegionInstruction] = [*tiled_kernel(space.with_sizes([4, 4]))]
    assert len(instructions) == count
    assert not any(v for v in instructions if v.tile.variables() & {Range(0), Runtime(0)})
