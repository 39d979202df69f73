"""What `--verify` says at the end, and the exit code it says it with."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click

from hloscope.api import Indexing, Program
from hloscope.fusion import Convention
from hloscope.proof import SECONDS_ALL, Check, Outcome, Prover, write_evidence

DISAGREES: Final = 5
UNDECIDED: Final = 4
SECONDS: Final = 1.0
"""Processor time of all proofs of a program of at most `FEW` instructions."""
FEW: Final = 400
SECONDS_EACH: Final = 0.01
"""So much more for each further instruction."""
SECONDS_MOST: Final = 60.0
"""But no more than this."""


def prover_of(
    program: Program,
    seconds: float | None,
    *,
    convention: Convention,
    seed: int,
    by_execution: bool,
) -> Prover:
    """What proves the answers about a program: within so many seconds, or what its size allows."""
    more = max(0, sum(1 for _ in program) - FEW)
    total = min(SECONDS + SECONDS_EACH * more, SECONDS_MOST) if seconds is None else seconds
    of_isl = min(total, SECONDS_ALL) if seconds is None else total
    return Prover(
        seed=seed,
        seconds_of_isl=of_isl,
        total=total,
        by_execution=by_execution,
        convention=convention,
    )


class Tally:
    """Counts proofs and reports those that went wrong."""

    def __init__(self, strict: bool, evidence_dir: str | None = None) -> None:
        self._strict = strict
        self._folder = evidence_dir
        self._runs: Counter[str] = Counter()
        self._counts: Counter[Outcome] = Counter()

    def add(self, found: Indexing) -> None:
        """Count the proofs of an answer; say at once which maps are wrong."""
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
                    text = f"{where}, {what}: the maps are wrong: {operand.check.disagreement}"
                    click.echo(text, err=True)
                    name = f"{found.answer.instruction.name}.{output.number}.{operand.number}"
                    self._write(operand.check, name)

    def _count_runs(self, check: Check, count: int = 1) -> None:
        executed = check.executed
        if executed is None:
            return
        if executed.reason:
            self._runs["not executed"] += count
            return
        self._runs["executed"] += count
        self._runs["of them on small instances"] += count * bool(executed.shapes)

    def _write(self, check: Check, name: str) -> None:
        violation = check.executed.violation if check.executed is not None else None
        if self._folder is not None and violation is not None:
            paths = write_evidence(violation, self._folder, name)
            click.echo(f"written: {', '.join(map(str, paths))}", err=True)

    def end(self, prover: Prover, *, summary: bool = False) -> None:
        """Print how many proofs there were, if asked for; exit if not all went well."""
        if summary:
            counts = [f"{self._counts[o]} {o}" for o in Outcome if self._counts[o]]
            total = self._counts.total()
            runs = [f"{number} {what}" for what, number in self._runs.items() if number]
            every = ", ".join([*counts, *runs]) or "none"
            click.echo(f"verified {total} operands: {every}", err=True)
        not_asked = self._counts[Outcome.UNDECIDED] or self._runs["not executed"]
        if prover.allowance.is_spent and not_asked:
            click.echo(f"{prover.allowance.reason}; --seconds gives them more", err=True)
        ctx = click.get_current_context()
        if self._counts[Outcome.REFUTED]:
            ctx.exit(DISAGREES)
        if self._strict and self._counts[Outcome.UNDECIDED]:
            click.echo("some maps are undecided", err=True)
            ctx.exit(UNDECIDED)
