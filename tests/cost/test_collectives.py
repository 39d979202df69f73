"""Bytes of collectives on the link, and which transfers the schedule hides."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.cost import DeviceCounts, LinkBytes, counts_of, link_bytes, overlap_of, transfers_of
from hloscope.ir import Module

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def module(body: str, header: str = "", before: str = ADD) -> Module:
    return hs.read(f"HloModule m{header}\n{before}ENTRY e {{\n{body}\n}}\n").module


def link(op: str, header: str = "", operand: str = "f32[1024]") -> LinkBytes:
    found = module(f"  p = {operand}{{0}} parameter(0)\n  ROOT r = {op}", header)
    bytes_ = link_bytes(found.entry.root, counts_of(found))
    assert bytes_ is not None
    return bytes_


FOUR = "replica_groups={{0,1,2,3}}"
SIZE = 4096


@pytest.mark.parametrize(
    ("op", "members", "ring", "tree"),
    [
        (f"f32[1024] all-reduce(p), {FOUR}, to_apply=add", 4, 2 * 3 * SIZE // 4, 2 * SIZE),
        (f"f32[4096] all-gather(p), {FOUR}, dimensions={{0}}", 4, 3 * SIZE, None),
        (f"f32[256] reduce-scatter(p), {FOUR}, dimensions={{0}}, to_apply=add", 4,
         3 * SIZE // 4, None),
        (f"f32[1024] all-to-all(p), {FOUR}, dimensions={{0}}", 4, 3 * SIZE // 4, None),
        (f"f32[1024] collective-broadcast(p), {FOUR}", 4, SIZE, SIZE),
        ("f32[1024] collective-permute(p), source_target_pairs={{0,1},{1,0}}", 2, SIZE, None),
        ("f32[1024] collective-permute(p), source_target_pairs={{0,0},{1,1}}", 1, 0, None),
        ("f32[1024] all-reduce(p), replica_groups={{0},{1}}, to_apply=add", 1, 0, 0),
        ("f32[1024] all-reduce(p), replica_groups=[2,8]<=[16], to_apply=add", 8,
         2 * 7 * SIZE // 8, 2 * SIZE),
        ("f32[1024] all-reduce(p), replica_groups={{0,1},{2,3,4}}, to_apply=add", 3,
         -(-2 * 2 * SIZE // 3), 2 * SIZE),
    ],
)  # fmt: skip
def test_bytes_on_the_link(op: str, members: int, ring: int, tree: int | None) -> None:
    found = link(op)
    assert (found.members, found.ring, found.tree) == (members, ring, tree)
    assert found.size == SIZE


@pytest.mark.parametrize(
    ("header", "rest", "members"),
    [
        (", replica_count=8", "", 8),
        (", num_partitions=4", ", channel_id=1, use_global_device_ids=true, " + FOUR, 4),
        (", num_partitions=4", ", channel_id=1, replica_groups={{0}}", 4),
        (", replica_count=2, num_partitions=4", ", channel_id=1, replica_groups={{0,1}}", 8),
        (", replica_count=2, num_partitions=4", "", 2),
        (", num_partitions=4", "", 1),
    ],
)
def test_groups_that_are_not_written_are_those_of_the_header(
    header: str, rest: str, members: int
) -> None:
    assert link(f"f32[1024] all-reduce(p){rest}, to_apply=add", header).members == members


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("f32[1024] all-reduce(p), to_apply=add", "no replica groups are written"),
        ("f32[1024] all-reduce(p), channel_id=1, replica_groups={{0}}, to_apply=add",
         "every partition"),
    ],
)  # fmt: skip
def test_bytes_are_not_known_without_the_size_of_a_group(op: str, reason: str) -> None:
    found = link(op)
    assert (found.ring, found.members) == (None, None)
    assert reason in found.reason


@pytest.mark.parametrize("count", ["0", "x", "99999999999999999999"])
def test_a_count_that_is_no_count_is_not_believed(count: str) -> None:
    found = Module("m", {}, module("  ROOT p = f32[] parameter(0)").entry,
                   extras=(("replica_count", count),))  # fmt: skip
    assert counts_of(found) == DeviceCounts()


def test_counts_of_stablehlo_are_read() -> None:
    text = (
        "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 2 : i32} "
        "{ func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }"
    )
    assert counts_of(hs.read(text).module) == DeviceCounts(2, 4)


def test_a_start_counts_as_its_collective_and_its_tuple_once() -> None:
    found = module(
        "  p = f32[1024]{0} parameter(0)\n"
        f"  s = (f32[1024], f32[4096]) all-gather-start(p), {FOUR}, dimensions={{0}}\n"
        "  ROOT d = f32[4096] all-gather-done(s)"
    )
    start = found.entry.instructions[1]
    bytes_ = link_bytes(start)
    assert bytes_ is not None
    assert (bytes_.size, bytes_.ring) == (SIZE, 3 * SIZE)
    assert link_bytes(found.entry.root) is None


@given(st.integers(1, 64), st.integers(0, 1 << 16))
def test_all_reduce_moves_what_reduce_scatter_and_all_gather_move(members: int, rows: int) -> None:
    ids = ",".join(map(str, range(members)))
    groups, whole = f"replica_groups={{{{{ids}}}}}", rows * members
    text = f"f32[{whole}] all-reduce(p), {groups}, to_apply=add"
    reduce = link(text, operand=f"f32[{whole}]")
    scatter = link(
        f"f32[{rows}] reduce-scatter(p), {groups}, dimensions={{0}}, to_apply=add",
        operand=f"f32[{whole}]",
    )
    gather = link(f"f32[{whole}] all-gather(p), {groups}, dimensions={{0}}", operand=f"f32[{rows}]")
    assert reduce.ring == (scatter.ring or 0) + (gather.ring or 0)


# -------------------------------------------------------------------------------------- overlap

PARAMETERS = "  p = f32[1024]{0} parameter(0)\n  q = f32[1024]{0} parameter(1)\n"
START = f"  s = f32[1024] all-reduce-start(p), {FOUR}, to_apply=add\n"
DONE = "  d = f32[1024] all-reduce-done(s)\n"
WORK = "  w = f32[1024] multiply(q, q)\n"
END = "  ROOT t = (f32[1024], f32[1024]) tuple(d, w)"


def names(found: Module) -> list[tuple[str, str | None, list[str], bool]]:
    return [
        (o.start.name, o.done.name if o.done else None, [i.name for i in o.between], o.is_exposed)
        for o in overlap_of(found.entry)
    ]


def test_a_kernel_between_start_and_done_hides_the_transfer() -> None:
    found = module(PARAMETERS + START + WORK + DONE + END)
    assert names(found) == [("s", "d", ["w"], False)]


@pytest.mark.parametrize("lines", [WORK + START + DONE, START + DONE + WORK])
def test_a_kernel_before_or_after_does_not(lines: str) -> None:
    assert names(module(PARAMETERS + lines + END)) == [("s", "d", [], True)]


def test_what_moves_nothing_hides_nothing() -> None:
    aside = (
        "  b = s32[1024] bitcast(q)\n  k = (f32[1024], s32[1024]) tuple(q, b)\n"
        "  g = f32[1024] get-tuple-element(k), index=0\n  i = u32[] partition-id()\n"
    )
    assert names(module(PARAMETERS + START + aside + DONE + WORK + END))[0][2:] == ([], True)


def test_other_transfers_are_not_kernels_and_each_has_its_own_kernels() -> None:
    copy = "  c = (f32[1024], f32[1024], u32[]) copy-start(q)\n"
    end = "  e = f32[1024] copy-done(c)\n"
    found = module(PARAMETERS + START + copy + DONE + WORK + end + END)
    assert names(found) == [("s", "d", [], True), ("c", "e", ["w"], False)]


def test_a_synchronous_collective_is_exposed() -> None:
    op = f"  d = f32[1024] all-reduce(p), {FOUR}, to_apply=add\n"
    found = module(PARAMETERS + WORK + op + END)
    assert names(found) == [("d", None, [], True)]
    assert not overlap_of(found.entry)[0].is_async


def test_a_loop_between_hides_only_if_it_holds_a_kernel() -> None:
    def loop(step: str) -> str:
        return (
            f"body {{ a = f32[1024] parameter(0) ROOT r = f32[1024] {step} }}\n"
            "cond { a = f32[1024] parameter(0) ROOT r = pred[] constant(false) }\n"
        )

    line = "  w = f32[1024] while(q), condition=cond, body=body\n"
    lines = PARAMETERS + START + line + DONE + END
    busy, idle = (module(lines, before=ADD + loop(step)) for step in ("negate(a)", "bitcast(a)"))
    assert names(busy)[0][2:] == (["w"], False)
    assert names(idle)[0][2:] == ([], True)


def test_an_async_computation_of_a_collective_is_listed_once_with_its_bytes() -> None:
    inner = f"wrapped {{ a = f32[1024] parameter(0) ROOT r = f32[256] reduce-scatter(a), {FOUR}, "
    inner += "dimensions={0}, to_apply=add }\n"
    lines = (
        "  s = ((f32[1024]), f32[256], s32[]) async-start(p), calls=wrapped\n"
        + WORK
        + "  d = f32[256] async-done(s)\n  ROOT t = (f32[256], f32[1024]) tuple(d, w)"
    )
    found = transfers_of(module(PARAMETERS + lines, before=ADD + inner))
    assert [(t.overlap.start.name, t.overlap.is_exposed) for t in found] == [("s", False)]
    assert found[0].link is not None
    assert (found[0].link.kind, found[0].link.ring) == ("reduce-scatter", 3 * SIZE // 4)


def test_a_transfer_in_a_loop_runs_as_often_as_the_loop() -> None:
    body = (
        "body { t = (s32[], f32[1024]) parameter(0) i = s32[] get-tuple-element(t), index=0 "
        f"x = f32[1024] get-tuple-element(t), index=1 y = f32[1024] all-reduce(x), {FOUR}, "
        "to_apply=add o = s32[] constant(1) j = s32[] add(i, o) "
        "ROOT r = (s32[], f32[1024]) tuple(j, y) }\n"
        "cond { t = (s32[], f32[1024]) parameter(0) i = s32[] get-tuple-element(t), index=0 "
        "n = s32[] constant(48) ROOT r = pred[] compare(i, n), direction=LT }\n"
    )
    lines = (
        "  p = f32[1024]{0} parameter(0)\n  z = s32[] constant(0)\n"
        "  t = (s32[], f32[1024]) tuple(z, p)\n"
        "  ROOT w = (s32[], f32[1024]) while(t), condition=cond, body=body, "
        'backend_config={"known_trip_count":{"n":"48"}}'
    )
    (found,) = transfers_of(module(lines, before=ADD + body))
    assert (found.times, found.computation.name) == (48, "body")


def test_a_send_ends_where_its_own_done_is() -> None:
    lines = (
        "  k = token[] after-all()\n"
        "  s = (f32[1024], u32[], token[]) send(p, k), channel_id=1\n" + WORK +
        "  d = token[] send-done(s), channel_id=1\n  ROOT t = (f32[1024]) tuple(w)"
    )  # fmt: skip
    assert names(module(PARAMETERS + lines)) == [("s", "d", ["w"], False)]


def async_of(inner: str, lines: str, result: str = "f32[1024]", before: str = "") -> Module:
    """A program that begins the computation of `inner`, of `a`, between lines; `d` ends it."""
    wrapped = f"wrapped {{ a = f32[1024] parameter(0) {inner} }}\n"
    begun = f"((f32[1024]), {result}, s32[])"
    start = f"{before}  s = {begun} async-start(p), calls=wrapped\n"
    body = PARAMETERS + start + lines.replace("BEGUN", begun)
    return module(f"{body}\n  ROOT t = ({result}) tuple(d)", before=ADD + wrapped)


GATHER = f"ROOT r = f32[4096] all-gather(a), {FOUR}, dimensions={{0}}"


@pytest.mark.parametrize(
    ("lines", "done"),
    [
        (f"{WORK}  d = f32[4096] async-done(s)", "d"),
        (f"  u = BEGUN async-update(s)\n{WORK}  d = f32[4096] async-done(u)", "d"),
        (f"  u = BEGUN async-update(s)\n  v = BEGUN async-update(u)\n{WORK}"
         "  d = f32[4096] async-done(v)", "d"),
        ("  k = (BEGUN) tuple(s)\n  g = BEGUN get-tuple-element(k), index=0\n"
         f"{WORK}  d = f32[4096] async-done(g)", "d"),
        (f"{WORK}  c = BEGUN custom-call(s), custom_call_target=\"f\"\n"
         "  d = f32[4096] async-done(c)", None),
        (f"{WORK}  d = f32[4096] parameter(2)", None),
    ],
)  # fmt: skip
def test_a_start_ends_at_the_done_of_the_value_that_is_handed_on(
    lines: str, done: str | None
) -> None:
    found = async_of(GATHER, lines, "f32[4096]")
    assert names(found) == [("s", done, ["w"] if done else [], not done)]
    assert overlap_of(found.entry)[0].is_async


@pytest.mark.parametrize(
    ("inner", "is_kernel"),
    [
        ("ROOT r = f32[1024] negate(a)", True),
        ("b = f32[1024] all-reduce(a), replica_groups={}, to_apply=add"
         " ROOT r = f32[1024] negate(b)", True),
        ("ROOT r = f32[1024] all-reduce(a), replica_groups={}, to_apply=add", False),
    ],
)  # fmt: skip
def test_a_computation_on_another_stream_is_a_kernel_unless_it_is_a_collective(
    inner: str, is_kernel: bool
) -> None:
    around = "  c = (f32[1024], f32[1024], u32[]) copy-start(q)\n"
    lines = "  e = f32[1024] copy-done(c)\n  d = f32[1024] async-done(s)"
    found = async_of(inner, lines, before=around)
    assert names(found)[0] == ("c", "e", ["s"] * is_kernel, not is_kernel)
    assert [t.link is None for t in transfers_of(found)] == [True, is_kernel]


@pytest.mark.parametrize(("step", "between"), [("negate(a)", ["w"]), ("bitcast(a)", [])])
def test_a_call_hides_if_what_it_calls_in_turn_holds_a_kernel(
    step: str, between: list[str]
) -> None:
    called = (
        f"inner {{ a = f32[1024] parameter(0) ROOT r = f32[1024] {step} }}\n"
        "outer { a = f32[1024] parameter(0) b = f32[1024] call(a), to_apply=inner"
        " ROOT r = f32[1024] call(b), to_apply=inner }\n"
    )
    lines = PARAMETERS + START + "  w = f32[1024] call(q), to_apply=outer\n" + DONE + END
    assert names(module(lines, before=ADD + called))[0][2] == between


@pytest.mark.parametrize(
    ("pairs", "members", "ring", "reason"),
    [
        ("{{0,1},{1,0}}", 2, SIZE, ""),
        ("{{0,0},{1,2}}", 2, SIZE, ""),
        ("{{0,0},{1,1}}", 1, 0, "no pair of different devices"),
        ("{}", 1, 0, "no pair of different devices"),
    ],
)
def test_a_permute_sends_its_operand_if_devices_differ(
    pairs: str, members: int, ring: int, reason: str
) -> None:
    found = link(f"f32[1024] collective-permute(p), source_target_pairs={pairs}")
    assert (found.members, found.ring, found.tree) == (members, ring, None)
    assert (found.reason, found.channel) == (reason, False)


def test_a_permute_of_slices_in_place_has_no_figure() -> None:
    body = (
        "  p = f32[1024] parameter(0)\n  q = f32[1024] parameter(1)\n"
        "  z = s32[] constant(0)\n  i = (s32[]) tuple(z)\n"
        "  ROOT r = f32[1024] collective-permute(p, q, i, i), source_target_pairs={{0,1}},"
        " slice_sizes={{4}}"
    )
    found = link_bytes(module(body).entry.root)
    assert found is not None
    assert (found.members, found.ring, found.reason) == (2, None, "it sends slices of its operand")


COUNTED = [
    (DeviceCounts(2, 4), "replica_groups={}", 2),
    (DeviceCounts(2, 4), "replica_groups={}, channel_id=1", 8),
    (DeviceCounts(2, 4), "replica_groups={{0},{1}}, channel_id=1", 4),
    (DeviceCounts(4, 3), "replica_groups={{0},{1,2,3}}, channel_id=1", 9),
    (DeviceCounts(2, 4), "replica_groups={}, channel_id=1, use_global_device_ids=true", 8),
    (DeviceCounts(None, 4), "replica_groups={}", "no count of replicas"),
    (DeviceCounts(None, 4), "replica_groups={}, channel_id=1", "no count of replicas"),
    (DeviceCounts(2, None), "replica_groups={}, channel_id=1", "holds every partition"),
    (DeviceCounts(2, None), "replica_groups={}, channel_id=1, use_global_device_ids=true",
     "no count of devices"),
    (DeviceCounts(None, 4), "replica_groups={}, channel_id=1, use_global_device_ids=true",
     "no count of devices"),
]  # fmt: skip


def test_members_without_written_groups_are_counted_by_the_header() -> None:
    for counts, attributes, members in COUNTED:
        body = "  p = f32[1024] parameter(0)\n"
        body += f"  ROOT r = f32[1024] all-reduce(p), {attributes}, to_apply=add"
        found = link_bytes(module(body).entry.root, counts)
        assert found is not None
        assert found.channel == ("channel_id" in attributes)
        if isinstance(members, int):
            assert (found.members, found.reason) == (members, ""), attributes
        else:
            assert found.members is None
            assert members in found.reason
