"""Values that share a buffer, results in place of operands: a program for each row."""

from __future__ import annotations

from itertools import product
from typing import Final, NamedTuple

import pytest
from hypothesis import given, strategies as st

from hloscope.cost.buffers import (
    BACKEND_ROWS,
    IN_PLACE,
    MAY_SHARE,
    MUST_SHARE,
    Buffer,
    ProgramMemory,
    in_place,
    placed_results,
)
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Bytes
from hloscope.ops import OPS
from tests.cost.buffers.programs import (
    GPU_MARK,
    answer_of,
    buffer_with,
    memory_of,
    names,
    placed,
    scheduled,
)
from tests.cost.buffers.test_dataflow import BRANCHES, CHOICE, loop

P: Final = "p = f32[8]{0} parameter(0)\n"
U: Final = "u = f32[2]{0} parameter(1)\ni = s32[] parameter(2)\n"
ADD: Final = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
SCATTER: Final = (
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
    " index_vector_dim=1, to_apply=add"
)
UPDATE: Final = "dynamic-update-slice(a, b, c)"


class Case(NamedTuple):
    """The last instruction of a program, the pairs it updates in place, and its opcode."""

    opcode: str
    body: str
    pairs: str
    before: str = ""


IN_PLACE_CASES: Final = (
    Case("dynamic_update_slice", P + U + "ROOT r = f32[8]{0} dynamic-update-slice(p, u, i)", "0->"),
    Case(
        "scatter",
        P + "j = s32[2,1]{1,0} parameter(1)\nv = f32[2]{0} parameter(2)\n"
        f"ROOT r = f32[8]{{0}} scatter(p, j, v), {SCATTER}",
        "0->",
        ADD,
    ),
    Case(
        "scatter",
        P
        + "q = f32[8]{0} parameter(3)\nj = s32[2,1]{1,0} parameter(1)\nv = f32[2]{0} parameter(2)\n"
        "ROOT r = (f32[8]{0}, f32[8]{0}) scatter(p, q, j, v, v),"
        f" {SCATTER.replace('=add', '=both')}",
        "0->0 1->1",
        "both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) "
        "d = f32[] parameter(3) ROOT t = (f32[], f32[]) tuple(c, d) }",
    ),
    Case(
        "set_dimension_size",
        P + "s = s32[] parameter(1)\nROOT r = f32[<=8]{0} set-dimension-size(p, s), dimensions={0}",
        "0->",
    ),
    Case(
        "ragged_all_to_all",
        P + "o = f32[8]{0} parameter(1)\ns = s32[2]{0} parameter(2)\n"
        "ROOT r = f32[8]{0} ragged-all-to-all(p, o, s, s, s, s), replica_groups={{0,1}}",
        "1->",
    ),
    Case(
        "collective_permute",
        P + "o = f32[8]{0} parameter(1)\ns = s32[] parameter(2)\n"
        "ROOT r = f32[8]{0} collective-permute(p, o, s, s), source_target_pairs={{0,1}}",
        "1->",
    ),
    Case(
        "collective_permute",
        P + "ROOT r = f32[8]{0} collective-permute(p), source_target_pairs={{0,1}}",
        "",
    ),
    Case(
        "async_start",
        P + "o = f32[8]{0} parameter(1)\ns = s32[] parameter(2)\n"
        "ROOT r = (f32[8]{0}, f32[8]{0}) collective-permute-start(p, o, s, s),"
        " source_target_pairs={{0,1}}",
        "1->1",
    ),
    Case("async_start", P + "ROOT r = f32[8]{0} all-reduce-start(p), to_apply=add", "0->", ADD),
    Case(
        "async_start",
        P + "q = f32[8]{0} parameter(1)\n"
        "ROOT r = (f32[8]{0}, f32[8]{0}) all-reduce-start(p, q), to_apply=add",
        "0->0 1->1",
        ADD,
    ),
    Case(
        "async_start",
        P + "ROOT r = f32[8]{0} all-reduce-start(p), to_apply=add,"
        ' backend_config={"collective_backend_config":{"backend":"NVSHMEM"}}',
        "",
        ADD,
    ),
    Case(
        "custom_call",
        P + 'ROOT r = (f32[8]{0}, u8[4]{0}) custom-call(p), custom_call_target="t",'
        " output_to_operand_aliasing={{0}: (0, {})}",
        "0->0",
    ),
    Case("custom_call", P + 'ROOT r = f32[8]{0} custom-call(p), custom_call_target="t"', ""),
    Case(
        "fusion",
        P + U + "ROOT r = f32[8]{0} fusion(p, u, i), kind=kLoop, calls=f",
        "0->",
        f"f {{ a = f32[8]{{0}} parameter(0) b = f32[2]{{0}} parameter(1) c = s32[] parameter(2) "
        f"ROOT d = f32[8]{{0}} {UPDATE} }}",
    ),
    Case(
        "fusion",
        P + U + "ROOT r = (f32[2]{0}, f32[8]{0}) fusion(p, u, i), kind=kLoop, calls=f",
        "0->1",
        f"f {{ a = f32[8]{{0}} parameter(0) b = f32[2]{{0}} parameter(1) c = s32[] parameter(2) "
        f"d = f32[8]{{0}} {UPDATE} n = f32[2]{{0}} negate(b) "
        "ROOT t = (f32[2]{0}, f32[8]{0}) tuple(n, d) }",
    ),
    Case(
        "fusion",
        P + U + "ROOT r = f32[8]{0} fusion(p, u, i), kind=kLoop, calls=f",
        "0->",
        "f { q = f32[8]{0} parameter(0) a = f32[8]{0} bitcast(q) b = f32[2]{0} parameter(1) "
        f"c = s32[] parameter(2) d = f32[8]{{0}} {UPDATE} ROOT e = f32[8]{{0}} bitcast(d) }}",
    ),
    Case(
        "fusion",
        P + U + "ROOT r = f32[8]{0} fusion(p, u, i), kind=kLoop, calls=f",
        "",
        "f { q = f32[8]{0} parameter(0) a = f32[8]{0} negate(q) b = f32[2]{0} parameter(1) "
        f"c = s32[] parameter(2) ROOT d = f32[8]{{0}} {UPDATE} }}",
    ),
)


@pytest.mark.parametrize("case", IN_PLACE_CASES, ids=lambda case: f"{case.opcode} {case.pairs}")
def test_results_that_stand_in_the_memory_of_an_operand(case: Case) -> None:
    root = parse_hlo(scheduled(case.body, before=case.before)).entry.root
    found = [f"{one.operand}->{','.join(map(str, one.output))}" for one in in_place(root)]
    assert found == case.pairs.split()


def test_every_row_of_updates_has_a_case() -> None:
    known = {OPS[case.opcode] for case in IN_PLACE_CASES if case.pairs}
    assert known == {op for row in IN_PLACE for op in row.ops}


def test_an_updated_operand_and_the_result_are_one_buffer() -> None:
    memory = memory_of(
        scheduled(
            P + U + "c = f32[8]{0} negate(p)\nROOT r = f32[8]{0} dynamic-update-slice(c, u, i)"
        )
    )
    assert names(buffer_with(memory, "r")) == {"c", "r"}


# ---------------------------------------------------------------------------------- must share

SHARED: Final = {
    "donation": (
        scheduled(P + "ROOT n = f32[8]{0} negate(p)",
                  header=", input_output_alias={ {}: (0, {}, may-alias) }"),
        "p", {"p", "n"},
    ),
    "loop": (loop("x, v", "v = f32[8]{0} negate(y)"), "v", {"q", "t{2}", "u{2}", "v", "w{2}"}),
    "branches": (
        scheduled(CHOICE, before=BRANCHES.format(first="negate", second="sine")),
        "c", {"c", "m", "n"},
    ),
    "in place": (
        scheduled(P + U + "c = f32[8]{0} negate(p)\n"
                  "ROOT r = f32[8]{0} dynamic-update-slice(c, u, i)"),
        "r", {"c", "r"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", [row.name for row in MUST_SHARE])
def test_values_share_a_buffer(reason: str) -> None:
    text, name, expected = SHARED[reason]
    assert names(buffer_with(memory_of(text), name)) == expected


# ----------------------------------------------------------------------------------- may share


class Reuse(NamedTuple):
    """A program in which `r` begins where `n` ends, and whether it may stand in its place."""

    opcode: str
    last: str
    is_allowed: bool
    before: str = ""
    first: str = "n = f32[8]{0} negate(p)"


def fusion(kind: str, body: str, last: str = "ROOT r = f32[8]{0} fusion(n)") -> tuple[str, str]:
    return f"{last}, kind={kind}, calls=f", f"f {{ a = f32[8]{{0}} parameter(0) {body} }}"


def fused(kind: str, body: str, is_allowed: bool) -> Reuse:
    last, before = fusion(kind, body)
    return Reuse("fusion", last, is_allowed, before)


PRODUCT: Final = """f {{ a = f32[8,8]{{1,0}} parameter(0) b = f32[8,8]{{1,0}} parameter(1)
d = f32[8,8]{{1,0}} dot(b, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
ROOT s = f32[8,8]{{1,0}} add({order}) }}"""
SQUARE: Final = "q = f32[8,8]{1,0} parameter(1)\nn = f32[8,8]{1,0} negate(q)"
REUSE: Final = (
    Reuse("sine", "ROOT r = f32[8]{0} sine(n)", True),
    Reuse("add", "ROOT r = f32[8]{0} add(p, n)", True),
    Reuse("copy", "ROOT r = f32[8]{0} copy(n)", False),
    Reuse("convert", "ROOT r = s32[8]{0} convert(n)", False),
    Reuse("reverse", "ROOT r = f32[8]{0} reverse(n), dimensions={0}", False),
    Reuse("bitcast_convert", "ROOT r = f32[8]{0} bitcast-convert(n)", True),
    Reuse("map", "ROOT r = f32[8]{0} map(n), dimensions={0}, to_apply=h", True,
          "h { a = f32[] parameter(0) ROOT c = f32[] sine(a) }"),
    Reuse("sine", "ROOT r = f32[8]{0} sine(n)", False, first="n = f32[8]{0} constant({...})"),
    Reuse("sort", "ROOT r = f32[8]{0} sort(n), dimensions={0}, to_apply=lt", True,
          "lt { a = f32[] parameter(0) b = f32[] parameter(1) "
          "ROOT c = pred[] compare(a, b), direction=LT }"),
    Reuse("sort", "ROOT r = (f32[8]{0}, f32[8]{0}) sort(n, n), dimensions={0}, to_apply=lt", False,
          "lt { a = f32[] parameter(0) b = f32[] parameter(1) d = f32[] parameter(2) "
          "e = f32[] parameter(3) ROOT c = pred[] compare(a, b), direction=LT }"),
    Reuse("triangular_solve", "ROOT r = f32[8,8]{1,0} triangular-solve(q, n), left_side=true,"
          " lower=true, transpose_a=NO_TRANSPOSE", True, first=SQUARE),
    Reuse("triangular_solve", "ROOT r = f32[8,8]{1,0} triangular-solve(n, q), left_side=true,"
          " lower=true, transpose_a=NO_TRANSPOSE", False, first=SQUARE),
    fused("kLoop", "ROOT s = f32[8]{0} sine(a)", True),
    fused("kLoop", "b = f32[8]{0} reverse(a), dimensions={0} ROOT s = f32[8]{0} add(a, b)", False),
    fused("kInput", "b = f32[8]{0} sine(a) ROOT s = f32[8]{0} add(a, b)", True),
    fused("kCustom", "b = f32[8]{0} sine(a) ROOT s = f32[8]{0} add(a, b)", True),
    fused("kCustom", "b = f32[2,4]{1,0} bitcast(a) ROOT s = f32[8]{0} bitcast(b)", False),
    Reuse("fusion", "ROOT r = f32[8,8]{1,0} fusion(n, q), kind=kOutput, calls=f", True,
          PRODUCT.format(order="d, a"), SQUARE),
    Reuse("fusion", "ROOT r = f32[8,8]{1,0} fusion(q, n), kind=kOutput, calls=f", False,
          PRODUCT.format(order="a, d"), SQUARE),
)  # fmt: skip


@pytest.mark.parametrize("case", REUSE, ids=[f"{case.opcode}-{k}" for k, case in enumerate(REUSE)])
def test_results_in_place_of_operands_that_end(case: Reuse) -> None:
    body = f"{P}{case.first}\n{case.last}"
    found = placed(memory_of(scheduled(body, before=case.before)))
    assert (("r", "n") in found) == case.is_allowed


def test_an_operand_that_is_read_later_keeps_its_place() -> None:
    body = P + "n = f32[8]{0} negate(p)\nr = f32[8]{0} sine(n)\nROOT s = f32[8]{0} add(r, n)"
    assert placed(memory_of(scheduled(body))) == {("s", "r")}


def test_each_operand_is_taken_once() -> None:
    last, before = fusion(
        "kLoop",
        "b = f32[8]{0} sine(a) c = f32[8]{0} cosine(a) ROOT t = (f32[8]{0}, f32[8]{0}) tuple(b, c)",
        "ROOT r = (f32[8]{0}, f32[8]{0}) fusion(n)",
    )
    memory = memory_of(scheduled(f"{P}n = f32[8]{{0}} negate(p)\n{last}", before=before))
    assert len(placed(memory)) == 1
    assert memory.device.live[2] - memory.device.least[2] == 32


def test_fused_results_take_operands_of_their_types() -> None:
    before = """f { a = f32[8]{0} parameter(0) b = s32[8]{0} parameter(1)
    x = f32[8]{0} sine(a) y = s32[8]{0} negate(b) z = s32[8]{0} abs(b)
    ROOT t = (s32[8]{0}, f32[8]{0}, s32[8]{0}) tuple(y, x, z) }"""
    body = (
        P + "n = f32[8]{0} negate(p)\nm = s32[8]{0} convert(p)\n"
        "ROOT r = (s32[8]{0}, f32[8]{0}, s32[8]{0}) fusion(n, m), kind=kLoop, calls=f"
    )
    memory = memory_of(scheduled(body, before=before))
    assert {operand for _, operand in placed(memory)} == {"n", "m"}
    assert ("r{1}", "n") in {(result, operand) for result, operand in placed_names(memory)}


def test_results_of_a_sort_take_the_operands_of_their_own_numbers() -> None:
    before = SORTED.format(operands="a, b").partition("f {")[0]
    body = (
        f"{P}n = f32[8]{{0}} negate(p)\nm = f32[8]{{0}} reverse(p), dimensions={{0}}\n"
        "ROOT r = (f32[8]{0}, f32[8]{0}) sort(m, n), dimensions={0}, to_apply=less"
    )
    assert placed(memory_of(scheduled(body, before=before))) == {("r{0}", "m"), ("r{1}", "n")}


def placed_names(memory: ProgramMemory) -> set[tuple[str, str]]:
    pairs = [pair for some in memory.device.placed.values() for pair in some]
    return {(result.values[-1].name, operand.values[-1].name) for result, operand in pairs}


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=4, unique=True), min_size=1, max_size=5),
    st.lists(st.integers(1, 9), min_size=5, max_size=5),
)
def test_results_are_placed_so_that_most_bytes_are_saved(
    allowed: list[list[int]], sizes: list[int]
) -> None:
    def buffer(size: int) -> Buffer:
        return Buffer((), "temporary", 0, Bytes(size, size, size), (), True)

    operands = [buffer(9) for _ in range(5)]
    results = [buffer(size) for size, _ in zip(sizes, allowed, strict=False)]
    edges = {r: [operands[k] for k in some] for r, some in zip(results, allowed, strict=True)}
    found = placed_results(edges, lambda _: True)
    assert len({id(operand) for _, operand in found}) == len(found)
    assert all(operand in edges[result] for result, operand in found)
    choices = product(*[[None, *some] for some in edges.values()])
    best = max(
        sum(r.bytes for r, operand in zip(edges, choice, strict=True) if operand is not None)
        for choice in choices
        if len({id(o) for o in choice if o}) == sum(o is not None for o in choice)
    )
    assert sum(result.bytes for result, _ in found) == best


SUMMED: Final = f"""{ADD}f {{ a = f32[8]{{0}} parameter(0) z = f32[] constant(0)
s = f32[] reduce(a, z), dimensions={{0}}, to_apply=add b = f32[8]{{0}} broadcast(s), dimensions={{}}
ROOT m = f32[8]{{0}} multiply(b, a) }}"""
"""A fusion that needs the sum of an operand for each element of its result."""
SORTED: Final = """less {{ a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2)
d = f32[] parameter(3) ROOT l = pred[] compare(a, b), direction=LT }}
f {{ a = f32[8]{{0}} parameter(0) b = f32[8]{{0}} parameter(1)
ROOT s = (f32[8]{{0}}, f32[8]{{0}}) sort({operands}), dimensions={{0}}, to_apply=less }}"""
"""A fusion that sorts two arrays by the first."""
GPU: Final = (
    Reuse("all_reduce", "ROOT r = f32[8]{0} all-reduce(n), to_apply=add", True, ADD),
    Reuse("collective_broadcast", "ROOT r = f32[8]{0} collective-broadcast(n),"
          " replica_groups={{0,1}}", True),
    Reuse("custom_call", 'ROOT r = (f32[8]{0}, s8[4]{0}) custom-call(p, p, n),'
          ' custom_call_target="__cublas$lt$matmul"', True),
    Reuse("custom_call", 'ROOT r = (f32[8]{0}, s8[4]{0}) custom-call(n, p, p),'
          ' custom_call_target="__cublas$lt$matmul"', False),
    Reuse("custom_call", 'ROOT r = (f32[8]{0}, s32[]) custom-call(n),'
          ' custom_call_target="__cusolver$cholesky"', True),
    Reuse("custom_call", 'ROOT r = f32[8]{0} custom-call(n), custom_call_target="other"', False),
    fused("kLoop", "b = f32[2,4]{1,0} bitcast(a) c = f32[2,4]{1,0} sine(b) "
          "ROOT s = f32[8]{0} bitcast(c)", True),
    Reuse("fusion", "ROOT r = s32[2,4]{1,0} fusion(n), kind=kLoop, calls=f", True,
          "f { a = f32[8]{0} parameter(0) b = f32[2,4]{1,0} bitcast(a) "
          "ROOT s = s32[2,4]{1,0} convert(b) }"),
    Reuse("fusion", "ROOT r = f32[8]{0} fusion(n), kind=kInput, calls=f", True, SUMMED),
    Reuse("fusion", "ROOT r = f32[8]{0} fusion(n), kind=kLoop, calls=f", False, SUMMED),
    Reuse("fusion", "ROOT r = f16[8]{0} fusion(n), kind=kLoop, calls=f", False,
          "f { a = f32[8]{0} parameter(0) ROOT s = f16[8]{0} convert(a) }"),
    Reuse("fusion", "ROOT r = (f32[8]{0}, f32[8]{0}) fusion(n, p), kind=kCustom, calls=f", True,
          SORTED.format(operands="a, b")),
    Reuse("fusion", "ROOT r = (f32[8]{0}, f32[8]{0}) fusion(n, p), kind=kCustom, calls=f", False,
          SORTED.format(operands="a, a")),
)  # fmt: skip


def test_each_result_of_a_fused_sort_takes_its_own_operand() -> None:
    body = (
        f"{P}n = f32[8]{{0}} negate(p)\nm = f32[8]{{0}} reverse(p), dimensions={{0}}\n"
        "ROOT r = (f32[8]{0}, f32[8]{0}) fusion(n, m), kind=kCustom, calls=f"
    )
    text = scheduled(body, before=SORTED.format(operands="b, a"), header=GPU_MARK)
    assert placed(memory_of(text)) == {("r{0}", "m"), ("r{1}", "n")}


@pytest.mark.parametrize("case", GPU, ids=[f"{case.opcode}-{k}" for k, case in enumerate(GPU)])
def test_rules_of_gpus_hold_for_gpus_only(case: Reuse) -> None:
    body = f"{P}{case.first}\n{case.last}"
    for header, is_gpu in ((GPU_MARK, True), ("", False)):
        text = scheduled(body, before=case.before, header=header)
        found = {(result.partition("{")[0], operand) for result, operand in placed(memory_of(text))}
        # Libraries of GPUs and input fusions are marks as well.
        is_marked = is_gpu or "__cu" in case.last or "kInput" in case.last
        assert (("r", "n") in found) == (case.is_allowed and is_marked), header


def test_every_row_of_reuse_has_a_case() -> None:
    known = {OPS[case.opcode] for case in REUSE}
    for row in MAY_SHARE:
        # Loops, branches and updates share a buffer with their operands anyway.
        if OPS["while"] not in row.ops and OPS["scatter"] not in row.ops:
            assert any(issubclass(op, row.ops) for op in known), row.about
    of_gpus = {OPS[case.opcode] for case in GPU}
    for row in BACKEND_ROWS["gpu"]:
        assert of_gpus & {*row.ops}, row.about


def test_a_fusion_with_more_operands_than_parameters_has_an_answer() -> None:
    """`verify` reports the error; the question about the memory has an answer."""
    text = scheduled(
        "p = f32[8]{0} parameter(0)\nq = f32[8]{0} negate(p)\n"
        "ROOT n = f32[8]{0} fusion(p, q), kind=kLoop, calls=f",
        before="f { a = f32[8]{0} parameter(0) ROOT b = f32[8]{0} abs(a) }",
    )
    assert answer_of(text).to_json()["lower_bytes"] == 64
