"""Ops by which processes exchange values."""

from __future__ import annotations

from typing import Any

import pytest

import hloscope as hs
from hloscope.errors import HloscopeError
from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import grid, values

ADD = """({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
  %s = stablehlo.add %a, %b : tensor<i64>
  stablehlo.return %s : tensor<i64> })"""
CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>"
GLOBAL = f"{CHANNEL}, use_global_device_ids"


def program(op: str, body: str, attributes: str, types: tuple[str, ...], result: str) -> str:
    names = [f"%x{i}" for i in range(len(types))]
    given = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    return f"""func.func @main({given}) -> {result} {{
      %r = "stablehlo.{op}"({", ".join(names)}) {body} {{{attributes}}}
        : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}"""


def groups(text: str) -> str:
    rows = text.count("[") - 1
    columns = text.split("]", maxsplit=1)[0].count(",") + 1
    return f"replica_groups = dense<{text}> : tensor<{rows}x{columns}xi64>"


def gathered(attributes: str, count: int) -> str:
    attributes = f"all_gather_dim = 0 : i64, {attributes}"
    return program("all_gather", "", attributes, ("tensor<1xi64>",), f"tensor<{count}xi64>")


FOUR = [[[0]], [[1]], [[2]], [[3]]]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        # 2 replicas × 2 partitions: processes (0, 0), (0, 1), (1, 0), (1, 1)
        (groups("[[0, 1]]"), [[0, 2], [1, 3], [0, 2], [1, 3]]),
        (groups("[[1, 0]]"), [[2, 0], [3, 1], [2, 0], [3, 1]]),
        (groups("[[0], [1]]") + CHANNEL, [[0, 1], [0, 1], [2, 3], [2, 3]]),
        (groups("[[0, 2], [3, 1]]") + GLOBAL, [[0, 2], [3, 1], [0, 2], [3, 1]]),
    ],
    ids=["replicas", "order of the group", "replicas and partitions", "flattened"],
)
def test_groups(attributes: str, expected: Any) -> None:
    assert grid(gathered(attributes, 2), FOUR, 2, 2) == expected


def test_groups_across_replicas_and_partitions_count_partitions_last() -> None:
    text = gathered(groups("[[0, 1]]") + CHANNEL, 4)
    assert grid(text, FOUR, 2, 2) == [[0, 2, 1, 3]] * 4


def test_a_process_in_no_group() -> None:
    with pytest.raises(EvaluationError, match=r"process \(2, 0\) is in no group of `all_gather`"):
        grid(gathered(groups("[[0, 1]]"), 2), FOUR[:3], 3)


def test_a_group_of_processes_that_do_not_exist() -> None:
    with pytest.raises(EvaluationError, match=r"names process \(1, 0\), there are 1 × 1"):
        values(gathered(groups("[[0, 1]]"), 2), [0])


def test_all_gather_along_a_dimension() -> None:
    """The example of the specification."""
    attributes = f"all_gather_dim = 1 : i64, {groups('[[0, 1]]')}"
    text = program("all_gather", "", attributes, ("tensor<2x2xi64>",), "tensor<2x4xi64>")
    found = grid(text, [[[[1, 2], [3, 4]]], [[[5, 6], [7, 8]]]], 2)
    assert found == [[[1, 2, 5, 6], [3, 4, 7, 8]]] * 2


def test_all_reduce() -> None:
    text = program("all_reduce", ADD, groups("[[0, 1]]"), ("tensor<4xi64>",), "tensor<4xi64>")
    found = grid(text, [[[1, 2, 3, 4]], [[5, 6, 7, 8]]], 2)
    assert found == [[6, 8, 10, 12]] * 2


def test_all_reduce_of_groups_that_differ_in_size() -> None:
    attributes = groups("[[0, 1], [2, -1]]")
    text = program("all_reduce", ADD, attributes, ("tensor<1xi64>",), "tensor<1xi64>")
    assert grid(text, FOUR[:3], 3) == [[1], [1], [2]]


def test_all_reduce_in_a_wider_type() -> None:
    body = ADD.replace("i64", "f32")
    attributes = groups("[[0, 1]]")
    text = program("all_reduce", body, attributes, ("tensor<1xf16>",), "tensor<1xf32>")
    assert grid(text, [[[2048]], [[1]]], 2) == [[2049]] * 2


def test_all_reduce_with_a_body_that_is_not_element_wise() -> None:
    body = """({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %c = stablehlo.compare GT, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %s = "stablehlo.if"(%c) ({ stablehlo.return %a : tensor<i64> },
        { stablehlo.return %b : tensor<i64> }) : (tensor<i1>) -> tensor<i64>
      stablehlo.return %s : tensor<i64> })"""
    text = program("all_reduce", body, groups("[[0, 1]]"), ("tensor<2xi64>",), "tensor<2xi64>")
    assert grid(text, [[[1, 9]], [[5, 6]]], 2) == [[5, 9]] * 2


def test_reduce_scatter() -> None:
    """The example of the specification."""
    attributes = f"scatter_dimension = 1 : i64, {groups('[[0, 1]]')}"
    text = program("reduce_scatter", ADD, attributes, ("tensor<2x4xi64>",), "tensor<2x2xi64>")
    one, two = [[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 10, 11, 12], [13, 14, 15, 16]]
    found = grid(text, [[one], [two]], 2)
    assert found == [[[10, 12], [18, 20]], [[14, 16], [22, 24]]]


ALL_TO_ALL = (
    "split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,"
    " replica_groups = dense<[[ROW]]> : tensor<1x2xi64>"
)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("0, 1", [[[1, 2], [5, 6], [9, 10], [13, 14]], [[3, 4], [7, 8], [11, 12], [15, 16]]]),
        ("1, 0", [[[11, 12], [15, 16], [3, 4], [7, 8]], [[9, 10], [13, 14], [1, 2], [5, 6]]]),
    ],
)
def test_all_to_all(row: str, expected: Any) -> None:
    """The example of the specification, and the group in another order."""
    attributes = ALL_TO_ALL.replace("ROW", row)
    text = program("all_to_all", "", attributes, ("tensor<2x4xi64>",), "tensor<4x2xi64>")
    one, two = [[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 10, 11, 12], [13, 14, 15, 16]]
    assert grid(text, [[one], [two]], 2) == expected
    across = program(
        "all_to_all", "", attributes + CHANNEL, ("tensor<2x4xi64>",), "tensor<4x2xi64>"
    )
    assert grid(across, [[one], [two]], 1, 2) == expected


def test_all_to_all_without_groups_is_among_all() -> None:
    """As XLA takes it: no group at all stands for one of all, in order."""
    none = "replica_groups = dense<> : tensor<0x2xi64>"
    attributes = "split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64"
    types = ("tensor<2x1xi64>",)
    text = program("all_to_all", "", f"{attributes}, {none}", types, "tensor<1x2xi64>")
    assert hs.verify(text) == []
    assert grid(text, [[[[1], [2]]], [[[3], [4]]]], 2) == [[[1, 3]], [[2, 4]]]
    hlo = """HloModule m, replica_count=2
    ENTRY e { p = s64[2] parameter(0)
      ROOT r = s64[2] all-to-all(p), replica_groups={}, dimensions={0} }"""
    assert hs.verify(hlo) == []
    assert grid(hlo, [[[1, 2]], [[3, 4]]], 2) == [[1, 3], [2, 4]]
    (access,) = hs.read(hlo).root.indexing()[0]
    assert str(access.precision) == "exact"


def test_collective_broadcast() -> None:
    """The example of the specification: who is in no group gets zeros."""
    attributes = groups("[[2, 1]]")
    text = program("collective_broadcast", "", attributes, ("tensor<1xi64>",), "tensor<1xi64>")
    assert grid(text, [[[1]], [[3]], [[5]], [[7]]], 4) == [[0], [5], [5], [0]]


def test_collective_broadcast_with_roots_given_at_run_time() -> None:
    text = """func.func @main(%x: tensor<1xi64>, %y: tensor<1xi64>, %root: tensor<2xi32>)
        -> (tensor<1xi64>, tensor<1xi64>) {
      %r:2 = "stablehlo.collective_broadcast"(%x, %y, %root) {
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root = true
      } : (tensor<1xi64>, tensor<1xi64>, tensor<2xi32>) -> (tensor<1xi64>, tensor<1xi64>)
      return %r#0, %r#1 : tensor<1xi64>, tensor<1xi64>
    }"""
    given = [[[1], [2], [1, 0]], [[3], [4], [1, 0]]]
    assert grid(text, given, 2) == [([3], [2])] * 2
    with pytest.raises(EvaluationError, match=r"`collective_broadcast` has roots \[1, 2\]"):
        grid(text, [[[1], [2], [1, 2]], [[3], [4], [1, 2]]], 2)


def test_collective_reduce() -> None:
    attributes = groups("[[1, 0]]")
    text = program("collective_reduce", ADD, attributes, ("tensor<1xi64>",), "tensor<1xi64>")
    assert grid(text, [[[1]], [[3]]], 2) == [[0], [4]]


def test_collective_permute() -> None:
    pairs = "source_target_pairs = dense<[[0, 1], [1, 2], [3, 3]]> : tensor<3x2xi64>"
    for attributes, sizes in ((pairs, (4, 1)), (pairs + CHANNEL, (1, 4))):
        text = program("collective_permute", "", attributes, ("tensor<1xi64>",), "tensor<1xi64>")
        assert grid(text, [[[1]], [[3]], [[5]], [[7]]], *sizes) == [[0], [1], [3], [7]]


def test_collective_permute_names_processes_that_exist() -> None:
    pairs = "source_target_pairs = dense<[[0, 1], [1, 4]]> : tensor<2x2xi64>"
    text = program("collective_permute", "", pairs, ("tensor<1xi64>",), "tensor<1xi64>")
    with pytest.raises(EvaluationError, match="names replica 4, there are 2"):
        grid(text, [[[1]], [[3]]], 2)
    text = program("collective_permute", "", pairs + CHANNEL, ("tensor<1xi64>",), "tensor<1xi64>")
    with pytest.raises(EvaluationError, match="names partition 1, there are 1"):
        grid(text, [[[1]], [[3]]], 2)


def test_ids() -> None:
    text = """func.func @main() -> (tensor<ui32>, tensor<ui32>) {
      %r = stablehlo.replica_id : tensor<ui32>
      %p = stablehlo.partition_id : tensor<ui32>
      return %r, %p : tensor<ui32>, tensor<ui32>
    }"""
    assert grid(text, [[]], 2, 2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert values(text) == (0, 0)


def test_several_operands() -> None:
    text = """func.func @main(%x: tensor<1xi64>, %y: tensor<2xi64>)
        -> (tensor<1xi64>, tensor<2xi64>) {
      %r:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
        %s = stablehlo.add %a, %b : tensor<i64>
        stablehlo.return %s : tensor<i64> }) {
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
      } : (tensor<1xi64>, tensor<2xi64>) -> (tensor<1xi64>, tensor<2xi64>)
      return %r#0, %r#1 : tensor<1xi64>, tensor<2xi64>
    }"""
    assert grid(text, [[[1], [2, 3]], [[4], [5, 6]]], 2) == [([5], [7, 9])] * 2


# ----------------------------------------------------------------------------------- HLO

HLO_ADD = "add { a = s64[] parameter(0) b = s64[] parameter(1) ROOT r = s64[] add(a, b) }\n"


def hlo(body: str) -> str:
    return f"HloModule m\n{HLO_ADD}ENTRY e {{ p = s64[2] parameter(0)\n{body} }}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ROOT r = s64[2] all-reduce(p), to_apply=add", [[2, 4], [4, 6], [2, 4], [4, 6]]),
        (
            "ROOT r = s64[2] all-reduce(p), to_apply=add, channel_id=1, replica_groups={{0,1},"
            "{2,3}}, use_global_device_ids=true",
            [[1, 3], [1, 3], [5, 7], [5, 7]],
        ),
        (
            "ROOT r = s64[2] all-reduce(p), to_apply=add, channel_id=1,"
            " replica_groups=[2,2]<=[2,2]T(1,0), use_global_device_ids=true",
            [[2, 4], [4, 6], [2, 4], [4, 6]],
        ),
        (
            "ROOT r = s64[8] all-gather(p), dimensions={0}, replica_groups={{1,0}}, channel_id=1",
            [[2, 3, 3, 4, 0, 1, 1, 2]] * 4,
        ),
        (
            "q = s64[4] concatenate(p, p), dimensions={0} ROOT r = s64[1] reduce-scatter(q),"
            " dimensions={0}, to_apply=add, replica_groups={{1,0}}, channel_id=1",
            [[6], [10], [6], [10]],
        ),
        (
            "ROOT r = s64[4] all-gather(p), dimensions={0}, replica_groups={{1,0}}",
            [[2, 3, 0, 1], [3, 4, 1, 2], [2, 3, 0, 1], [3, 4, 1, 2]],
        ),
        (
            "ROOT r = s64[1] reduce-scatter(p), dimensions={0}, to_apply=add,"
            " replica_groups={{0,1}}",
            [[2], [4], [4], [6]],
        ),
        (
            "a = s64[1] slice(p), slice={[0:1]} b = s64[1] slice(p), slice={[1:2]}\n"
            "ROOT r = (s64[1], s64[1]) all-to-all(a, b), replica_groups={{0,1}}",
            [([0], [2]), ([1], [3]), ([1], [3]), ([2], [4])],
        ),
        (
            "ROOT r = s64[2] all-to-all(p), dimensions={0}, replica_groups={{0,1}}",
            [[0, 2], [1, 3], [1, 3], [2, 4]],
        ),
        (
            "ROOT r = s64[2] collective-permute(p), source_target_pairs={{0,1}}",
            [[0, 0], [0, 0], [0, 1], [1, 2]],
        ),
        (
            "ROOT r = s64[2] collective-permute(p), channel_id=3, source_target_pairs={{0,1}}",
            [[0, 0], [0, 1], [0, 0], [2, 3]],
        ),
        (
            "ROOT r = s64[2] collective-broadcast(p), replica_groups={{1,0}}",
            [[2, 3], [3, 4], [2, 3], [3, 4]],
        ),
        (
            "s = s64[2] all-reduce-start(p), to_apply=add\nROOT r = s64[2] all-reduce-done(s)",
            [[2, 4], [4, 6], [2, 4], [4, 6]],
        ),
        (
            "s = (s64[2], s64[4]) all-gather-start(p), dimensions={0}, replica_groups={{0,1}}\n"
            "ROOT r = s64[4] all-gather-done(s)",
            [[0, 1, 2, 3], [1, 2, 3, 4], [0, 1, 2, 3], [1, 2, 3, 4]],
        ),
        (
            "s = (s64[2], s64[2], u32[], u32[]) collective-permute-start(p),"
            " source_target_pairs={{0,1}}\nROOT r = s64[2] collective-permute-done(s)",
            [[0, 0], [0, 0], [0, 1], [1, 2]],
        ),
        (
            "s = ((s64[2]), s64[1]) reduce-scatter-start(p), dimensions={0}, to_apply=add,"
            " replica_groups={{0,1}}\nROOT r = s64[1] reduce-scatter-done(s)",
            [[2], [4], [4], [6]],
        ),
    ],
)
def test_hlo(body: str, expected: Any) -> None:
    given = [[[0, 1]], [[1, 2]], [[2, 3]], [[3, 4]]]
    assert grid(hlo(body), given, 2, 2) == expected


def test_hlo_permutes_in_place() -> None:
    text = """HloModule m
    ENTRY e { p = s32[4] parameter(0) o = s32[4] parameter(1)
      i = s32[] constant(2) j = s32[] constant(0)
      ROOT r = s32[4] collective-permute(p, o, i, j), source_target_pairs={{0,1}},
        slice_sizes={{2}} }"""
    given = [[[1, 2, 3, 4], [0, 0, 0, 0]], [[5, 6, 7, 8], [9, 9, 9, 9]]]
    assert grid(text, given, 2) == [[0, 0, 0, 0], [3, 4, 9, 9]]


ONE, TWO, THREE = [[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11]]
IN_PLACE = {  # operands of the program, settings, and what each of three members has in the end
    "two buffers": (
        "b = (s32[4], s32[4]) tuple(p, p) c = (s32[4], s32[4]) tuple(o, o)"
        " t = (s32[]) tuple(n) u = (s32[]) tuple(m) s = ((s32[]), (s32[])) tuple(t, u)"
        " ROOT r = (s32[4], s32[4]) collective-permute(b, c, s, s)",
        "{{2},{1}}",
        [([9] * 4, [9] * 4), ([9, 1, 2, 9], [9, 9, 2, 9]), ([9, 5, 6, 9], [9, 9, 6, 9])],
    ),
    "two slices of a buffer": (
        "t = (s32[]) tuple(n) u = (s32[]) tuple(m) s = ((s32[]), (s32[])) tuple(t, u)"
        " v = ((s32[]), (s32[])) tuple(u, t) ROOT r = s32[4] collective-permute(p, o, s, v)",
        "{{1},{1}}",
        [[9] * 4, [9, 2, 1, 9], [9, 6, 5, 9]],
    ),
    "begun and ended": (
        "t = (s32[]) tuple(n) s = (s32[4], s32[4]) collective-permute-start(p, o, t, t)",
        "{{2}}",
        [[9] * 4, [9, 1, 2, 9], [9, 5, 6, 9]],
    ),
}


def in_place(name: str, sizes: str = "", pairs: str = "{{0,1},{1,2}}") -> str:
    body, written, _ = IN_PLACE[name]
    settings = f"source_target_pairs={pairs}, slice_sizes={sizes or written}"
    done = "ROOT r = s32[4] collective-permute-done(s)" if "ROOT" not in body else ""
    return f"""HloModule m
      ENTRY e {{ p = s32[4] parameter(0) n = s32[] constant(1) m = s32[] constant(2)
        k = s32[] constant(9) o = s32[4] broadcast(k), dimensions={{}}
        {body}, {settings} {done} }}"""


@pytest.mark.parametrize("name", IN_PLACE)
def test_slices_of_buffers_are_permuted_in_place(name: str) -> None:
    assert grid(in_place(name), [ONE, TWO, THREE], 3) == IN_PLACE[name][2]


@pytest.mark.parametrize(
    ("name", "sizes", "pairs", "message"),
    [
        ("two buffers", "{{2}}", "", "2 slices have 1 `slice_sizes`"),
        ("two buffers", "{{2},{3}}", "", "3 elements from 2 on are not in the 4 there"),
        ("begun and ended", "{{2,2}}", "", "there are 1 dimensions"),
        ("two slices of a buffer", "", "{{0,1},{2,1}}", "receives from several"),
    ],
)
def test_what_cannot_be_permuted_in_place_is_told(
    name: str, sizes: str, pairs: str, message: str
) -> None:
    with pytest.raises(HloscopeError, match=message):
        grid(in_place(name, sizes, pairs or "{{0,1},{1,2}}"), [ONE, TWO, THREE], 3)


@pytest.mark.parametrize(
    "op",
    [
        "all-reduce(t), to_apply=add",
        "all-gather(t), dimensions={0}",
        "reduce-scatter(t), dimensions={0}, to_apply=add",
        "all-to-all(t), dimensions={0}",
        "all-to-all(t)",
        "collective-permute(t), source_target_pairs={{0,1}}",
        "collective-broadcast(t), replica_groups={{0,1}}",
    ],
)
def test_tuples_are_no_operands(op: str) -> None:
    text = f"""HloModule m
      add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }}
      ENTRY e {{ p = s32[4] parameter(0) q = s32[2] parameter(1) t = (s32[4], s32[2]) tuple(p, q)
        ROOT r = (s32[4], s32[2]) {op} }}"""
    program = hs.read(text)
    with pytest.raises(HloscopeError, match="is a tuple"):
        hs.evaluate_grid(program, [[0] * 4, [0] * 2], replicas=2)


def test_several_operands_are_exchanged_one_by_one() -> None:
    body = """a = (s64[2], s64[1]) all-reduce(p, q), to_apply=add
      b = s64[2] get-tuple-element(a), index=0 c = s64[1] get-tuple-element(a), index=1
      s = ((s64[2], s64[1]), (s64[4], s64[2])) all-gather-start(b, c), dimensions={0}
      ROOT r = (s64[4], s64[2]) all-gather-done(s)"""
    text = f"""HloModule m
      add {{ a = s64[] parameter(0) b = s64[] parameter(1) ROOT c = s64[] add(a, b) }}
      ENTRY e {{ p = s64[2] parameter(0) q = s64[1] parameter(1) {body} }}"""
    assert grid(text, [[[1, 2], [3]], [[4, 5], [6]]], 2) == [([5, 7, 5, 7], [9, 9])] * 2


def test_hlo_ragged_all_to_all() -> None:
    """The example of XLA's documentation: two members, sizes and offsets of their own."""
    text = """HloModule m
    ENTRY e {
      p = s32[3] parameter(0) o = s32[4] parameter(1)
      i = s32[2] parameter(2) s = s32[2] parameter(3) t = s32[2] parameter(4)
      n = s32[2] parameter(5)
      ROOT r = s32[4] ragged-all-to-all(p, o, i, s, t, n), replica_groups={{0,1}} }"""
    none = [0, 0, 0, 0]
    given = [
        [[1, 2, 2], none, [0, 1], [1, 2], [0, 0], [1, 1]],
        [[3, 4, 0], none, [0, 1], [1, 1], [1, 2], [2, 1]],
    ]
    assert grid(text, given, 2) == [[1, 3, 0, 0], [2, 2, 4, 0]]


MESH = """module {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%x: tensor<1xi64>) -> tensor<2xi64> {
    %r = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids,
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [AXES]>
    } : (tensor<1xi64>) -> tensor<2xi64>
    return %r : tensor<2xi64>
  }
}"""


@pytest.mark.parametrize(
    ("mesh", "axes", "expected"),
    [
        ('"x"=2, "y"=2', 'name = "x"', [[0, 2], [1, 3], [0, 2], [1, 3]]),
        ('"x"=2, "y"=2', 'name = "y"', [[0, 1], [0, 1], [2, 3], [2, 3]]),
        ('"x"=4', 'name = "x", sub_axis_info = (2)2', [[0, 1], [0, 1], [2, 3], [2, 3]]),
    ],
)
def test_groups_by_axes_of_a_mesh(mesh: str, axes: str, expected: Any) -> None:
    text = MESH.replace('"x"=2, "y"=2', mesh).replace("AXES", f"#stablehlo.axis_ref<{axes}>")
    assert grid(text, FOUR, 1, 4) == expected


def test_meshes_and_axes_that_do_not_exist() -> None:
    text = MESH.replace("AXES", '#stablehlo.axis_ref<name = "z">')
    with pytest.raises(EvaluationError, match="no axis `z`; its axes are x, y"):
        grid(text, FOUR, 1, 4)
    with pytest.raises(EvaluationError, match="there is no mesh @other"):
        grid(text.replace("mesh = @mesh", "mesh = @other"), FOUR, 1, 4)
    part = MESH.replace("AXES", '#stablehlo.axis_ref<name = "x", sub_axis_info = (2)2>')
    with pytest.raises(EvaluationError, match=r"size 2 has no part \(2\)2"):
        grid(part, FOUR, 1, 4)


def test_a_mesh_written_in_place() -> None:
    axes = '<name = "x", size = 2>, <name = "y", size = 2>'
    inline = f"#stablehlo.mesh<axes = [{axes}], device_ids = dense<[3, 1, 2, 0]> : tensor<4xi64>>"
    text = MESH.replace("AXES", '#stablehlo.axis_ref<name = "x">').replace("@mesh,", f"{inline},")
    assert grid(text, FOUR, 1, 4) == [[1, 0], [1, 0], [3, 2], [3, 2]]
    with pytest.raises(EvaluationError, match="a mesh of 4 devices cannot be right"):
        grid(text.replace("[3, 1, 2, 0]> : tensor<4", "[3, 1]> : tensor<2"), FOUR, 1, 4)


@pytest.mark.parametrize("op", ["all_reduce", "reduce_scatter"])
def test_what_a_body_reads_from_outside_is_that_of_its_own_process(op: str) -> None:
    body = """({ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %s = stablehlo.add %a, %b : tensor<i64>
      %t = stablehlo.add %s, %x1 : tensor<i64>
      stablehlo.return %t : tensor<i64> })"""
    scattered = op == "reduce_scatter"
    dimension = "scatter_dimension = 0 : i64, " if scattered else ""
    text = program(
        op,
        body,
        dimension + groups("[[0, 1]]"),
        ("tensor<2xi64>", "tensor<i64>"),
        f"tensor<{1 if scattered else 2}xi64>",
    ).replace(f'"stablehlo.{op}"(%x0, %x1)', f'"stablehlo.{op}"(%x0)')
    text = text.replace(": (tensor<2xi64>, tensor<i64>) ->", ": (tensor<2xi64>) ->")
    sums = grid(text, [[[1, 2], 100], [[10, 20], 1000]], 2, 1)
    assert sums == ([[111], [1022]] if scattered else [[111, 122], [1011, 1022]])
