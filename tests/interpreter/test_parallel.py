"""Processes side by side: one result whatever the order, and errors instead of waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter import parallel as parallel_processes
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.values import EvaluationError, World
from tests.interpreter.helpers import grid, read, values

REDUCE = """%r = "stablehlo.all_reduce"(%x) ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32> }) {
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
  } : (tensor<i32>) -> tensor<i32>"""
GATHER = """%g = "stablehlo.all_gather"(%v) {all_gather_dim = 0 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi32>) -> tensor<2xi32>"""


def parallel(programs: str, *functions: str) -> str:
    rows = programs.split()
    count = sum(len(row.split(",")) for row in rows)
    grid = ", ".join(f"[{', '.join('@' + name for name in row.split(','))}]" for row in rows)
    results = ", ".join(["tensor<i32>"] * count)
    names = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r"
    many = f":{count}" if count > 1 else ""
    return (
        "\n".join(functions)
        + f"""
    func.func @main(%x: tensor<i32>) -> ({results}) {{
      %r{many} = "interpreter.run_parallel"({", ".join(["%x"] * count)}) {{
        programs = [{grid}] }} : ({results}) -> ({results})
      return {names} : {results}
    }}"""
    )


def function(name: str, body: str) -> str:
    return f"""func.func @{name}(%x: tensor<i32>) -> tensor<i32> {{
      {body}
      return %r : tensor<i32>
    }}"""


ADDS = function("adds", REDUCE)
WAITS = function("waits", f"%v = stablehlo.reshape %x : (tensor<i32>) -> tensor<1xi32>\n{GATHER}\n"
    "%r = stablehlo.add %x, %x : tensor<i32>")  # fmt: skip
LEAVES = function("leaves", "%r = stablehlo.add %x, %x : tensor<i32>")
FAILS = function("fails", "check.expect_eq_const %x, dense<0> : tensor<i32>\n"
    "%r = stablehlo.add %x, %x : tensor<i32>")  # fmt: skip


def test_programs_side_by_side() -> None:
    assert values(parallel("adds adds", ADDS), 4) == (8, 8)
    assert values(parallel("leaves,leaves leaves,leaves", LEAVES), 3) == (6, 6, 6, 6)


def test_one_that_has_ended_is_named() -> None:
    message = (
        r"no process can go on: process \(0, 0\) waits at `all_reduce` \(line 2\) for \(1, 0\);"
        r" \(1, 0\) has ended"
    )
    with pytest.raises(EvaluationError, match=message) as caught:
        values(parallel("adds leaves", ADDS, LEAVES), 4)
    assert caught.value.span is not None


def test_processes_at_different_ops() -> None:
    with pytest.raises(EvaluationError, match=r"\(1, 0\) is at `all_gather`.* at `all_reduce`"):
        values(parallel("adds waits", ADDS, WAITS), 4)


def test_processes_that_wait_for_each_other() -> None:
    other = WAITS.replace("replica_groups", "channel_handle = #stablehlo.channel_handle<handle = 2,"
        " type = 0>, replica_groups").replace("@waits", "@other")  # fmt: skip
    with pytest.raises(EvaluationError) as caught:
        values(parallel("waits other", WAITS, other), 4)
    text = caught.value.message
    assert "process (0, 0) waits at `all_gather`" in text
    assert "process (1, 0) waits at `all_gather`" in text


def test_shapes_that_differ() -> None:
    two = WAITS.replace("@waits", "@two").replace("-> tensor<1xi32>", "-> tensor<1x1xi32>")
    two = two.replace("(tensor<1xi32>) -> tensor<2xi32>", "(tensor<1x1xi32>) -> tensor<2x1xi32>")
    with pytest.raises(EvaluationError, match="different numbers or shapes"):
        values(parallel("waits two", WAITS, two), 4)


def test_an_error_in_one_ends_all() -> None:
    before = threading.active_count()
    with pytest.raises(EvaluationError, match="found 4, expected 0"):
        values(parallel("adds fails", ADDS, FAILS), 4)
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(1)
    assert threading.active_count() <= before


def test_a_large_grid() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %s = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %s : tensor<i32> }) {
        replica_groups = dense<> : tensor<0x0xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>
      } : (tensor<i32>) -> tensor<i32>
      return %r : tensor<i32>
    }"""
    assert grid(text, [[i] for i in range(64)], 8, 8) == [sum(range(64))] * 64


def test_steps_are_counted_together() -> None:
    text = parallel("leaves leaves", LEAVES)
    world = World()
    values(text, 1, world=world)
    assert world.steps == 5  # main: run_parallel and two results; one step each in the functions
    with pytest.raises(EvaluationError, match="stopped after 2 steps"):
        values(text, 1, world=World(max_steps=2))


def test_bounded_loops_in_a_grid() -> None:
    forever = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %t = stablehlo.constant dense<true> : tensor<i1>
      %r = stablehlo.while(%i = %x) : tensor<i32> cond { stablehlo.return %t : tensor<i1> } do {
        stablehlo.return %i : tensor<i32> }
      return %r : tensor<i32>
    }"""
    text = forever.replace("%i : tensor<i32> }", "%j : tensor<i32> }")
    text = text.replace("do {", "do { %j = stablehlo.add %i, %i : tensor<i32>")
    with pytest.raises(EvaluationError, match="stopped after 100 steps"):
        evaluate_grid(read(text), [[1]], 2, 1, World(max_steps=100))


def test_wrong_arguments() -> None:
    module = read(function("main", "%r = stablehlo.add %x, %x : tensor<i32>"))
    with pytest.raises(EvaluationError, match="takes 1 argument "):
        evaluate_grid(module, [[1, 2]], 2, 1)
    with pytest.raises(EvaluationError, match="3 lists of arguments for 2 processes"):
        evaluate_grid(module, [[1], [2], [3]], 2, 1)
    with pytest.raises(EvaluationError, match=r"argument 0 should be s32\[\]"):
        evaluate_grid(module, [[[1, 2]]], 2, 1)


def test_functions_that_do_not_exist() -> None:
    with pytest.raises(HloscopeError, match="no function `@adss`"):
        values(parallel("adss", ADDS), 1)


def test_grids_inside_grids() -> None:
    inner = function("inner", """%r:2 = "interpreter.run_parallel"(%x, %x) {
        programs = [[@adds], [@adds]] } : (tensor<i32>, tensor<i32>)
          -> (tensor<i32>, tensor<i32>)""").replace("return %r ", "return %r#0 ")  # fmt: skip
    assert values(parallel("inner inner", ADDS, inner), 4) == (8, 8)


def test_threads_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[threading.Event] = []

    def starts(work: Callable[..., None], given: tuple[Any, ...]) -> None:
        if ended:
            raise RuntimeError("can't start new thread")
        ended.append(threading.Event())

        def run() -> None:
            work(*given)
            ended[0].set()

        threading.Thread(target=run).start()

    monkeypatch.setattr(parallel_processes, "start_new_thread", starts)
    with pytest.raises(EvaluationError, match="cannot run 2 processes: can't start new thread"):
        values(parallel("leaves leaves", LEAVES), 1)
    assert ended[0].wait(10)


@pytest.mark.parametrize(
    ("processes", "others", "more"),
    [
        (3, "", ""),
        (9, "", ""),
        (10, "1 other waits; ", " and 1 more"),
        (20, "11 others wait; ", " and 11 more"),
    ],
)
def test_eight_of_those_that_wait_are_named_and_the_rest_counted(
    processes: int, others: str, more: str
) -> None:
    """Process (0, 0) calls no reduction and ends."""
    text = f"""HloModule m
    add {{ a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }}
    same {{ ROOT p = s32[] parameter(0) }}
    reduce {{ p = s32[] parameter(0) ROOT r = s32[] all-reduce(p), to_apply=add,
      replica_groups={{{{{",".join(map(str, range(processes)))}}}}} }}
    ENTRY e {{ p = s32[] parameter(0)
      i = u32[] replica-id()
      z = u32[] constant(0)
      c = pred[] compare(i, z), direction=EQ
      ROOT r = s32[] conditional(c, p, p), true_computation=same, false_computation=reduce }}"""
    with pytest.raises(EvaluationError) as caught:
        grid(text, [[1]] * processes, processes)
    told = []
    for k in range(1, processes)[:8]:
        members = ", ".join([f"({m}, 0)" for m in range(processes) if m != k][:8])
        told.append(f"process ({k}, 0) waits at `all_reduce` (line 4) for {members}{more}")
    message = f"no process can go on: {'; '.join(told)}; {others}(0, 0) has ended"
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.span.line == 4


def test_results_are_of_the_declared_types() -> None:
    text = """
    ENTRY e { p = f32[2] parameter(0)
      s = (f32[2], f32[3]) collective-permute-start(p), source_target_pairs={{0,1}}
      ROOT d = f32[3] collective-permute-done(s) }"""
    module = parse_hlo(text)
    with pytest.raises(EvaluationError, match=r"result 0 should be f32\[3\]: .*program is wrong"):
        evaluate_grid(module, [[[1, 2]]], 2, 1)
