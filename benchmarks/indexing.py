"""Indexing all fusions of real dumps: speed, memory, and growth with the size of the program.

    python benchmarks/indexing.py [--json] [--compiled] [FILE …]

Without files: the optimised dumps of `../shared/real/big` and of `gpt2_tiny12_train_step`, then
programs made here, of 1 to 8 times as many layers (the best of 5 runs each), then all optimised
dumps of `../shared/real/models` together. Each program is measured in a process of its own, from
empty memo tables ("first run"), on one core, by processor time; the garbage collector stays as it
is. What is imported when it is first used is imported before: `benchmarks/startup.py` is about
that.

* `read`: `parse_hlo(text, strict=True)`.
* `fusions`: the maps of every output of every fusion to each of its operands.
  First come those of one fusion of each structure, `distinct`, then the others, `repeated`, whose
  answers are known.
* `both`: the same and back, from every operand to the outputs, in a fresh analysis.
* `whole`: what one element of an output of the entry computation reads of its parameters, through
  all instructions and fusions in between.
* `cold`: of the models, each distinct fusion by itself: the time that 99 of 100 stay below, and the
  most.
* `memory`: growth of the process's peak while reading and analysing, over the size of the text.

With `--compiled` the tree is compiled in a folder that is removed again; the models and the largest
program of varied layers are asked about there, too, each dump after the pure sources were asked.
Figures of that build say `compiled`, all others are of the pure sources.

Rates count instructions: of the fused computations for `fusions` (each counted wherever it stands),
apart for `distinct` and `repeated` ones; of the entry computation for `whole`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.compiled import build, is_compiled, run_in  # noqa: E402
from benchmarks.fusion_stats import count, fusions  # noqa: E402
from benchmarks.measuring import load  # noqa: E402
from hloscope.fusion import Analysis, StructureIds  # noqa: E402
from hloscope.hlo_parser import parse_hlo  # noqa: E402
from hloscope.ir import Instruction, Module  # noqa: E402

SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
LAYERS: Final = (24, 48, 96, 192)
RUNS: Final = 5
"""Programs made here are short: the best run counts, and the one in the middle is told."""
ROOMS: Final = "simplifier", "indexing", "fusion"
"""The rooms that answer."""
PURE: Final = "pure"
COMPILED: Final = "compiled"
"""The builds of the sources that are measured."""
Row = dict[str, Any]


def dumps() -> list[Path]:
    """The real programs that are measured."""
    real = SHARED / "real"
    small = sorted((real / "models").glob("gpt2_tiny12_train_step.*opt.hlo.txt"))
    return [*sorted((real / "big").glob("*.opt.hlo.txt")), *small]


def peak() -> int:
    """The largest size this process had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def by_structure(module: Module) -> tuple[list[Instruction], list[Instruction]]:
    """The first fusion of each structure, and all others."""
    numbers = StructureIds()
    kinds: tuple[list[Instruction], list[Instruction]] = [], []
    seen: set[int] = set()
    for ins in fusions(module):
        number = numbers.number(ins.calls[0])
        kinds[number in seen].append(ins)
        seen.add(number)
    return kinds


def ask(analysis: Analysis, some: list[Instruction]) -> float:
    """Seconds for the maps of every output of fusions; what fails ends it, as it costs no time."""
    start = process_time()
    for ins in some:
        for output in range(len(analysis.tensors(ins.type))):
            analysis.output_to_input(ins, output)
    return process_time() - start


def rate(instructions: int, seconds: float) -> int | None:
    """Instructions in a second; `None` where there are none."""
    return round(instructions / seconds) if instructions else None


def measure(name: str, text: str) -> Row:
    """The figures of one program; to be called once in a process."""
    load(*ROOMS)
    before = peak()
    start = process_time()
    module = parse_hlo(text, name=name, strict=True)
    read = process_time() - start

    distinct, repeated = by_structure(module)
    analysis = Analysis()
    times = [ask(analysis, some) for some in (distinct, repeated)]
    sizes = [sum(len(ins.calls[0]) for ins in some) for some in (distinct, repeated)]
    found = count(module)
    memory = (peak() - before) / len(text)

    start = process_time()
    twice = count(module, both=True)
    both = process_time() - start

    analysis = Analysis()
    start = process_time()
    analysis.summary(module.entry, 0)
    whole = process_time() - start
    return {
        "file": name,
        "text_mb": round(len(text) / 1e6, 2),
        "fusions": found.fusions,
        "instructions": found.instructions,
        "read_ms": round(1e3 * read),
        "fusions_ms": round(1e3 * sum(times)),
        "distinct": len(distinct),
        "distinct_per_s": rate(sizes[0], times[0]),
        "repeated_per_s": rate(sizes[1], times[1]),
        "both_ms": round(1e3 * both),
        "whole_instructions": len(module.entry),
        "whole_ms": round(1e3 * whole),
        "peak_over_text": round(memory, 1),
        "pairs": found.pairs,
        "exact": found.exact,
        "failures": len(found.failures) + len(twice.failures),
    }


LAYER: Final = """
sum.{i} {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
norm.{i} {{
  x = f32[8,{t},{w}] parameter(0)
  g = f32[{w}] parameter(1)
  zero = f32[] constant(0)
  s = f32[8,{t}] reduce(x, zero), dimensions={{2}}, to_apply=sum.{i}
  m = f32[8,{t},{w}] broadcast(s), dimensions={{0,1}}
  d = f32[8,{t},{w}] subtract(x, m)
  q = f32[8,{t},{w}] multiply(d, d)
  v = f32[8,{t}] reduce(q, zero), dimensions={{2}}, to_apply=sum.{i}
  r = f32[8,{t}] rsqrt(v)
  b = f32[8,{t},{w}] broadcast(r), dimensions={{0,1}}
  n = f32[8,{t},{w}] multiply(d, b)
  k = f32[8,{t},{w}] broadcast(g), dimensions={{2}}
  y = f32[8,{t},{w}] multiply(n, k)
  ROOT f = f32[{r},{w}] reshape(y)
}}
heads.{i} {{
  x = f32[{r},{w}] parameter(0)
  a = f32[8,{t},4,{h}] reshape(x)
  b = f32[8,4,{t},{h}] transpose(a), dimensions={{0,2,1,3}}
  c = f32[8,4,{h},{t}] transpose(b), dimensions={{0,1,3,2}}
  n = f32[8,4,{h},{t}] exponential(c)
  d = f32[8,4,{t},{h}] transpose(n), dimensions={{0,1,3,2}}
  e = f32[8,{t},4,{h}] transpose(d), dimensions={{0,2,1,3}}
  ROOT f = f32[{r},{w}] reshape(e)
}}
rest.{i} {{
  x = f32[8,{t},{w}] parameter(0)
  y = f32[{r},{w}] parameter(1)
  z = f32[8,{t},{w}] reshape(y)
  g = f32[8,{t},{w}] tanh(z)
  ROOT a = f32[8,{t},{w}] add(x, g)
}}
"""
STEP: Final = """
  n.{i} = f32[{r},{w}] fusion(x.{i}, gain), kind=kInput, calls=norm.{i}
  h.{i} = f32[{r},{w}] fusion(n.{i}), kind=kLoop, calls=heads.{i}
  d.{i} = f32[{r},{w}] dot(h.{i}, weight), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {root}x.{j} = f32[8,{t},{w}] fusion(x.{i}, d.{i}), kind=kLoop, calls=rest.{i}"""


def synthetic(layers: int, width: int = 256) -> str:
    """A made-up transformer in HLO text; all layers are equal but for their names."""
    computations, steps = [], []
    for i in range(layers):
        root = "ROOT " if i == layers - 1 else ""
        sizes = {"t": 128, "w": width, "h": width // 4, "r": 8 * 128}
        computations.append(LAYER.format(i=i, **sizes))
        steps.append(STEP.format(i=i, j=i + 1, root=root, **sizes))
    return (
        "HloModule made_up\n" + "".join(computations) + "\nENTRY main {\n"
        f"  x.0 = f32[8,128,{width}] parameter(0)\n  gain = f32[{width}] parameter(1)\n"
        f"  weight = f32[{width},{width}] parameter(2)" + "".join(steps) + "\n}\n"
    )


def varied(layers: int) -> str:
    """Programs of one layer each, no two of equal width, in one module: nothing to share."""
    parts = []
    for i in range(layers):
        sizes = {"t": 128, "w": 64 + 4 * i, "h": 16 + i, "r": 8 * 128}
        parts.append(LAYER.format(i=i, **sizes))
        parts.append(
            f"part.{i} {{\n  x.{i} = f32[8,128,{sizes['w']}] parameter(0)\n"
            f"  gain = f32[{sizes['w']}] parameter(1)\n"
            f"  weight = f32[{sizes['w']},{sizes['w']}] parameter(2)"
            + STEP.format(i=i, j=i + 1, root="ROOT ", **sizes)
            + "\n}"
        )
    parts.append("ENTRY main { ROOT p = f32[] parameter(0) }")
    return "HloModule varied\n" + "\n".join(parts)


def in_child(argument: str, how: str = PURE, tree: Path = ROOT) -> Row:
    """The figures of one program, measured in a process of its own, with the sources of a tree."""
    found: Row = json.loads(run_in(tree, SHARED, "benchmarks/indexing.py", "--child", argument))
    if found["build"] != how:
        sys.exit(f"{tree} is {found['build']}, not {how}")
    return found


def best_of_runs(kind: str, layers: int, how: str = PURE, tree: Path = ROOT) -> Row:
    """The figures of a program made here, of the run in which its fusions took the least time."""
    rows = [in_child(f"{kind}:{layers}", how, tree) for _ in range(RUNS)]
    rows.sort(key=lambda row: row["fusions_ms"])
    return rows[0] | {"median_per_s": rows[RUNS // 2]["distinct_per_s"]}


def asked(argument: str) -> Row:
    """What a child answers: the figures of a program, or those of each of its fusions."""
    kind, _, rest = argument.partition(":")
    if kind == "cold":
        return {"fusions": cold(Path(rest))}
    if kind == "file":
        return measure(Path(rest).name, Path(rest).read_text(encoding="utf-8"))
    return measure(f"{rest} {kind} layers", {"equal": synthetic, "varied": varied}[kind](int(rest)))


def cold(path: Path) -> list[tuple[int, float]]:
    """Instructions of each distinct fusion of a dump and the seconds it takes, one by one."""
    load(*ROOMS)
    module = parse_hlo(path.read_text(encoding="utf-8"), name=path.name, strict=True)
    analysis = Analysis()
    return [(len(ins.calls[0]), ask(analysis, [ins])) for ins in by_structure(module)[0]]


def models(trees: dict[str, Path]) -> Iterator[Row]:
    """The figures of all models together: on the CPU, on the GPU, and both, by each tree."""
    kinds: dict[str, dict[str, list[tuple[int, float]]]] = {
        how: {"CPU": [], "GPU": []} for how in trees
    }
    for path in sorted((SHARED / "real" / "models").glob("*opt.hlo.txt")):
        for how, tree in trees.items():
            kind = "GPU" if ".gpu." in path.name else "CPU"
            kinds[how][kind] += in_child(f"cold:{path}", how, tree)["fusions"]
    for how, found in kinds.items():
        for kind, some in {**found, "all": [*found["CPU"], *found["GPU"]]}.items():
            times = sorted(seconds for _, seconds in some)
            instructions = sum(number for number, _ in some)
            if times:
                yield {
                    "models": kind,
                    "build": how,
                    "distinct": len(times),
                    "instructions": instructions,
                    "distinct_per_s": rate(instructions, sum(times)),
                    "p99_ms": round(1e3 * times[len(times) * 99 // 100], 2),
                    "most_ms": round(1e3 * times[-1], 1),
                }


def growth(rows: list[Row], key: str) -> str:
    """How a time grows with the size, each relative to the first."""
    first = rows[0][key] or 1
    return " ".join(f"{row[key] / first:.1f}" for row in rows)


HEADS: Final = (
    "fusions", "distinct", "instructions", "read_ms", "fusions_ms", "distinct_per_s",
    "repeated_per_s", "both_ms", "whole_instructions", "whole_ms", "peak_over_text",
    "exact", "pairs",
)  # fmt: skip


def table(rows: list[Row]) -> None:
    """Print rows of figures."""
    print(" ".join(f"{head:>{max(8, len(head))}}" for head in HEADS), " file")
    for row in rows:
        cells = [
            f"{row[head] if row[head] is not None else '-':>{max(8, len(head))}}" for head in HEADS
        ]
        print(" ".join(cells), "", row["file"])


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true", help="a JSON line per program")
    parser.add_argument("--compiled", action="store_true", help="needs mypy and a C compiler")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(asked(options.child) | {"build": COMPILED if is_compiled() else PURE}))
        return
    with tempfile.TemporaryDirectory() as name:
        trees = {PURE: ROOT}
        if options.compiled:
            trees[COMPILED] = Path(name) / "tree"
            build(trees[COMPILED])
        show(options.files, trees, as_json=options.json)


def show(files: list[Path], trees: dict[str, Path], *, as_json: bool) -> None:
    """Measure and print: these programs, or all there are and those made here."""
    rows = [in_child(f"file:{path.absolute()}") for path in files or dumps()]
    kinds = () if files else ("equal", "varied")
    made = {kind: [best_of_runs(kind, n) for n in LAYERS] for kind in kinds}
    if kinds and COMPILED in trees:
        made[COMPILED] = [best_of_runs("varied", LAYERS[-1], COMPILED, trees[COMPILED])]
        made[COMPILED][0]["file"] += ", compiled"
    together = [] if files else list(models(trees))
    every = [*rows, *[row for some in made.values() for row in some]]
    if as_json:
        for row in every + together:
            print(json.dumps(row))
        return
    if not rows:
        print(f"no dumps in {SHARED}/real")
    table(every)
    for kind in kinds:
        sizes = " ".join(f"{n / LAYERS[0]:.0f}" for n in LAYERS)
        print(f"\n{kind} layers, growth: size {sizes}", end="")
        keys = ("read_ms", "fusions_ms", "both_ms") + (("whole_ms",) if kind == "equal" else ())
        for key in keys:
            print(f"; {key.removesuffix('_ms')} {growth(made[kind], key)}", end="")
    print()
    for row in together:
        print(", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
