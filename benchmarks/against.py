"""Another checkout beside this one: CPU time of the same work, in turn, so that noise hits both.

    python benchmarks/against.py PATH [--rounds N] [--json] [WORK …]

Each checkout has a process of its own that reads the inputs once.  A round is a fork of it, so all
memo tables are empty ("cold") and nothing is read again; rounds alternate, the first one too.  The
figure is the least CPU time of this checkout over the least of the other: 1.05 is 5 % slower.

Works, each over all inputs (`../shared` or `$HLOSCOPE_SHARED`):

* `models`, `gpt48`, `resnet152`: the maps of every output of one fusion of each structure;
* `…-both`: the same and back, from every operand to the outputs;
* `…-again`: fusions of a structure that was analysed before, without those that were;
* `…-whole`: what an output of the entry computation reads of its parameters;
* `simplify`, `simplify-hard`: the shared problems of the simplifier;
* `start`: `hloscope index` about one fusion of a dump, as a process, start-up included.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = Path(os.environ.get("HLOSCOPE_SHARED", ROOT.parent / "shared"))
DUMPS: Final = {
    "models": "real/models/*.gpu.opt.hlo.txt",
    "gpt48": "real/big/gpt48*.gpu.opt.hlo.txt",
    "resnet152": "real/big/resnet152*.gpu.opt.hlo.txt",
}
PROBLEMS: Final = {"simplify": "problems.json", "simplify-hard": "hard.json"}
WORKS: Final = (
    *[dump + kind for dump in DUMPS for kind in ("", "-both", "-again", "-whole")],
    *PROBLEMS,
    "start",
)
ONE: Final = "resnet_tiny_train_step.gpu.opt.hlo.txt"
"""The dump that `start` asks about."""


# ----------------------------------------------------------------- inside the process of a checkout


@dataclass(frozen=True, slots=True)
class Question:
    """A fusion, its outputs, and the tensors of its operands."""

    ins: Any
    outputs: range
    tensors: tuple[tuple[int, int], ...]

    @classmethod
    def about(cls, ins: Any) -> Question:
        """All that can be asked about a fusion."""
        from hloscope.fusion import leaf_types

        counts = [len(leaf_types(operand.type)) for operand in ins.operands]
        tensors = [(k, leaf) for k, count in enumerate(counts) for leaf in range(count)]
        return cls(ins, range(len(leaf_types(ins.type))), tuple(tensors))


@dataclass(frozen=True, slots=True)
class Program:
    """A module and its fusions: the first of each structure, and the others."""

    module: Any
    distinct: tuple[Question, ...]
    repeated: tuple[Question, ...]


@cache
def programs(dump: str) -> tuple[Program, ...]:
    """The dumps of this name, read."""
    from hloscope.fusion import StructureIds
    from hloscope.hlo_parser import parse_hlo

    found = []
    for path in sorted(SHARED.glob(DUMPS[dump])):
        module = parse_hlo(path.read_text(encoding="utf-8"), name=path.name, strict=True)
        numbers = StructureIds()
        seen: dict[int, list[Question]] = {}
        for ins in (i for computation in module for i in computation if i.op.name == "fusion"):
            seen.setdefault(numbers.number(ins.calls[0]), []).append(Question.about(ins))
        distinct = tuple([first for first, *_ in seen.values()])
        repeated = tuple([question for _, *others in seen.values() for question in others])
        found.append(Program(module, distinct, repeated))
    return tuple(found)


def ask(analysis: Any, questions: Iterable[Question], *, both: bool = False) -> None:
    """The maps of every output of fusions; `both`: and of every operand."""
    for question in questions:
        for output in question.outputs:
            analysis.output_to_input(question.ins, output)
        for operand, leaf in question.tensors if both else ():
            analysis.input_to_output(question.ins, operand, leaf)


def seconds(work: str) -> float:
    """CPU time of one work, asked for in a process that has not done it before."""
    if work in PROBLEMS:
        questions = import_module("simplify").questions(PROBLEMS[work])
        begin = process_time()
        for question in questions:
            question.solve()
        return process_time() - begin
    from hloscope.fusion import Analysis

    dump, _, kind = work.partition("-")
    total = 0.0
    for program in programs(dump):
        analysis = Analysis()
        if kind == "again":
            ask(analysis, program.distinct)
        begin = process_time()
        if kind == "whole":
            analysis.summary(program.module.entry, 0)
        elif kind == "again":
            ask(analysis, program.repeated)
        else:
            ask(analysis, program.distinct, both=kind == "both")
        total += process_time() - begin
    return total


def serve(root: str) -> None:
    """Answer each line of stdin, the name of a work, by the seconds that it takes in a fork."""
    sys.path[:0] = [root]
    import hloscope

    if Path(hloscope.__file__).resolve().parents[1] != Path(root).resolve():
        sys.exit(f"hloscope is imported from {hloscope.__file__}, not from {root}")
    import_module("hloscope.fusion")
    for line in sys.stdin:
        work = line.strip()
        if (dump := work.partition("-")[0]) in DUMPS:
            programs(dump)
        elif work in PROBLEMS:
            import_module("simplify")
        gc.collect()
        gc.freeze()
        child = os.fork()
        if not child:
            print(seconds(work), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{work} failed")


# -------------------------------------------------------------------------------- both checkouts


class Checkout:
    """A checkout and its process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(root)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment,
        )  # fmt: skip

    def seconds(self, work: str) -> float:
        """CPU time of one round."""
        if work == "start":
            return self._start()
        assert self._process.stdin
        assert self._process.stdout
        print(work, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self.root}: {work} failed")
        return float(answer)

    def _start(self) -> float:
        before = _cpu_of_children()
        dump = str(SHARED / "real/models" / ONE)
        subprocess.run(
            [sys.executable, "-m", "hloscope", "index", dump, _fusion()],
            cwd=self.root, env=self.environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return _cpu_of_children() - before

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@cache
def _fusion() -> str:
    text = (SHARED / "real/models" / ONE).read_text(encoding="utf-8")
    return text.partition(" fusion(")[0].rpartition("%")[2].split()[0]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(work: str, here: Checkout, there: Checkout, rounds: int) -> dict[str, Any]:
    """The figures of one work."""
    times: dict[Checkout, list[float]] = {here: [], there: []}
    order = [here, there]
    for _ in range(rounds):
        for checkout in order:
            times[checkout].append(checkout.seconds(work))
        order.reverse()
    pairs = zip(times[here], times[there], strict=True)
    return {
        "work": work,
        "here_ms": round(1e3 * min(times[here]), 1),
        "there_ms": round(1e3 * min(times[there]), 1),
        "ratio": round(min(times[here]) / min(times[there]), 3),
        "median_ratio": round(median(a / b for a, b in pairs), 3),
    }


def main() -> None:
    """Run, and print a row for each work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, help="the other checkout")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="a JSON line per work")
    options = parser.parse_args()
    if wrong := set(options.works) - set(WORKS):
        parser.error(f"no such work: {', '.join(sorted(wrong))}")
    if not SHARED.is_dir():
        sys.exit(f"needs the shared data in {SHARED} (set HLOSCOPE_SHARED)")
    here, there = Checkout(ROOT), Checkout(options.path.resolve())
    if not options.json:
        print(f"{'here ms':>9} {'there ms':>9} {'ratio':>6} {'median':>7}  work")
    for work in options.works or WORKS:
        row = compare(work, here, there, options.rounds)
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            print(
                f"{row['here_ms']:9} {row['there_ms']:9} {row['ratio']:6.3f} "
                f"{row['median_ratio']:7.3f}  {work}",
                flush=True,
            )
    here.close()
    there.close()


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
