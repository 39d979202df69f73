"""Evidence by execution over real programs: does anything move that is in no map?

    python benchmarks/execution.py [--every N] [--seconds S] [--jobs N] [--json] [FILE ...]

Takes the fusions of every computation, and the instructions of the entry, of FILEs (by default of
`real/models` and `real/modules` of the shared data), each different one once, and lets execution
check the maps of every output and operand in both directions.  Counts instructions of which some
answer was executed, those not executed with the reason, and what is refuted.  Several jobs share
the files, each with what it has seen; after a while no more is asked about one instruction.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hloscope as hs  # noqa: E402
from hloscope.api import InstructionView  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from hloscope.fusion import StructureIds  # noqa: E402
from hloscope.proof import Execution  # noqa: E402
from tests.conftest import SHARED  # noqa: E402

LARGEST = 1 << 20
MOST_SECONDS = 20.0
"""After so long no more is asked about an instruction."""


def files() -> list[Path]:
    """The dumps of real models and modules."""
    models = sorted((SHARED / "real/models").glob("*.hlo.txt"))
    modules = sorted((SHARED / "real/modules").glob("*/*.hlo"))
    return [path for path in (*models, *modules) if path.stat().st_size <= LARGEST]


def questions(program: hs.Program) -> Iterator[InstructionView]:
    """The fusions, and the instructions of the entry."""
    entry = set(program.module.entry)
    for view in program:
        if view.ir.operands and (view.opcode == "fusion" or view.ir in entry):
            yield view


class Tally:
    """What was found out."""

    def __init__(self) -> None:
        self.asked = self.runs = self.seen = self.claimed = 0
        self.kinds: Counter[str] = Counter()
        self.refuted: list[str] = []
        self._structure_ids = StructureIds()
        self._known: set[object] = set()
        self._kept: list[hs.Program] = []

    def __str__(self) -> str:
        return f"{sum(self.kinds.values())} different, {len(self.refuted)} refuted"

    def add(self, path: Path) -> None:
        """Check a file."""
        try:
            program = hs.read(path)
            views = list(questions(program))
        except HloscopeError:
            return
        self._kept.append(program)  # structure_ids know its computations by identity
        for view in views:
            self.asked += 1
            if self._is_new(view):
                self.kinds[self._checked(path, view)] += 1

    def _is_new(self, view: InstructionView) -> bool:
        ir, number = view.ir, self._structure_ids
        key = (
            *[number.number(callee) for callee in ir.calls],
            number.op_of(ir),
            number.type_number(ir.type),
            *[(number.type_number(o.type), number.op_of(o)) for o in ir.operands],
        )
        is_new = key not in self._known
        self._known.add(key)
        return is_new

    def _checked(self, path: Path, view: InstructionView) -> str:
        execution = Execution(view.ir)
        leaves = view.program.analysis.tensors
        reasons: Counter[str] = Counter()
        kind, until = "", time.monotonic() + MOST_SECONDS
        for output in range(len(view.outputs)):
            for number, operand in enumerate(view.ir.operands):
                for leaf in range(len(leaves(operand.type))):
                    for inverse in (False, True):
                        if time.monotonic() > until:
                            break
                        found = execution.check(output, number, leaf, inverse=inverse)
                        if found.violation is not None:
                            where = f"{path.name}: {view.name}, output {output}, operand {number}"
                            self.refuted.append(f"{where}: {found.violation}")
                        if found.reason:
                            reasons[found.reason] += 1
                            continue
                        kind = "executed, shrunk" if found.shapes else "executed as it is"
                        self.seen += 0 if inverse else found.seen
                        self.claimed += 0 if inverse else found.pairs
        if execution.evidence is not None:
            self.runs += execution.evidence.runner.count
        return kind or f"not executed: {reasons.most_common(1)[0][0] if reasons else 'no tensors'}"


@dataclass
class Row:
    """What one job, or all together, found out."""

    files: int = 0
    asked: int = 0
    runs: int = 0
    seen: int = 0
    claimed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    refuted: list[str] = field(default_factory=list)

    def __add__(self, other: Row) -> Row:
        return Row(*[getattr(self, f.name) + getattr(other, f.name) for f in fields(self)])


def checked(seconds: float, chosen: Sequence[Path]) -> Row:
    """What the files show, as many as time allows."""
    tally, begin, number = Tally(), time.monotonic(), 0
    for number, path in enumerate(chosen, 1):
        tally.add(path)
        if number % 100 == 0:
            print(f"{number} of {len(chosen)}: {tally}", file=sys.stderr, flush=True)
        if time.monotonic() - begin > seconds:
            break
    found = (tally.asked, tally.runs, tally.seen, tally.claimed, tally.kinds, tally.refuted)
    return Row(number, *found)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take one file of so many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after these")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes share the files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen, begin = options.files or files()[:: options.every], time.monotonic()
    shares = [chosen[k :: options.jobs] for k in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = pool.map(partial(checked, options.seconds), shares)
        total = sum(rows, Row())
    row = {
        "files": total.files,
        "of": len(chosen),
        "asked": total.asked,
        "different": sum(total.kinds.values()),
        "kinds": dict(total.kinds.most_common()),
        "runs": total.runs,
        "seen": total.seen,
        "claimed": total.claimed,
        "refuted": total.refuted,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(row, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
