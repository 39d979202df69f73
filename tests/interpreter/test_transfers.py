"""Send and recv, infeed and outfeed, asynchronous computations."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from hloscope.interpreter.parallel import INFEED, OUTFEED
from hloscope.interpreter.values import TOKEN, EvaluationError, World
from hloscope.stablehlo import parse_stablehlo, print_stablehlo
from tests.interpreter.helpers import grid, plain, values

SEND = """func.func @send(%x: tensor<2xi64>, %t: !stablehlo.token) -> !stablehlo.token {
  %y = stablehlo.add %x, %x : tensor<2xi64>
  %a = "stablehlo.send"(%x, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
    is_host_transfer = true} : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
  %b = "stablehlo.send"(%y, %a) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
    is_host_transfer = true} : (tensor<2xi64>, !stablehlo.token) -> !stablehlo.token
  return %b : !stablehlo.token
}"""
RECV = """func.func @recv(%t: !stablehlo.token) -> (tensor<2xi64>, tensor<2xi64>) {
  %a:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
  %b:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xi64>, !stablehlo.token)
  return %a#0, %b#0 : tensor<2xi64>, tensor<2xi64>
}"""


def both(first: str, second: str) -> str:
    pair = "tensor<2xi64>, tensor<2xi64>"
    given = {"send": "%x, %t", "recv": "%t"}
    takes = {"send": "tensor<2xi64>, !stablehlo.token", "recv": "!stablehlo.token"}
    gives = {"send": "!stablehlo.token", "recv": pair}
    at = 0 if first == "recv" else 1
    return f"""{SEND}
{RECV}
func.func @main(%x: tensor<2xi64>) -> ({pair}) {{
  %t = stablehlo.after_all : !stablehlo.token
  %r:3 = "interpreter.run_parallel"({given[first]}, {given[second]}) {{
    programs = [[@{first}], [@{second}]]
  }} : ({takes[first]}, {takes[second]}) -> ({gives[first]}, {gives[second]})
  return %r#{at}, %r#{at + 1} : {pair}
}}"""


@pytest.mark.parametrize(("first", "second"), [("send", "recv"), ("recv", "send")])
def test_send_and_recv_in_order(first: str, second: str) -> None:
    assert values(both(first, second), [1, 2]) == ([1, 2], [2, 4])


def test_nobody_receives() -> None:
    text = both("send", "recv")
    text = text.replace(RECV, RECV.replace("return %a#0, %b#0", "return %a#0, %a#0")).replace(
        '%b:2 = "stablehlo.recv"', '// "stablehlo.recv"'
    )
    text = text.replace("    is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xi64>,"
        " !stablehlo.token)\n  return", "  return")  # fmt: skip
    with pytest.raises(
        EvaluationError, match=r"no process receives what is sent by `send` \(line 5\)"
    ):
        values(text, [1, 2])


def test_nobody_sends() -> None:
    text = both("send", "recv").replace("handle = 1, type = 3", "handle = 2, type = 3")
    with pytest.raises(EvaluationError, match=r"\(1, 0\) waits at `recv`.* for a `send` on chan"):
        values(text, [1, 2])


def test_what_is_received_is_of_another_type() -> None:
    text = both("send", "recv")
    wrong = RECV.replace("(tensor<2xi64>, !", "(tensor<3xi64>, !")
    wrong = wrong.replace("(tensor<2xi64>, tensor<2xi64>)", "(tensor<3xi64>, tensor<3xi64>)")
    text = text.replace(RECV, wrong.replace(": tensor<2xi64>, tensor<2xi64>\n", ": tensor<3xi64>, "
        "tensor<3xi64>\n"))  # fmt: skip
    with pytest.raises(EvaluationError, match=r"its shape is \(2,\), not \(3,\)"):
        values(text, [1, 2])


HLO_RING = """HloModule m
ENTRY e {
  p = s32[2] parameter(0)
  t = token[] after-all()
  r = (s32[2], u32[], token[]) recv(t), channel_id=1,
    frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,0}}}
  s = (s32[2], u32[], token[]) send(p, t), channel_id=1,
    frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2},{2,0}}}
  rd = (s32[2], token[]) recv-done(r), channel_id=1
  sd = token[] send-done(s), channel_id=1
  ROOT x = s32[2] get-tuple-element(rd), index=0
}"""


def test_a_ring_in_hlo() -> None:
    given = [[[0, 1]], [[2, 3]], [[4, 5]]]
    assert grid(HLO_RING, given, 3) == [[4, 5], [0, 1], [2, 3]]
    assert grid(HLO_RING, given, 1, 3) == [[4, 5], [0, 1], [2, 3]]
    open_end = HLO_RING.replace("{{0,1},{1,2},{2,0}}", "{{0,1},{1,2}}")
    assert grid(open_end, given, 3) == [[0, 0], [0, 1], [2, 3]]


def test_the_context_of_a_transfer_is_zero() -> None:
    """What it holds is up to the implementation; so it is the same in every run."""
    text = HLO_RING.replace(
        "ROOT x = s32[2] get-tuple-element(rd), index=0",
        "a = u32[] get-tuple-element(s), index=1 b = u32[] get-tuple-element(r), index=1"
        " ROOT x = (u32[], u32[]) tuple(a, b)",
    )
    assert grid(text, [[[0, 1]], [[2, 3]], [[4, 5]]], 3) == [(0, 0)] * 3


RING = """func.func @main(%p: tensor<2xi32>) -> tensor<2xi32> {
  %t = stablehlo.after_all : !stablehlo.token
  %s = "stablehlo.send"(%p, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    is_host_transfer = false, PAIRS} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
  %r:2 = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    is_host_transfer = false, PAIRS} : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
  return %r#0 : tensor<2xi32>
}"""


@pytest.mark.parametrize(
    "pairs",
    [
        "source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>",
        'mhlo.frontend_attributes = {_xla_send_recv_source_target_pairs = "{{0,1},{1,2}}"}',
    ],
)
def test_pairs_of_stablehlo(pairs: str) -> None:
    given = [[[0, 1]], [[2, 3]], [[4, 5]]]
    text = RING.replace("PAIRS", pairs)
    assert grid(text, given, 3) == [[0, 0], [0, 1], [2, 3]]
    assert grid(print_stablehlo(parse_stablehlo(text)), given, 1, 3) == [[0, 0], [0, 1], [2, 3]]


INFEED_TEXT = """func.func @main() -> (tensor<2xi64>, tensor<i1>, tensor<i64>) {
  %t = stablehlo.after_all : !stablehlo.token
  %a:3 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<2xi64>, tensor<i1>,
    !stablehlo.token)
  %b:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<i64>, !stablehlo.token)
  return %a#0, %a#1, %b#0 : tensor<2xi64>, tensor<i1>, tensor<i64>
}"""


def test_infeed() -> None:
    queue = deque([(np.array([1, 2]), np.bool_(True)), (np.int64(3),)])
    assert values(INFEED_TEXT, world=World(extra={INFEED: queue})) == ([1, 2], True, 3)
    with pytest.raises(EvaluationError, match="the queue is empty"):
        values(INFEED_TEXT)
    wrong = deque([(np.array([1, 2]),)])
    with pytest.raises(EvaluationError, match="of another type: it is not a tuple of 3"):
        values(INFEED_TEXT, world=World(extra={INFEED: wrong}))


def test_infeed_of_run_parallel() -> None:
    text = """func.func @one() -> tensor<i32> {
      %c = stablehlo.constant dense<1> : tensor<i32>
      return %c : tensor<i32>
    }
    func.func @two() -> tensor<i32> {
      %c = stablehlo.constant dense<2> : tensor<i32>
      return %c : tensor<i32>
    }
    func.func @takes(%t: !stablehlo.token) -> tensor<i32> {
      %r:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
      return %r#0 : tensor<i32>
    }
    func.func @main() -> (tensor<i32>, tensor<i32>) {
      %t = stablehlo.after_all : !stablehlo.token
      %r:2 = "interpreter.run_parallel"(%t, %t) {
        infeed = [@one, @two], programs = [[@takes], [@takes]]
      } : (!stablehlo.token, !stablehlo.token) -> (tensor<i32>, tensor<i32>)
      return %r#0, %r#1 : tensor<i32>, tensor<i32>
    }"""
    assert values(text) == (1, 2)


def test_hlo_infeed_and_outfeed() -> None:
    text = """HloModule m
    ENTRY e {
      t = token[] after-all()
      i = ((s32[2], s32[]), token[]) infeed(t)
      d = (s32[2], s32[]) get-tuple-element(i), index=0
      x = s32[2] get-tuple-element(d), index=0
      o = token[] outfeed(x, t), outfeed_shape=s32[2]
      ROOT r = s32[] get-tuple-element(d), index=1
    }"""
    queue = deque([(np.array([1, 2], "int32"), np.int32(3))])
    world = World(extra={INFEED: queue})
    assert values(text, world=world) == 3
    assert [plain(given) for given in world.extra[OUTFEED]] == [([1, 2],)]


def test_async_of_stablehlo() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %f = "stablehlo.async_start"(%x) ({
      ^bb0(%a: tensor<2xf32>):
        %s = stablehlo.add %a, %a : tensor<2xf32>
        stablehlo.return %s, %a : tensor<2xf32>, tensor<2xf32>
      }) : (tensor<2xf32>) -> !stablehlo.future<tensor<2xf32>, tensor<2xf32>>
      %r:2 = "stablehlo.async_done"(%f)
        : (!stablehlo.future<tensor<2xf32>, tensor<2xf32>>) -> (tensor<2xf32>, tensor<2xf32>)
      return %r#0, %r#1 : tensor<2xf32>, tensor<2xf32>
    }"""
    assert values(text, [1, 2]) == ([2, 4], [1, 2])


def test_async_of_hlo() -> None:
    text = """HloModule m
    f { p = f32[2] parameter(0) ROOT r = f32[2] add(p, p) }
    ENTRY e {
      x = f32[2] parameter(0)
      s = ((f32[2]), f32[2], s32[]) async-start(x), calls=f
      u = ((f32[2]), f32[2], s32[]) async-update(s)
      ROOT d = f32[2] async-done(u)
    }"""
    assert values(text, np.array([1, 2], "float32")) == [2, 4]


def test_async_of_a_computation_that_returns_a_tuple() -> None:
    text = """HloModule m
    f { p = f32[2] parameter(0) q = f32[2] add(p, p) ROOT r = (f32[2], f32[2]) tuple(p, q) }
    ENTRY e {
      x = f32[2] parameter(0)
      s = ((f32[2]), (f32[2], f32[2])) async-start(x), calls=f
      ROOT d = (f32[2], f32[2]) async-done(s)
    }"""
    assert values(text, np.array([1, 2], "float32")) == ([1, 2], [2, 4])


def test_sugar_of_any_op() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[2] parameter(0)
      s = ((f32[2], f32[2]), f32[2]) add-start(x, x)
      ROOT d = f32[2] add-done(s)
    }"""
    assert values(text, np.array([1, 2], "float32")) == [2, 4]


def test_tokens_are_values() -> None:
    text = """HloModule m
    ENTRY e { p = s32[] parameter(0) t = token[] after-all() ROOT o = token[] outfeed(p, t) }"""
    assert values(text, np.int32(1)) is TOKEN
