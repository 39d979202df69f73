"""Flops and bytes, counted by hand or by looking at every element."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

import hloscope as hs
from hloscope.cost import Flops
from hloscope.fusion import Blueprints, bytes_moved

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
        (entry(["s4[5]"], "f32[5] convert(p0)"), 3 + 20),
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
    shared, alone = Flops(Blueprints().number), Flops()
    calls = [ins for ins in program.module.entry if ins.calls]
    assert [shared.of(i).flops for i in calls] == [alone.of(i).flops for i in calls] == [24, 40, 8, 8]


def test_what_calls_itself_is_counted_without_that_call() -> None:
    module = hs.read(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %y = call @main(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
        "  %z = stablehlo.add %y, %x : tensor<8xf32>\n"
        "  return %z : tensor<8xf32>\n}"
    ).module
    flops = Flops()
    assert [flops.of(ins).flops for ins in module.entry if ins.calls] == [8]


def test_a_long_chain_of_calls_is_counted() -> None:
    texts = ["f0 { p = f32[4] parameter(0) ROOT r = f32[4] negate(p) }"]
    for k in range(1, 5000):
        texts.append(
            f"f{k} {{ p = f32[4] parameter(0) c = f32[4] call(p), to_apply=f{k - 1}"
            " ROOT r = f32[4] negate(c) }"
        )
    call = "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] call(p), to_apply=f4999 }"
    assert flops("\n".join(["HloModule m", *texts, call])) == 20_000
