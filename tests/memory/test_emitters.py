"""Thread maps of emitters: bijections where XLA's tests say so, and XLA's own printed maps."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, Final

import pytest

from hloscope.affine import Dim, Interval
from hloscope.errors import UnsupportedError
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap, prove_injective
from hloscope.ir import Instruction, TensorType
from hloscope.memory import Choice, Fused, Kernel, kernel_of
from hloscope.memory.emitting import EMITTERS
from hloscope.ops import Fusion
from hloscope.simplifier import Verdict
from hloscope.support.devices import device_of
from tests.conftest import SHARED, needs_shared

ADD = "add { a = {T}[] parameter(0) b = {T}[] parameter(1) ROOT c = {T}[] add(a, b) } "


def kernel(text: str, device: str = "h100") -> tuple[Kernel, Fused, Choice]:
    """The kernel of the fusion at the end of a program, or of its entry computation."""
    module = parse_hlo(text)
    root = module.entry.root
    inside = root.calls[0] if isinstance(root.op, Fusion) else module.entry
    fused = Fused.of_computation(inside)
    choice = Choice(fused, device_of(device), Analysis())
    return kernel_of(choice), fused, choice


def is_bijection(map: IndexingMap, type: TensorType) -> bool:
    """Is every element touched by one thread at one step of its loops?  Proved by isl."""
    all_dims = map.ranges_to_dims(range(len(map.ranges)))
    is_injective = prove_injective([all_dims]).verdict == Verdict.PROVED
    return is_injective and all_dims.card() == prod(type.shape)


def cases(name: str) -> list[Any]:
    path = SHARED / "conformance/xla" / name
    if not path.exists():
        return []
    found = json.loads(path.read_text())["cases"]
    return [pytest.param(case, id=case["id"].rpartition("tests/")[2]) for case in found]


@needs_shared
@pytest.mark.parametrize("case", cases("hlo_bijection.json"))
def test_threads_touch_every_element_once_where_xla_says_so(case: dict[str, Any]) -> None:
    found, fused, choice = kernel(case["hlo"], "a6000")
    asked = 0
    for wanted in case["expected"]["inputs_read_once"]:
        [hero] = dict.fromkeys(
            [k for k, h in enumerate(found.heroes) if h.name == wanted["hero"]][:1]
        )
        for operand in wanted["operands"]:
            type = found.heroes[hero].operands[operand].type
            assert isinstance(type, TensorType)
            assert is_bijection(found.inputs[hero, operand], type)
            asked += 1
    for name in case["expected"]["outputs_written_once"]:
        number = next(
            k
            for k, (root, hero) in enumerate(zip(fused.roots, found.heroes, strict=True))
            if name in (root.name, hero.name)
        )
        output_type = choice.array(number)
        maps = found.outputs[number]
        assert output_type is not None
        assert maps is not None
        assert is_bijection(maps[0], output_type)
        asked += 1
    assert asked


# ------------------------------------------------------------------- maps that XLA printed


@cache
def _fusions(model: str) -> tuple[Analysis, dict[str, Instruction]] | None:
    path = SHARED / "real/models" / f"{model}.gpu.opt.hlo.txt"
    if not path.exists():
        return None
    module = parse_hlo(path.read_text())
    named = {
        re.sub(r"[.-]", "_", ins.name): ins
        for computation in module
        for ins in computation
        if isinstance(ins.op, Fusion)
    }
    return Analysis(), named


@cache
def _kernel_of_model(model: str, name: str) -> Kernel | str:
    known = _fusions(model)
    if known is None:
        return "not among the models"
    if name not in known[1]:
        return "made by XLA:CPU" if name.endswith("_kernel_module") else "no such fusion"
    fused = Fused.of_instruction(known[1][name])
    return kernel_of(Choice(fused, device_of("h100"), known[0]))


def _maps(found: Kernel) -> Iterator[IndexingMap]:
    yield from found.inputs.values()
    for maps in found.outputs:
        yield from maps or ()
    if found.tile is not None:
        yield found.tile
    yield from [shared.map for shared in found.shared]
    yield from [reading.map for reading in found.readings]


def _on_grid(map: IndexingMap, found: Kernel) -> IndexingMap:
    """The map on the blocks that are launched: XLA prints one group too many for loops."""
    assert found.launch is not None
    for k, size in enumerate((*found.launch.threads, *found.launch.blocks)):
        map = map.add_constraint(Dim(k), Interval(0, size - 1))
    return map


def _is_told(printed: IndexingMap, found: Kernel) -> bool:
    """Is the printed map one of the kernel's, one result of it, or a condition of it?"""
    printed = _on_grid(printed, found)
    for map in _maps(found):
        if len(map.results) == len(printed.results) and printed.equals(_on_grid(map, found)):
            return True
        if len(printed.results) != 1 or len(map.ranges) != len(printed.ranges):
            continue
        parts = [*map.results, *[e for e, _ in map.constraints]]
        inside = printed.with_(constraints=[*printed.constraints, *map.constraints])
        if any(inside.equals(map.with_(results=[part])) for part in parts):
            return True
    return False


SAME: Final = "same"
NO_THREADS: Final = "leads from an element, not from a thread"
NOT_HERE: Final = {"not among the models", "made by XLA:CPU"}
"""Why a map that XLA printed cannot be compared: its program, or its fusion, is not at hand."""


def compared_maps() -> Counter[str]:
    """What became of each map that XLA printed: the same, or why not."""
    told: Counter[str] = Counter()
    for entry in json.loads((SHARED / "real/xla_emitter_maps.json").read_text())["maps"]:
        text = entry["map"].replace(
            "(d0, d1, d2, d3, d4, d5)", "(th_x, th_y, th_z, bl_x, bl_y, bl_z)"
        )
        if not text.startswith("(th_x, th_y"):
            told[NO_THREADS] += 1
            continue
        if text != entry["map"]:
            for k, name in enumerate(("th_x", "th_y", "th_z", "bl_x", "bl_y", "bl_z")):
                text = re.sub(rf"\bd{k}\b", name, text)
        kernels = [_kernel_of_model(*where) for where in entry["where"]]
        made = [k for k in kernels if isinstance(k, Kernel)]
        if not made:
            told["; ".join(sorted({str(k) for k in kernels}))] += 1
            continue
        printed = IndexingMap.parse(text)
        is_same = any(_is_told(printed, k) for k in made)
        told[SAME if is_same else f"{entry['where']}: {entry['map']}"] += 1
    return told


@pytest.mark.slow
@needs_shared
def test_thread_maps_are_those_that_xla_prints() -> None:
    told = compared_maps()
    assert told[SAME] >= 100
    others = {reason for reasons in told for reason in reasons.split("; ")} - {SAME, NO_THREADS}
    assert others <= NOT_HERE


# --------------------------------------------------------------------------- our own cases

ROW = "ENTRY e { p = {T}[{S}] parameter(0) z = {T}[] constant(0) ROOT r = {T}[{K}] reduce(p, z), dimensions={{D}}, to_apply=add }"  # noqa: E501


def reduce_text(type: str, sizes: str, kept: str, dims: str) -> str:
    text = ADD.replace("{T}", type) + ROW.replace("{T}", type)
    return text.replace("{S}", sizes).replace("{K}", kept).replace("{D}", dims)


CHOSEN: Final = [
    ("ENTRY e { p = f32[1000] parameter(0) ROOT n = f32[1000] negate(p) }",
     "loop", "128 threads × 8 blocks"),
    ("ENTRY e { p = f32[4,1048576] parameter(0) ROOT n = f32[4,1048576] negate(p) }",
     "loop", "128 threads × 8192 blocks"),
    (reduce_text("f32", "100,4096", "100", "1"), "row reduction", "256 threads × 100 blocks"),
    (reduce_text("f32", "4096,16", "4096", "1"),
     "multi-row reduction", "256 threads × 256 blocks"),
    (reduce_text("f32", "512,300", "300", "0"),
     "column reduction", "1024 threads × 5 blocks"),
    (reduce_text("f32", "512,8", "8", "0"), "small column reduction", "128 threads × 1 blocks"),
    (reduce_text("f32", "10,300", "300", "0"), "loop", "128 threads × 3 blocks"),
    ("ENTRY e { p = f32[64,96] parameter(0) "
     "ROOT t = f32[96,64] transpose(p), dimensions={1,0} }",
     "transpose", "128 threads × 6 blocks"),
    ("ENTRY e { p = bf16[64,96] parameter(0) "
     "ROOT t = bf16[96,64] transpose(p), dimensions={1,0} }",
     "packed transpose", "128 threads × 2 blocks"),
    ("ENTRY e { p = f32[64,3] parameter(0) "
     "ROOT t = f32[3,64] transpose(p), dimensions={1,0} }",
     "loop", "128 threads × 2 blocks"),
    ("ENTRY e { p = f32[64,32,2] parameter(0) "
     "ROOT t = f32[32,64,2] transpose(p), dimensions={1,0,2} }",
     "transpose", "128 threads × 2 blocks"),
    ("ENTRY e { p = f32[8,16] parameter(0) q = f32[8,48] parameter(1) "
     "ROOT c = f32[8,64] concatenate(p, q), dimensions={1} }",
     "concatenate", "128 threads × 3 blocks"),
    (ADD.replace("{T}", "f32") + "ENTRY e { p = f32[4096] parameter(0) "
     "i = s32[1024,1] parameter(1) u = f32[1024] parameter(2) "
     "ROOT s = f32[4096] scatter(p, i, u), update_window_dims={}, "
     "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
     "to_apply=add }",
     "scatter", "128 threads × 8 blocks"),
]  # fmt: skip
"""Programs, the emitter of each, and its launch dimensions: at least one for every emitter."""


def test_every_emitter_has_a_program() -> None:
    chosen = {kernel(text)[2].emitter for text, _, _ in CHOSEN}
    assert chosen == set(EMITTERS), "a new emitter needs a row in CHOSEN"


@pytest.mark.parametrize(
    ("text", "emitter", "launch"),
    CHOSEN,
    ids=lambda value: value if len(value) < 40 else None,
)
def test_emitters_and_launch_dimensions(text: str, emitter: str, launch: str) -> None:
    found, _, choice = kernel(text)
    assert (found.emitter, str(found.launch)) == (emitter, launch)
    type = choice.array(0)
    maps = found.outputs[0]
    assert type is not None
    assert maps is not None
    if len(maps) == 1 and not maps[0].runtime:  # indices decide where a scatter writes
        assert is_bijection(maps[0], type)
    for (hero, number), map in found.inputs.items():
        operand = found.heroes[hero].operands[number].type
        assert isinstance(operand, TensorType)
        if emitter != "loop":
            assert is_bijection(map, operand)


def test_maps_have_the_names_of_xla() -> None:
    found, _, _ = kernel("ENTRY e { p = f32[40] parameter(0) ROOT n = f32[40] negate(p) }")
    assert found.outputs[0] is not None
    assert str(found.outputs[0][0]).startswith("(th_x, th_y, th_z, bl_x, bl_y, bl_z) -> (th_x)")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ENTRY e { p = f32[4] parameter(0) ROOT c = f32[4] custom-call(p), "
         'custom_call_target="f" }', "custom call"),
        ("ENTRY e { ROOT p = f32[4] parameter(0) }", "not a kernel"),
    ],
)  # fmt: skip
def test_what_has_no_kernel_is_refused(text: str, reason: str) -> None:
    root = parse_hlo(text).entry.root
    with pytest.raises(UnsupportedError, match=reason):
        kernel_of(Choice(Fused.of_instruction(root), device_of("h100"), Analysis()))


def test_zero_sized_kernels_touch_nothing() -> None:
    for text in (
        "ENTRY e { p = f32[0,8] parameter(0) ROOT n = f32[0,8] negate(p) }",
        reduce_text("f32", "8,0", "8", "1"),
        "ENTRY e { p = f32[0,8] parameter(0) ROOT t = f32[8,0] transpose(p), dimensions={1,0} }",
    ):
        found, _, _ = kernel(text)
        assert found.launch is not None


def program(body: str) -> str:
    """A program with a computation `add`, a comparison `less`, and a computation of two sums."""
    pairs = "a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2)"
    pairs += " d = f32[] parameter(3) e = f32[] add(a, c) f = f32[] add(b, d)"
    less = "a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b)"
    return (
        f"{ADD.replace('{T}', 'f32')} less {{ {less}, direction=LT }}"
        f" both {{ {pairs} ROOT t = (f32[], f32[]) tuple(e, f) }} ENTRY e {{ {body} }}"
    )


def joined(count: int) -> str:
    """A concatenation of so many arrays."""
    given = " ".join(f"p{k} = f32[8] parameter({k})" for k in range(count))
    names = ", ".join(f"p{k}" for k in range(count))
    return f"{given} ROOT r = f32[{8 * count}] concatenate({names}), dimensions={{0}}"


IMAGE = "p = f32[64,64] parameter(0) z = f32[] constant(0)"
PREVENTS: Final = {
    "p = f32[8] parameter(0) ROOT r = f32[8] negate(p)": False,
    f"{IMAGE} ROOT r = f32[63,61] reduce-window(p, z), window={{size=2x4}}, to_apply=add": False,
    f"{IMAGE} ROOT r = f32[62,62] reduce-window(p, z), window={{size=3x3}}, to_apply=add": True,
    "p = f32[8] parameter(0) ROOT r = f32[8] sort(p), dimensions={0}, to_apply=less": True,
    "p = f32[8,8] parameter(0) ROOT r = f32[8,8] dot(p, p), lhs_contracting_dims={1},"
    " rhs_contracting_dims={0}": True,
    joined(10): False,
    joined(11): True,
    f"{IMAGE} ROOT r = f32[64] reduce(p, z), dimensions={{1}}, to_apply=add": False,
    f"{IMAGE} ROOT r = (f32[64], f32[64]) reduce(p, p, z, z), dimensions={{1}},"
    " to_apply=both": True,
}


def test_instructions_of_many_registers_prevent_vectors() -> None:
    for body, is_prevented in PREVENTS.items():
        choice = kernel(program(body))[2]
        assert choice.prevents_vectors is is_prevented, body
        assert choice.unroll(1 << 20) == (1 if is_prevented else 4), body


@pytest.mark.parametrize(
    ("device", "source", "target", "elements", "unroll"),
    [
        ("h100", "f32", "f32", 1 << 20, 4),
        ("h100", "f32", "f32", 270_336, 4),  # as many elements as threads
        ("h100", "f32", "f32", 270_335, 1),
        ("h100", "f32", "f32", 270_338, 2),
        ("h100", "s8", "s8", 1 << 20, 4),
        ("b200", "f32", "f32", 1 << 20, 8),
        ("b200", "f32", "f64", 1 << 20, 4),
        ("b200", "f32", "f32", 1000, 1),
    ],
)
def test_a_thread_computes_several_elements_of_a_large_array(
    device: str, source: str, target: str, elements: int, unroll: int
) -> None:
    check_unroll(device, source, target, elements, unroll)


@pytest.mark.parametrize(
    ("type", "elements", "unroll"),
    [("s2", 1000, 4), ("s4", 1000, 2), ("s8", 1000, 1), ("s4", 1 << 20, 4), ("s4", 270_337, 2)],
)
def test_a_thread_stores_whole_bytes(type: str, elements: int, unroll: int) -> None:
    check_unroll("h100", type, type, elements, unroll)


def check_unroll(device: str, source: str, target: str, elements: int, unroll: int) -> None:
    text = f"ENTRY e {{ p = {source}[{elements}] parameter(0)"
    op = "convert" if source != target else "negate"
    choice = kernel(f"{text} ROOT r = {target}[{elements}] {op}(p) }}", device)[2]
    assert choice.unroll(elements) == unroll
