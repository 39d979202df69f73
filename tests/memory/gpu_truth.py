"""Kernels as an H100 runs them: launches and traffic by execution of PTX, against the model.

`python -m tests.memory.gpu_truth` prints what agrees, and every kernel that does not, with its
reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import hloscope
from hloscope.memory import ArrayUse, Coalescing, Traffic
from tests.conftest import SHARED

PATH: Final = SHARED / "conformance/gpu/gpu_truth.json"
FIGURES: Final = ("requests", "sectors", "lines", "bytes")
Figures = tuple[int, ...]

SLOW_PATH: Final = "sine and cosine branch to a slow path, which parts the basic block"
THREADED: Final = "LLVM repeats loads on the ways through nested conditions, or joins those ways"
TWO_FORMS: Final = "one element is read by two forms of its index, of which LLVM joins some"
STATED: Final[dict[tuple[str, str], str]] = {
    ("cartpole_rollout_policy_grad", "input_concatenate_fusion"): SLOW_PATH,
    ("kv_cache_decode_loop", "loop_dynamic_update_slice_fusion.2"): SLOW_PATH,
    ("complex_fft2", "input_concatenate_fusion"): THREADED,
    ("cumulative_ops", "loop_reduce_window_reverse_fusion"): THREADED,
    ("heat_stencil_rk4", "input_reduce_subtract_fusion"): THREADED,
    ("heat_stencil_rk4", "loop_add_fusion"): THREADED,
    ("moe_ragged_dot", "loop_transpose_fusion"): THREADED,
    ("moe_ragged_dot", "loop_transpose_fusion.1"): THREADED,
    ("convnet_fwd_bwd", "input_reduce_select_fusion"): TWO_FORMS,
    ("resnet_block_bn_train", "input_multiply_reduce_fusion"): TWO_FORMS,
}
"""Kernels of which the model says something else than what is executed, and why."""


class Compared(NamedTuple):
    """What became of one kernel.

    Attributes:
        program: The program that it is of.
        kernel: Its name.
        launch: What is wrong with its launch dimensions; empty if nothing is.
        equal: Arrays whose figures are equal.
        bounded: Arrays whose figures lie between best and worst.
        others: What is wrong with the other arrays.
    """

    program: str
    kernel: str
    launch: str
    equal: int
    bounded: int
    others: tuple[str, ...]


@cache
def compared() -> tuple[Compared, ...]:
    """Every kernel of XLA's own emitters."""
    found = []
    for entry in json.loads(PATH.read_text())["programs"]:
        program = hloscope.read(entry["hlo"])
        for kernel in entry["kernels"]:
            if not kernel["triton"]:
                answer = program[kernel["kernel"]].coalescing().answer
                found.append(_kernel(entry["program"], kernel, answer))
    return tuple(found)


def _kernel(program: str, kernel: dict[str, Any], answer: Coalescing) -> Compared:
    launch = answer.kernel.launch
    assert launch is not None
    wanted = kernel["launch"]["threads"], kernel["launch"]["blocks"]
    is_launched = ([*launch.threads], [*launch.blocks]) == wanted
    equal = bounded = 0
    others = []
    for use, executed in _arrays(kernel["arrays"], answer):
        precision, text = _judged(use, executed)
        equal += precision == "equal"
        bounded += precision == "bounds"
        if text:
            kind = "output" if use.is_output else "operand"
            others.append(f"{kind} {use.number} {use.type}: {text}")
    fault = "" if is_launched else f"model {launch}, executed {wanted}"
    return Compared(program, kernel["kernel"], fault, equal, bounded, tuple(others))


def _arrays(
    arrays: Sequence[dict[str, Any]], answer: Coalescing
) -> Iterator[tuple[ArrayUse, Figures]]:
    """Each array of the model, and its figures by execution.

    A store in place goes through the operand's pointer, so that the operand is written.
    """
    operands = [a for a in arrays if a["role"] == "operand"]
    outputs = [a for a in arrays if a["role"] == "output"]
    for use in answer.operands:
        own = next(
            a
            for a in operands
            if a["number"] == use.number and tuple(a["leaf"]) in ((), (use.leaf,))
        )
        yield use, _figures(own, "read")
    written = [a for a in operands if any(_figures(a, "written", "atomic"))]
    for use, output in zip(answer.outputs, outputs, strict=True):
        found = _figures(output, "written", "atomic")
        if not any(found):
            same = next((a for a in written if a["type"] == output["type"]), None)
            if same is not None:
                written.remove(same)
                found = _figures(same, "written", "atomic")
        yield use, found


def _figures(array: dict[str, Any], *ways: str) -> Figures:
    every = [array[way] for way in ways if way in array]
    return tuple([sum([one[name] for one in every]) for name in FIGURES])


def _of(traffic: Traffic) -> Figures:
    return traffic.requests, traffic.sectors, traffic.lines, traffic.asked


def _judged(use: ArrayUse, executed: Figures) -> tuple[str, str]:
    """`equal` or `bounds`, or what is wrong."""
    if use.traffic is None:
        return "", f"not known, executed {executed}"
    told = _of(use.traffic)
    if use.traffic.best is None and use.traffic.tries == 1:
        return ("equal", "") if told == executed else ("", f"model {told}, executed {executed}")
    best = _of(use.traffic.best or use.traffic)
    told = tuple([figure * use.traffic.tries for figure in told])
    is_between = all(a <= b <= c for a, b, c in zip(best, executed, told, strict=True))
    return ("bounds", "") if is_between else ("", f"model {best} to {told}, executed {executed}")


def table() -> str:
    """What agrees, and every kernel that does not, with its reason."""
    every = compared()
    wrong = [one for one in every if one.launch or one.others]
    arrays = sum([one.equal + one.bounded + len(one.others) for one in every])
    lines = [
        f"{len(every)} kernels: launch {sum(not one.launch for one in every)}, "
        f"arrays {len(every) - len(wrong)} ({1 - len(wrong) / len(every):.1%})",
        f"{arrays} arrays: equal {sum(one.equal for one in every)}, "
        f"between best and worst {sum(one.bounded for one in every)}, "
        f"others {sum(len(one.others) for one in every)}",
    ]
    for one in wrong:
        lines.append(f"{one.program} {one.kernel}: {STATED.get(one[:2], 'no stated reason')}")
        lines += [f"    {text}" for text in (one.launch, *one.others) if text]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
