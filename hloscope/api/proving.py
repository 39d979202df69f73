"""Proofs of all results about a program: their time limits, and counts of their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hloscope.api.explaining import check
from hloscope.api.indexing import Indexing
from hloscope.api.program import Program
from hloscope.fusion import Convention
from hloscope.indexing import counts_of
from hloscope.proof import SECONDS_ALL, Check, Outcome, Prover, write_evidence

SECONDS: Final = 1.0
"""Processor time of all proofs of a program of at most `FEW` instructions."""
FEW: Final = 800
SECONDS_EACH: Final = 0.02
"""Processor time for each further instruction."""
SECONDS_MOST: Final = 60.0
"""Most processor time of all proofs, unless the caller sets it."""


def prover_of(
    program: Program,
    seconds: float | None,
    *,
    convention: Convention,
    seed: int,
    by_execution: bool,
) -> Prover:
    """A prover for the results about a program, with a limit in seconds of processor time.

    Without `seconds` the limit grows with the number of instructions.

    Raises:
        VerifyError: The program is wrong; the maps of such a one have no meaning.
    """
    check(program.module)
    more = max(0, sum(1 for _ in program) - FEW)
    total = min(SECONDS + SECONDS_EACH * more, SECONDS_MOST) if seconds is None else seconds
    of_isl = min(total, SECONDS_ALL) if seconds is None else total
    return Prover(
        seed=seed,
        seconds_of_isl=of_isl,
        total=total,
        by_execution=by_execution,
        convention=convention,
        said=counts_of(program.module),
    )


class Tally:
    """Counts of proofs, and messages about the refuted ones."""

    def __init__(self, evidence_dir: str | None = None) -> None:
        """Take a folder for counterexamples: each is written as a program with its inputs."""
        self._folder = evidence_dir
        self._runs: Counter[str] = Counter()
        self._counts: Counter[Outcome] = Counter()

    def add(self, found: Indexing) -> Iterator[str]:
        """Count the proofs of a result; yield a message for each refuted map."""
        for output in found.answer.outputs:
            together = output.proved_together
            if together is not None:
                self._counts[together[0].outcome] += together[1]
                self._count_runs(*together)
            for operand in (*output.touched, *output.checked_untouched):
                if operand.check is None:
                    continue
                self._counts[operand.check.outcome] += 1
                self._count_runs(operand.check)
                if operand.check.is_refuted:
                    where = f"{found.answer.instruction.name}, output {output.number}"
                    what = f"{found.answer.what} {operand.number} ({operand.name})"
                    yield f"{where}, {what}: the maps are wrong: {operand.check.disagreement}"
                    name = f"{found.answer.instruction.name}.{output.number}.{operand.number}"
                    yield from self._write(operand.check, name)

    def _count_runs(self, check: Check, count: int = 1) -> None:
        executed = check.executed
        if executed is None:
            return
        if executed.reason:
            self._runs["not executed"] += count
            return
        self._runs["executed"] += count
        self._runs["of them on small instances"] += count * bool(executed.shapes)

    def _write(self, check: Check, name: str) -> Iterator[str]:
        violation = check.executed.violation if check.executed is not None else None
        if self._folder is not None and violation is not None:
            paths = write_evidence(violation, self._folder, name)
            yield f"written: {', '.join(map(str, paths))}"

    @property
    def summary(self) -> str:
        """The number of proofs by outcome, as text."""
        counts = [f"{self._counts[o]} {o}" for o in Outcome if self._counts[o]]
        runs = [f"{number} {what}" for what, number in self._runs.items() if number]
        every = ", ".join([*counts, *runs]) or "none"
        return f"verified {self._counts.total()} operands: {every}"

    @property
    def lacks_time(self) -> bool:
        """Is a proof undecided or unexecuted that more time might settle?"""
        return bool(self._counts[Outcome.UNDECIDED] or self._runs["not executed"])

    @property
    def is_refuted(self) -> bool:
        """Is a map refuted?"""
        return bool(self._counts[Outcome.REFUTED])

    @property
    def is_undecided(self) -> bool:
        """Is a map undecided?"""
        return bool(self._counts[Outcome.UNDECIDED])
