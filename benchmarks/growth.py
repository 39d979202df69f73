"""How the CPU time of a question grows with the size of what is asked about.

    python benchmarks/growth.py [--json] [ROW …]

Each row asks one question of programs of n, 2n, 4n … 64n parts, each in a process of its own with
empty memo tables, and fits the exponent `e` of `time = c * n ** e` for the largest four; starting
and reading are not counted.
The exit code is 1 where an exponent passes 1.3: work that should be linear is not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from time import process_time
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import hloscope
from benchmarks.measuring import load
from hloscope.display import json_line

MOST: Final = 1.3
"""An exponent above this is not linear."""
LARGE: Final = 4
"""The exponent is that of so many of the largest sizes: small ones take as long as to begin."""
ROOMS: Final = (
    "simplifier",
    "indexing",
    "fusion",
    "memory",
    "interpreter",
    "buffers",
    "display",
    "api",
)
"""What answers: it is imported before they are asked for."""
RUNS: Final = 5
"""The least time of so many runs counts; all sizes are asked about once before any is again."""


@dataclass(frozen=True, slots=True)
class Row:
    """A family of programs, the question, and the numbers of parts asked about."""

    text: Callable[[int], str]
    ask: Callable[[hloscope.Program], Any]
    sizes: tuple[int, ...]


def concatenation(n: int) -> str:
    """A fusion of n operands, one behind the other."""
    parameters = "\n".join(f"p{k} = f32[4] parameter({k})" for k in range(n))
    names = ", ".join(f"p{k}" for k in range(n))
    return (
        f"HloModule m\nf {{\n{parameters}\n"
        f"ROOT c = f32[{4 * n}] concatenate({names}), dimensions={{0}}\n}}\n"
        f"ENTRY e {{\n{parameters}\n"
        f"ROOT r = f32[{4 * n}] fusion({names}), kind=kLoop, calls=f\n}}"
    )


def slices(n: int) -> str:
    """A chain of n slices, to each of which a parameter is added."""
    lines, value = [f"p = f32[{2 * n}] parameter(0)"], "p"
    for k in range(n):
        size = 2 * n - k - 1
        lines += [
            f"s{k} = f32[{size}] slice({value}), slice={{[1:{size + 1}]}}",
            f"q{k} = f32[{size}] parameter({k + 1})",
            f"a{k} = f32[{size}] add(s{k}, q{k})",
        ]
        value = f"a{k}"
    return "HloModule m\nENTRY e {\n" + "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}\n}}"


def fused(shape: str, lines: Sequence[str]) -> str:
    """A fusion of these instructions, from a parameter of a shape to a value of it."""
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return (
        f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{\np = {shape} parameter(0)\n"
        f"ROOT r = {shape} fusion(p), kind=kLoop, calls=f\n}}"
    )


def rearrangements(n: int) -> str:
    """A fusion that splits, transposes and joins a matrix n times."""
    lines, value = ["p = f32[64,48] parameter(0)"], "p"
    for k in range(n):
        lines += [
            f"a{k} = f32[4,16,3,16] reshape({value})",
            f"b{k} = f32[16,3,4,16] transpose(a{k}), dimensions={{1,2,0,3}}",
            f"c{k} = f32[64,48] reshape(b{k})",
        ]
        value = f"c{k}"
    return fused("f32[64,48]", lines)


def layers(n: int) -> str:
    """A tuple of n outputs, each of two parameters of its own and of one for all."""
    lines, outputs = ["p = f32[8,8] parameter(0)"], []
    for k in range(n):
        lines += [
            f"w{k} = f32[8,8] parameter({2 * k + 1})",
            f"b{k} = f32[8] parameter({2 * k + 2})",
            f"d{k} = f32[8,8] dot(p, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"c{k} = f32[8,8] broadcast(b{k}), dimensions={{1}}",
            f"a{k} = f32[8,8] add(d{k}, c{k})",
        ]
        outputs.append(f"a{k}")
    shape = ", ".join(["f32[8,8]"] * n)
    body = "\n".join(lines)
    return f"HloModule m\nENTRY e {{\n{body}\nROOT r = ({shape}) tuple({', '.join(outputs)})\n}}"


def loop(n: int) -> str:
    """A loop of n turns, each of which adds to one number."""
    return f"""HloModule m
body {{ t = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(t), index=0
x = f32[] get-tuple-element(t), index=1 one = s32[] constant(1) two = f32[] constant(2)
j = s32[] add(i, one) y = f32[] add(x, two) ROOT r = (s32[], f32[]) tuple(j, y) }}
condition {{ t = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(t), index=0
n = s32[] constant({n}) ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ i = s32[] constant(0) x = f32[] constant(0) t = (s32[], f32[]) tuple(i, x)
ROOT w = (s32[], f32[]) while(t), condition=condition, body=body }}"""


def carried(n: int) -> str:
    """A loop that carries n arrays, each of which depends on itself."""
    all = f"({numbered(n, 'f32[8]')}, s32[])"
    body = numbered(n, "x# = f32[8] get-tuple-element(t), index=#\ny# = f32[8] negate(x#)", "\n")
    return f"""HloModule m
body {{ t = {all} parameter(0)
{body}
i = s32[] get-tuple-element(t), index={n} one = s32[] constant(1) j = s32[] add(i, one)
ROOT r = {all} tuple({numbered(n, "y#")}, j) }}
condition {{ t = {all} parameter(0)
i = s32[] get-tuple-element(t), index={n}
n = s32[] constant(9) ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ t = {all} parameter(0)
ROOT w = {all} while(t), condition=condition, body=body }}"""


def updates(n: int) -> str:
    """A loop of 1000 turns, each of which writes one number of an array of n thousand."""
    size = 1000 * n
    both = f"(s32[], f32[{size}])"
    return f"""HloModule m
body {{ t = {both} parameter(0) i = s32[] get-tuple-element(t), index=0
x = f32[{size}] get-tuple-element(t), index=1 one = s32[] constant(1) two = f32[1] constant({{2}})
j = s32[] add(i, one) y = f32[{size}] dynamic-update-slice(x, two, i) ROOT r = {both} tuple(j, y) }}
condition {{ t = {both} parameter(0) i = s32[] get-tuple-element(t), index=0
n = s32[] constant(1000) ROOT c = pred[] compare(i, n), direction=LT }}
ENTRY e {{ i = s32[] constant(0) z = f32[] constant(0) x = f32[{size}] broadcast(z), dimensions={{}}
t = {both} tuple(i, x) ROOT w = {both} while(t), condition=condition, body=body }}"""


def scan(n: int) -> str:
    """A fusion of all sums from the first on, by shifting by 1, 2, 4 and so on, n times over."""
    lines, value, size = ["p = f32[1024] parameter(0)", "z = f32[] constant(0)"], "p", 1024
    for k in range(n):
        shift = 1 << k % 10
        lines += [
            f"s{k} = f32[{size - shift}] slice({value}), slice={{[0:{size - shift}]}}",
            f"q{k} = f32[{size}] pad(s{k}, z), padding={shift}_0",
            f"a{k} = f32[{size}] add({value}, q{k})",
        ]
        value = f"a{k}"
    return fused("f32[1024]", lines)


def numbered(count: int, text: str, separator: str = ", ") -> str:
    """A text with 0, 1, 2 and so on for `#`, one behind the other.

    >>> numbered(3, "p#")
    'p0, p1, p2'
    """
    return separator.join([text.replace("#", str(k)) for k in range(count)])


def sort(n: int) -> str:
    """A sort of n arrays by the first of them."""
    handed = numbered(n, "p# = f32[8] parameter(#)", "\n")
    body = "\n".join([f"x{k} = f32[] parameter({k})" for k in range(2 * n)])
    return (
        f"HloModule m\nless {{\n{body}\nROOT r = pred[] compare(x0, x1), direction=LT\n}}\n"
        f"ENTRY e {{\n{handed}\nROOT r = ({numbered(n, 'f32[8]')}) sort({numbered(n, 'p#')}), "
        "dimensions={0}, to_apply=less\n}"
    )


def sums(n: int) -> str:
    """A reduction of n arrays, each to its own sums."""
    body = "\n".join([f"x{k} = f32[] parameter({k})" for k in range(2 * n)])
    added = "\n".join([f"s{k} = f32[] add(x{k}, x{n + k})" for k in range(n)])
    handed = numbered(n, "p# = f32[8,4] parameter(#)", "\n")
    return (
        f"HloModule m\nall {{\n{body}\n{added}\n"
        f"ROOT r = ({numbered(n, 'f32[]')}) tuple({numbered(n, 's#')})\n}}\n"
        f"ENTRY e {{\n{handed}\nz = f32[] constant(0)\nROOT r = ({numbered(n, 'f32[8]')}) "
        f"reduce({numbered(n, 'p#')}, {numbered(n, 'z')}), dimensions={{1}}, to_apply=all\n}}"
    )


def calls(n: int) -> str:
    """A chain of n computations, each of which calls the one before."""
    nested = "".join(
        [
            f"c{k} {{ p = f32[8] parameter(0) q = f32[8] call(p), to_apply=c{k - 1}"
            " ROOT r = f32[8] add(p, q) }\n"
            for k in range(1, n)
        ]
    )
    return (
        "HloModule m\nc0 { p = f32[8] parameter(0) ROOT r = f32[8] reverse(p), dimensions={0} }\n"
        f"{nested}ENTRY e {{ p = f32[8] parameter(0)"
        f" ROOT r = f32[8] call(p), to_apply=c{n - 1} }}"
    )


def shifted(n: int) -> str:
    """A fusion of `x[:-1] + x[1:]`, n times over."""
    lines, value, size = [f"p = f32[{n + 8}] parameter(0)"], "p", n + 8
    for k in range(n):
        size -= 1
        lines += [
            f"a{k} = f32[{size}] slice({value}), slice={{[0:{size}]}}",
            f"b{k} = f32[{size}] slice({value}), slice={{[1:{size + 1}]}}",
            f"x{k} = f32[{size}] add(a{k}, b{k})",
        ]
        value = f"x{k}"
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return (
        f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{\np = f32[{n + 8}] parameter(0)\n"
        "ROOT r = f32[8] fusion(p), kind=kLoop, calls=f\n}"
    )


def gathers(n: int) -> str:
    """A fusion of n gathers of rows, each of what the one before gathered."""
    lines, value = ["p = f32[64,32] parameter(0)", "i = s32[64,1] parameter(1)"], "p"
    for k in range(n):
        lines.append(
            f"x{k} = f32[64,32] gather({value}, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}"
        )
        value = f"x{k}"
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return (
        f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{\np = f32[64,32] parameter(0)\n"
        "i = s32[64,1] parameter(1)\nROOT r = f32[64,32] fusion(p, i), kind=kLoop, calls=f\n}"
    )


def residuals(n: int) -> str:
    """A scheduled step of n layers: what each keeps is read again in the reverse order."""
    lines, value = ["p = f32[64,64] parameter(0)"], "p"
    for k in range(n):
        lines.append(f"h{k} = f32[64,64] tanh({value})")
        value = f"h{k}"
    for k in reversed(range(n)):
        lines += [
            f"r{k} = f32[64,64] reverse({value}), dimensions={{0}}",
            f"g{k} = f32[64,64] multiply(r{k}, h{k})",
        ]
        value = f"g{k}"
    body = "\n".join(lines[:-1]) + f"\nROOT {lines[-1]}"
    return f"HloModule m, is_scheduled=true\nENTRY e {{\n{body}\n}}"


def scheduled(family: Callable[[int], str]) -> Callable[[int], str]:
    """The programs of a family, whose text is said to be in the order of a schedule."""
    return lambda n: family(n).replace("HloModule m", "HloModule m, is_scheduled=true", 1)


def fused_pairs(n: int) -> str:
    """A fusion of n results, each of which may stand in the place of each of n operands."""
    shape = f"({numbered(n, 'f32[8]')})"
    body = numbered(n, "p# = f32[8] parameter(#)", "\n")
    body += "\n" + numbered(n, "x# = f32[8] negate(p#)", "\n")
    entry = numbered(n, "q# = f32[8] parameter(#)", "\n")
    entry += "\n" + numbered(n, "s# = f32[8] sine(q#)", "\n")
    return (
        f"HloModule m, is_scheduled=true\nf {{\n{body}\n"
        f"ROOT t = {shape} tuple({numbered(n, 'x#')})\n}}\nENTRY e {{\n{entry}\n"
        f"ROOT r = {shape} fusion({numbered(n, 's#')}), kind=kLoop, calls=f\n}}"
    )


def reached(program: hloscope.Program) -> int:
    """The number of flows from all parameters of the computation that the root calls."""
    callee = program.root.ir.calls[0]
    count = range(len(callee.parameters))
    return sum([len(program.analysis.spread(callee, k, 0)) for k in count])


def doubled(first: int) -> tuple[int, ...]:
    """A number, its double, and so on, to 64 times it.

    >>> doubled(3)
    (3, 6, 12, 24, 48, 96, 192)
    """
    return tuple([first << k for k in range(7)])


ROWS: Final = {
    "one operand of a concatenation": Row(
        concatenation, lambda p: p.root.indexing_from(0), doubled(150)
    ),
    "what a concatenation reads": Row(concatenation, lambda p: p.root.indexing(), doubled(150)),
    "every operand of a concatenation": Row(
        concatenation,
        lambda p: [p.root.indexing_from(k) for k in range(len(p.root.operands))],
        doubled(40),
    ),
    "what each operand of a call reaches": Row(concatenation, reached, doubled(150)),
    "slices to parameters": Row(slices, lambda p: p.root.to_parameters(), doubled(4)),
    "all outputs to parameters": Row(layers, lambda p: p.root.to_parameters(None), doubled(20)),
    "all outputs to parameters, as JSON": Row(
        layers, lambda p: json_line(p.root.to_parameters(None).to_json()), doubled(10)
    ),
    "reshape, transpose, reshape": Row(rearrangements, lambda p: p.root.indexing(), doubled(4)),
    "reshape, transpose, reshape: elements": Row(
        rearrangements, lambda p: p.root.indexing().map.card(), doubled(4)
    ),
    "a sort's outputs to parameters": Row(sort, lambda p: p.root.to_parameters(None), doubled(10)),
    "a reduction's outputs to parameters": Row(
        sums, lambda p: p.root.to_parameters(None), doubled(10)
    ),
    "warps of a wide reduction": Row(sums, lambda p: p.root.coalescing(), doubled(20)),
    "nested calls to parameters": Row(calls, lambda p: p.root.to_parameters(), doubled(40)),
    "shifted slices": Row(shifted, lambda p: p.root.indexing(), doubled(8)),
    "tiles of gathers": Row(gathers, lambda p: p.root.tiles(), doubled(16)),
    "sums by shifts": Row(scan, lambda p: p.root.indexing(), doubled(1)),
    "each part of a loop": Row(carried, lambda p: p.root.indexing_from(0), doubled(10)),
    "each part of a loop to parameters": Row(
        carried, lambda p: p.root.to_parameters(None), doubled(10)
    ),
    "memory of a step that keeps residuals": Row(residuals, lambda p: p.memory(), doubled(40)),
    "memory of a loop that carries arrays": Row(
        scheduled(carried), lambda p: p.memory(), doubled(40)
    ),
    "memory of nested calls": Row(scheduled(calls), lambda p: p.memory(), doubled(40)),
    "memory of two steps compared": Row(
        residuals, lambda p: p.memory().difference(p.memory()), doubled(40)
    ),
    "memory of a wide fusion": Row(fused_pairs, lambda p: p.memory(), doubled(8)),
    "turns of a loop": Row(loop, lambda p: p.evaluate(), doubled(500)),
    "updates of a large array": Row(updates, lambda p: p.evaluate(), doubled(10)),
}


def seconds(name: str, n: int) -> float:
    """CPU time of one question, the first of its process."""
    load(*ROOMS)
    row = ROWS[name]
    program = hloscope.read(row.text(n), strict=True)
    begin = process_time()
    str(row.ask(program))
    return process_time() - begin


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """The slope of a line through the logarithms, by least squares.

    >>> round(exponent((1, 2, 4), [3.0, 12.0, 48.0]), 6)
    2.0
    """
    xs, ys = [log(n) for n in sizes], [log(t) for t in times]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return across / sum((a - x) ** 2 for a in xs)


def measure(name: str) -> dict[str, Any]:
    """The times of one row, and the exponent."""
    sizes = ROWS[name].sizes
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        every = pool.starmap(seconds, [(name, n) for n in sizes * RUNS], chunksize=1)
    times = [min(every[k :: len(sizes)]) for k in range(len(sizes))]
    return {
        "row": name,
        "sizes": sizes,
        "ms": [round(1e3 * t, 1) for t in times],
        "exponent": round(exponent(sizes[-LARGE:], times[-LARGE:]), 2),
    }


def main() -> None:
    """Measure, print a line for each row, and end with 1 where one grows too fast."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="; ".join(ROWS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := [name for name in options.rows if name not in ROWS]:
        parser.error(f"no row {unknown[0]!r}")
    found = []
    for name in options.rows or ROWS:
        found.append(measure(name))
        if options.json:
            print(json.dumps(found[-1]), flush=True)
        else:
            row = found[-1]
            points = "  ".join(
                f"{n}: {ms} ms" for n, ms in zip(row["sizes"], row["ms"], strict=True)
            )
            print(f"{row['exponent']:5.2f}  {name:<32} {points}", flush=True)
    sys.exit(any(row["exponent"] > MOST for row in found))


if __name__ == "__main__":
    main()
