"""Flops and bytes, counted by hand or by looking at every element."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.cost import NOTHING, RULES, Flops, Product, Work
from hloscope.fusion import StructureIds, bytes_moved, valid_pairs
from hloscope.ops import (
    OPS,
    Window,
    batch_norm,
    contraction,
    elementwise,
    linalg,
    quantize,
    random,
    reduction,
    windows,
)

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def flops(text: str) -> int:
    return Flops().of(hs.read(text).root.ir).flops


def entry(parameters: list[str], root: str, before: str = "") -> str:
    lines = [f"  p{k} = {shape} parameter({k})" for k, shape in enumerate(parameters)]
    return before + "ENTRY e {\n" + "\n".join([*lines, f"  ROOT r = {root}"]) + "\n}"


@pytest.mark.parametrize(
    ("parameters", "root"),
    [
        (["f32[4,5]", "f32[5,6]"], "f32[4,6] dot(p0, p1), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}"),
        (["f32[2,4,5]", "f32[2,5,6]"], "f32[2,4,6] dot(p0, p1), lhs_batch_dims={0}, "
         "rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"),
        (["f32[5]", "f32[5]"], "f32[] dot(p0, p1), lhs_contracting_dims={0}, "
         "rhs_contracting_dims={0}"),
        (["f32[1,6,6,3]", "f32[2,2,3,4]"], "f32[1,5,5,4] convolution(p0, p1), window={size=2x2}, "
         "dim_labels=b01f_01io->b01f"),
        (["f32[1,6,6,4]", "f32[2,2,2,4]"], "f32[1,5,5,4] convolution(p0, p1), window={size=2x2}, "
         "dim_labels=b01f_01io->b01f, feature_group_count=2"),
        (["f32[4,5]", "f32[5,6]"], '(f32[4,6], s8[64]) custom-call(p0, p1), '
         'custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":'
         '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
         '"rhs_contracting_dimensions":["0"]}}}'),
    ],
)  # fmt: skip
def test_products_count_two_for_each_element_read(parameters: list[str], root: str) -> None:
    text = entry(parameters, root)
    answer = hs.read(text).root.indexing()
    (access,) = answer[0].accesses
    assert access.map is not None
    sizes = [variable.interval.hi + 1 for variable in access.map.dims]
    read = sum(len(access.map.points(at)) for at in product(*map(range, sizes)))
    assert flops(text) == 2 * read > 0


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (entry(["f32[4,5]"], "f32[4,5] negate(p0)"), 20),
        (entry(["f32[4,5]"], "f16[4,5] convert(p0)"), 0),
        (entry(["f32[4,5]"], "f32[5,4] transpose(p0), dimensions={1,0}"), 0),
        (entry(["f32[4,5]", "f32[]"], "f32[4] reduce(p0, p1), dimensions={1}, to_apply=add", ADD),
         20 - 4),
        (entry(["f32[8]", "f32[]"], "f32[4] reduce-window(p0, p1), window={size=2 stride=2}, "
               "to_apply=add", ADD), 4),
        (entry(["f32[8]", "f32[8]"], "f32[8] map(p0, p1), dimensions={0}, to_apply=add", ADD), 8),
        (entry(["f32[8]", "f32[8]"], "f32[8] call(p0, p1), to_apply=g",
               "g { a = f32[8] parameter(0) b = f32[8] parameter(1) "
               "ROOT c = f32[8] add(a, b) }\n"), 8),
        (entry(["f32[8]"], 'f32[8] custom-call(p0), custom_call_target="mine"'), 0),
        (entry(["f32[8]"], "f32[8] while(p0), condition=c, body=b, "
               'backend_config={"known_trip_count":{"n":"7"}}',
               "c { x = f32[8] parameter(0) ROOT t = pred[] constant(true) }\n"
               "b { y = f32[8] parameter(0) ROOT n = f32[8] negate(y) }\n"), 7 * 8),
    ],
)  # fmt: skip
def test_arithmetic_is_counted(text: str, count: int) -> None:
    assert flops(text) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (entry(["f32[4,5]"], "f32[4,5] negate(p0)"), 160),
        (entry(["f32[4,5]"], "f32[4,5] add(p0, p0)"), 160),
        (entry(["s4[5]"], "f32[5] convert(p0)"), 5 + 20),
        (entry(["s4[5]{0:E(4)}"], "f32[5] convert(p0)"), 3 + 20),
        (entry(["f32[4]", "pred[3]"], "(f32[4], pred[3]) tuple(p0, p1)"), 0),
        (entry(["f32[<=6]"], "f32[<=6] negate(p0)"), 48),
        (entry(["f32[0,5]"], "f32[0,5] negate(p0)"), 0),
    ],
)
def test_bytes_are_those_of_operands_and_value(text: str, count: int) -> None:
    assert bytes_moved(hs.read(text).root.ir) == count


def test_a_chain_of_calls_is_counted_once_for_each_call() -> None:
    depth = 40
    parts = ["f0 { p = f32[3] parameter(0) ROOT n = f32[3] negate(p) }"]
    parts += [
        f"f{k} {{ p = f32[3] parameter(0) a = f32[3] call(p), to_apply=f{k - 1} "
        f"ROOT b = f32[3] call(a), to_apply=f{k - 1} }}"
        for k in range(1, depth)
    ]
    text = (
        "\n".join(parts)
        + f"\nENTRY e {{ p = f32[3] parameter(0) ROOT r = f32[3] call(p), to_apply=f{depth - 1} }}"
    )
    assert flops(text) == 3 * prod([2] * (depth - 1))


def test_flops_are_counted_once_for_a_structure_if_they_follow_from_it() -> None:
    body = "{ v = (f32[8]) parameter(0) g = f32[8] get-tuple-element(v), index=0\n"
    body += "  n = f32[8] negate(g) ROOT t = (f32[8]) tuple(n) }\n"
    inner = "{ a = f32[8] parameter(0) s = (f32[8]) tuple(a)\n  w = (f32[8]) while(s), "
    inner += 'condition=cond, body=body, backend_config={"known_trip_count":{"n":"%d"}}\n'
    inner += "  ROOT r = f32[8] get-tuple-element(w), index=0 }\n"
    text = "cond { v = (f32[8]) parameter(0) ROOT c = pred[] constant(true) }\nbody " + body
    text += "".join([f"loop{n} {inner % n}" for n in (3, 5)])
    text += "".join([f"plain{n} {{ a = f32[8] parameter(0) ROOT n = f32[8] negate(a) }}\n"
                     for n in (1, 2)])  # fmt: skip
    text += "ENTRY e {\n  p = f32[8] parameter(0)\n"
    called = ("loop3", "loop5", "plain1", "plain2")
    text += "".join([f"  x.{name} = f32[8] call(p), to_apply={name}\n" for name in called])
    text += "  ROOT r = f32[8] add(x.loop3, x.plain1)\n}"
    program = hs.read(text)
    shared, alone = Flops(StructureIds().number), Flops()
    calls = [ins for ins in program.module.entry if ins.calls]
    assert (
        [shared.of(i).flops for i in calls] == [alone.of(i).flops for i in calls] == [24, 40, 8, 8]
    )


def test_what_calls_itself_is_counted_without_that_call() -> None:
    module = hs.read(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %y = call @main(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
        "  %z = stablehlo.add %y, %x : tensor<8xf32>\n"
        "  return %z : tensor<8xf32>\n}"
    ).module
    flops = Flops()
    assert [flops.of(ins).flops for ins in module.entry if ins.calls] == [8]


@pytest.mark.slow
def test_a_long_chain_of_calls_is_counted() -> None:
    texts = ["f0 { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }"]
    for k in range(1, 5000):
        texts.append(
            f"f{k} {{ p = f32[4] parameter(0) c = f32[4] call(p), to_apply=f{k - 1}"
            " ROOT r = f32[4] negate(c) }"
        )
    call = "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] call(p), to_apply=f4999 }"
    assert flops("\n".join(["HloModule m", *texts, call])) == 20_000


def work(text: str) -> Work:
    return Flops().of(hs.read(text).root.ir)


sizes = st.integers(0, 9)
steps = st.integers(1, 7)


@given(sizes, sizes, sizes, steps, steps, steps, st.integers(-9, 12))
def test_pairs_that_meet_an_element_are_those_that_are_found_one_by_one(
    taps: int, size: int, positions: int, stride: int, base: int, spread: int, low: int
) -> None:
    window = Window((taps,), (stride,), ((low, 0),), (base,), (spread,), (False,))
    places = [o * stride + w * spread - low for o in range(positions) for w in range(taps)]
    met = [x for x in places if x % base == 0 and 0 <= x // base < size]
    assert valid_pairs(window, 0, taps, size, positions) == len(met)


def test_pairs_of_the_largest_sizes_are_counted() -> None:
    n = 2**62
    plain = Window((n,), (1,), ((n - 1, 0),), (1,), (1,), (False,))
    assert valid_pairs(plain, 0, n, n, n) == n * (n + 1) // 2


@pytest.mark.parametrize(
    ("window", "out", "count"),
    [
        ("size=3 pad=1_1", 8, 2 * 22),
        ("size=3 pad=1_1 lhs_dilate=2", 15, 2 * 22),
        ("size=3 pad=-1_-1", 4, 2 * 12),
        ("size=3 stride=2 rhs_dilate=2 pad=2_2", 4, 2 * 10),
    ],
)
def test_padding_and_holes_of_a_convolution_do_not_count(window: str, out: int, count: int) -> None:
    root = f"f32[1,{out},1] convolution(p0, p1), window={{{window}}}, dim_labels=b0f_0io->b0f"
    assert work(entry(["f32[1,8,1]", "f32[3,1,1]"], root)).matrix_flops == count


@pytest.mark.parametrize(
    ("parameters", "root", "before", "expected"),
    [
        (["c64[4,5]", "c64[5,6]"], "c64[4,6] dot(p0, p1), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}", "",
         Work(matrix=((Product("c64", "c64", "c64"), 8 * 120),))),
        (["f32[4,5]", "f32[5,6]"], "f32[4,6] dot(p0, p1), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}, operand_precision={highest,highest}", "",
         Work(matrix=((Product("f32", "f32", "f32", ("HIGHEST", "HIGHEST")), 240),))),
        (["c64[8]", "c64[8]"], "c64[8] multiply(p0, p1)", "", Work(vector=(("c64", 48),))),
        (["bf16[8]", "bf16[8]"], "pred[8] compare(p0, p1), direction=LT", "",
         Work(vector=(("bf16", 8),))),
        (["f32[8]"], "f32[8] tanh(p0)", "", Work(transcendentals=(("f32", 8),))),
        (["f32[8]"], "s8[8] convert(p0)", "", Work(converts=(("s8", 8),))),
        (["f32[8]"], 'f32[8] custom-call(p0), custom_call_target="mine"', "",
         Work(unknown=("mine",))),
        (["f32[6,4]"], '(f32[6,4], f32[4]) custom-call(p0), '
         'custom_call_target="lapack_sgeqrf_ffi"', "", Work(unknown=("lapack_sgeqrf_ffi",))),
        (["f32[8]"], 'f32[8] custom-call(p0), custom_call_target="Sharding"', "", Work()),
        (["f32[4,16]", "f32[]"], "f32[4,16] reduce-window(p0, p1), "
         "window={size=1x31 pad=0_0x15_15}, to_apply=add", ADD, Work(vector=(("f32", 60),))),
        (["f32[8]", "f32[]"], "f32[8] reduce-window(p0, p1), window={size=3 pad=1_1}, "
         "to_apply=add", ADD, Work(vector=(("f32", 22 - 8),))),
        (["f32[100]"], "f32[100] sort(p0), dimensions={0}, to_apply=lt",
         "lt { a = f32[] parameter(0) b = f32[] parameter(1) "
         "ROOT c = pred[] compare(a, b), direction=LT }\n",
         Work(vector=(("f32", 700),), estimates=("sort",))),
        (["f32[64]"], "f32[32] reduce-scatter(p0), replica_groups={{0,1}}, dimensions={0}, "
         "to_apply=add", ADD, Work(vector=(("f32", 32),), estimates=("reduce-scatter",))),
        (["f32[64]"], "f32[64] all-reduce-start(p0), replica_groups={}, to_apply=add", ADD,
         Work(vector=(("f32", 64),), estimates=("all-reduce",))),
        (["pred[]", "f32[8]"], "f32[8] conditional(p0, p1, p1), true_computation=t, "
         "false_computation=f",
         "t { x = f32[8] parameter(0) ROOT r = f32[8] sine(x) }\n"
         "f { x = f32[8] parameter(0) ROOT r = f32[8] negate(x) }\n",
         Work(vector=(("f32", 8),), transcendentals=(("f32", 8),),
              estimates=("largest branch",))),
    ],
)  # fmt: skip
def test_work_is_apart_by_unit_and_element_type(
    parameters: list[str], root: str, before: str, expected: Work
) -> None:
    assert work(entry(parameters, root, before)) == expected


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        (Product("f32", "f32", "f32"), True),
        (Product("f32", "f32", "f32", ("DEFAULT", "HIGHEST")), False),
        (Product("f32", "f32", "f32", (), "dot_tf32_tf32_f32_x3"), True),
        (Product("f32", "f32", "f32", (), "dot_bf16_bf16_f32_x6"), False),
        (Product("f64", "f64", "f64"), False),
    ],
)
def test_tf32_is_allowed_unless_the_program_asks_for_more(asked: Product, allowed: bool) -> None:
    assert asked.allows_tf32 is allowed


def test_a_library_product_with_a_bias_is_a_lower_bound() -> None:
    root = (
        '(f32[4,6], s8[64]) custom-call(p0, p1, p2), custom_call_target="__cublas$lt$matmul", '
        'backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
        '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]},'
        '"precision_config":{"operand_precision":["HIGHEST","HIGHEST"]}}}'
    )
    found = work(entry(["f32[4,5]", "f32[5,6]", "f32[6]"], root))
    assert found.matrix == ((Product("f32", "f32", "f32", ("HIGHEST", "HIGHEST")), 240),)
    assert found.at_least == ("library epilogue",)
    broken = root.replace("dot_dimension_numbers", "other")
    assert work(entry(["f32[4,5]", "f32[5,6]", "f32[6]"], broken)).unknown == (
        "__cublas$lt$matmul",
    )


def loop(config: str) -> str:
    return entry(
        ["f32[8]"],
        f"f32[8] while(p0), condition=c, body=b{config}",
        "c { x = f32[8] parameter(0) z = f32[8] sine(x) ROOT t = pred[] constant(true) }\n"
        "b { y = f32[8] parameter(0) ROOT n = f32[8] negate(y) }\n",
    )


def test_the_condition_of_a_loop_runs_once_more_than_the_body() -> None:
    found = work(loop(', backend_config={"known_trip_count":{"n":"7"}}'))
    assert (found.flops, found.transcendental_count, found.is_exact) == (56, 64, True)


def test_a_loop_whose_trip_count_is_not_known_is_an_estimate() -> None:
    assert work(loop("")).estimates == ("turns of loops",)


def test_an_instruction_that_is_not_valid_has_unknown_work() -> None:
    assert work(entry(["f32[8]"], "f32[4] reduce-window(p0, p0), window={size=2 stride=0}, "
                      "to_apply=add", ADD)).unknown == ("reduce_window",)  # fmt: skip


works = st.builds(
    Work,
    matrix=st.integers(0, 9).map(lambda n: ((Product("f16", "f16", "f32"), n),) if n else ()),
    vector=st.dictionaries(st.sampled_from(["f32", "s8"]), st.integers(1, 99)).map(
        lambda counts: tuple(sorted(counts.items()))
    ),
    unknown=st.sampled_from([(), ("a",), ("a", "b")]),
)


@given(works, works, works, st.integers(0, 5), st.integers(0, 5))
def test_works_are_added_and_multiplied_as_numbers_are(
    a: Work, b: Work, c: Work, m: int, n: int
) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NOTHING == a * 1 == a
    assert a * 0 == NOTHING
    assert (a + b) * n == a * n + b * n
    assert a * m + a * n == a * (m + n)
    assert (a * n).flops == a.flops * n


def test_every_op_has_one_rule() -> None:
    named = [name for rule in RULES for name in rule.ops]
    assert len(named) == len(set(named))
    assert {*named} <= {*OPS}


def test_ops_without_a_rule_move_data_only() -> None:
    families = (batch_norm, contraction, elementwise, linalg, quantize, random, reduction, windows)
    named = {name for rule in RULES for name in rule.ops}
    computing = {
        name for name, cls in OPS.items() if cls.__module__ in {f.__name__ for f in families}
    }
    moves = {"copy", "chlo.constant_like", "rng-get-and-update-state"}
    assert computing - named == moves
