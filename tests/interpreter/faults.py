"""Programs and calls that are wrong, and how `hloscope run` has to end on each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
MEMORY = 2 << 30
"""Address space a run may take, in bytes: far less than what the programs ask for."""

TAKES = "ENTRY e { p = f32[2,3] parameter(0) n = s32[] parameter(1) ROOT r = f32[2,3] negate(p) }"
LOOP = """func.func @main() -> tensor<i32> {
  %x = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.while(%a = %x) : tensor<i32>
  cond {
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    stablehlo.return %a : tensor<i32>
  }
  return %0 : tensor<i32>
}"""
RECURSION = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = func.call @main(%x) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}"""
DYNAMIC = """func.func @main() -> tensor<?x?xf32> {
  %s = stablehlo.constant dense<[250000, 100000]> : tensor<2xi64>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}"""
SHOUT = """func.func @main() -> tensor<f32> {
  %s = stablehlo.constant dense<[SIZES]> : tensor<2xi64>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [] :
    (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
  %1 = stablehlo.exponential %0 : tensor<?x?xf32>
  %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0, 1] :
    (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}"""
WINDOW = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[4] constant({1, 2, 3, 4}) z = f32[] constant(0)
  ROOT r = f32[1] reduce-window(x, z), to_apply=add,
    window={size=2000000000 pad=1000000000_999999996} }"""
MISSED = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
here { a = f32[] parameter(0) ROOT r = f32[] all-reduce(a), to_apply=add }
there { ROOT a = f32[] parameter(0) }
ENTRY e { i = u32[] replica-id() z = u32[] constant(0) one = f32[] constant(1)
  p = pred[] compare(i, z), direction=EQ
  ROOT r = f32[] conditional(p, one, one), true_computation=here, false_computation=there }"""
BRANCHING = """func.func @main(%x: tensor<i1>) -> tensor<i1> {
  %0 = "stablehlo.if"(%x) ({
    %1 = func.call @main(%x) : (tensor<i1>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, { stablehlo.return %x : tensor<i1> }) : (tensor<i1>) -> tensor<i1>
  return %0 : tensor<i1>
}"""


class Fault(NamedTuple):
    """A run that fails: the program, options, the exit code, and what is said at least."""

    text: str
    options: tuple[str, ...]
    exit_code: int
    said: str


FAULTS: dict[str, Fault] = {
    "no arguments": Fault(TAKES, (), 2, "takes 2 arguments"),
    "too few arguments": Fault(TAKES, ("--args", "[dense<1> : tensor<i32>]"), 2, "found 1"),
    "a wrong type": Fault(
        TAKES, ("--args", "[dense<1> : tensor<2x3xi32>, dense<1> : tensor<i32>]"), 2, "int32"
    ),
    "a wrong shape": Fault(
        TAKES, ("--args", "[dense<1.0> : tensor<3x2xf32>, dense<1> : tensor<i32>]"), 2, "(3, 2)"
    ),
    "arguments that are no literals": Fault(TAKES, ("--args", "[1, 2"), 2, "expected array"),
    "an input file that is missing": Fault(TAKES, ("--input", "/none.npz"), 3, "/none.npz"),
    "an input file that is none": Fault(TAKES, ("--input", __file__), 3, "faults.py"),
    "an entry that is missing": Fault(TAKES, ("--entry", "f"), 2, "`f`"),
    "an endless loop": Fault(LOOP, ("--max-steps", "10000"), 1, "stopped after 10,000 steps"),
    "endless calls": Fault(
        RECURSION, ("--args", "[dense<1> : tensor<i32>]", "--max-steps", "10000"), 1, "stopped"
    ),
    "endless calls without a limit": Fault(
        RECURSION, ("--args", "[dense<1> : tensor<i32>]"), 1, "calls nest more than"
    ),
    "endless calls in branches": Fault(
        BRANCHING, ("--args", "[dense<true> : tensor<i1>]"), 1, "nest too deeply"
    ),
    "an iota of 100 GB": Fault(
        "ENTRY e { ROOT i = f32[25000000000] iota(), iota_dimension=0 }", (), 1, "100,000,000,000"
    ),
    "a broadcast of 100 GB": Fault(
        """ENTRY e { c = f32[] constant(1) b = f32[25000000000] broadcast(c), dimensions={}
        ROOT n = f32[25000000000] negate(b) }""", (), 1, "100,000,000,000"
    ),
    "a result above --max-bytes": Fault(
        "ENTRY e { ROOT i = f32[1000] iota(), iota_dimension=0 }", ("--max-bytes", "3999"), 1,
        "at most 3,999"
    ),
    "more than there is": Fault(
        "ENTRY e { ROOT i = f32[1500000000] iota(), iota_dimension=0 }", (), 1, "out of memory"
    ),
    "a window as large as the memory": Fault(WINDOW, (), 1, "a padded operand needs"),
    "an iota of 100 GB, known at run time": Fault(DYNAMIC, (), 1, "bytes"),
    "a broadcast of 100 GB, known at run time": Fault(
        SHOUT.replace("SIZES", "250000, 100000"), (), 1, "bytes"
    ),
    "a negative size": Fault(SHOUT.replace("SIZES", "-1, 5"), (), 3, "-1"),
    "a random argument of 100 GB": Fault(
        "ENTRY e { p = f32[25000000000] parameter(0) ROOT s = f32[1] slice(p), slice={[0:1]} }",
        ("--random", "1"), 2, "argument 0 needs"
    ),
    "an unknown custom call": Fault(
        'ENTRY e { ROOT c = f32[2] custom-call(), custom_call_target="mine" }', (), 4, "`mine`"
    ),
    "a failed assertion": Fault(
        """func.func @main() {
          %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
          check.expect_eq_const %c, dense<[1, 3]> : tensor<2xi32>
          return
        }""", (), 1, "expect_eq_const"
    ),
    "a receiver without a sender": Fault(
        """ENTRY e { t = token[] after-all() r = (f32[2], u32[], token[]) recv(t), channel_id=1
        ROOT d = (f32[2], token[]) recv-done(r), channel_id=1 }""", ("--replicas", "2"), 1,
        "no process can go on"
    ),
    "a collective some do not reach": Fault(
        MISSED, ("--replicas", "2"), 1, "no process can go on"
    ),
    "infeed of nothing": Fault(
        """ENTRY e { t = token[] after-all() ROOT i = (f32[2], token[]) infeed(t) }""", (), 1,
        "infeed"
    ),
    "a wrong program": Fault(
        "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }", ("--random", "1"), 3,
        "is declared f32[3]"
    ),
    "no program": Fault("ENTRY e { ROOT a = f32[2] paramter(0) }", (), 3, "paramter"),
    "a file of weights instead of a program": Fault("\x00\x01\x02", (), 3, ""),
}  # fmt: skip
"""What goes wrong by name.  Exit codes: 1 the run fails, 2 usage, 3 the input is wrong,
4 not supported."""

DEFINED: dict[str, tuple[str, str]] = {
    "integers divided by zero": (
        """ENTRY e { a = s32[2] constant({7, -7}) z = s32[] constant(0)
        b = s32[2] broadcast(z), dimensions={} ROOT d = s32[2] divide(a, b) }""", "-1"
    ),
    "remainders by zero": (
        """ENTRY e { a = s32[2] constant({7, -7}) z = s32[] constant(0)
        b = s32[2] broadcast(z), dimensions={} ROOT d = s32[2] remainder(a, b) }""", "[7, -7]"
    ),
    "the smallest integer divided by -1": (
        "ENTRY e { a = s8[] constant(-128) b = s8[] constant(-1) ROOT d = s8[] divide(a, b) }",
        "-128"
    ),
    "indices outside": (
        """ENTRY e { a = s32[4] iota(), iota_dimension=0 i = s32[] constant(99)
        ROOT d = s32[2] dynamic-slice(a, i), dynamic_slice_sizes={2} }""", "[2, 3]"
    ),
    "shifts by more than the width": (
        "ENTRY e { a = u8[] constant(1) b = u8[] constant(9) ROOT d = u8[] shift-left(a, b) }", "0"
    ),
}  # fmt: skip
"""Programs that kill the reference, and what they return here."""


class Ending(NamedTuple):
    """How a run ended, what it printed, and how long it took."""

    exit_code: int
    out: str
    err: str
    seconds: float


def run(text: str, *options: str) -> Ending:
    """Run a program by the command, with little memory."""
    begin = time.perf_counter()
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))\n"
    start = f"{limited}from hloscope.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, "run", "-", *options],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    return Ending(done.returncode, done.stdout, done.stderr, time.perf_counter() - begin)


def wrong(name: str) -> str:
    """What is wrong with the way a fault ends, nothing if it is right."""
    fault = FAULTS[name]
    ending = run(fault.text, *fault.options)
    if ending.exit_code != fault.exit_code:
        return f"exit code {ending.exit_code}, not {fault.exit_code}: {ending.err[-300:]}"
    if "Traceback" in ending.err or "internal error" in ending.err:
        return f"a crash: {ending.err[-300:]}"
    if fault.said not in ending.err + ending.out:
        return f"`{fault.said}` is not said: {ending.err[-300:]}"
    return "it takes too long" if ending.seconds > 20 else ""
