"""Results of checks of maps against a program; files that reproduce a wrong map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import InputError
from hloscope.fusion import leaf_types
from hloscope.hlo_parser import print_hlo
from hloscope.interpreter import Value
from hloscope.ir import Body, Computation, Instruction, TupleType
from hloscope.ops import Result, Return
from hloscope.proof.arrays import named, save
from hloscope.proof.elements import Place
from hloscope.proof.instance import Instance, module_of, within
from hloscope.simplifier import CounterExample
from hloscope.stablehlo import print_stablehlo

# --------------------------------------------------------------------------------------------------
# A violation: an element that changes an output element, and is not in its maps.


class Violation(Struct, frozen=True, eq=False):
    """An element that changes an output element, although the output's maps do not contain it.

    A source is an operand or captured value of the instruction, or a parameter of its computation.

    Attributes:
        instance: The test program.
        before: Values of the sources before the change, device by device.
        after: Values of the sources with one element changed.
        place: Numbers of the output, of the source, and of the tensor in the source.
        index: Index of the changed element.
        output: Index of the output element that changes.
        values: Text of the output element before and after.
        devices: Device of the changed element, and that of the output element.
    """

    instance: Instance
    before: tuple[Value, ...]
    after: tuple[Value, ...]
    place: Place
    index: tuple[int, ...]
    output: tuple[int, ...]
    values: tuple[str, str]
    devices: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        changed, output = (f"({', '.join(map(str, i))})" for i in (self.index, self.output))
        at = f", at {self.instance.shapes}" if self.instance.shapes else ""
        source = self.instance.sources[self.place[1]].type
        of = f" of tensor {self.place[2]}" if len(leaf_types(source)) > 1 else ""
        here, there = "", ""
        if self.instance.devices.count > 1:
            here, there = (f" on device {device}" for device in self.devices)
        return (
            f"element {changed}{of}{here} moves output element {output}{there} from"
            f" {self.values[0]} to {self.values[1]}{at}, which is not in the maps"
        )


# --------------------------------------------------------------------------------------------------
# Results of checking maps against the program.


class Outcome(StrEnum):
    """Result of the check of all maps of one operand."""

    PROVED = "proved"
    """The maps equal the program's relation, for all elements and all values read at run time."""
    SAMPLED = "sampled"
    """The sampled elements and values read at run time showed no difference."""
    REFUTED = "refuted"
    """The maps are wrong, and a counter-example is known."""
    UNDECIDED = "undecided"
    """The maps were neither proved nor refuted; the reason is stated."""
    UNCLAIMED = "unclaimed"
    """There is nothing to check: the precision of the maps is `unknown`."""


class Executed(Struct, frozen=True):
    """What executing the program showed about the maps of one operand.

    Attributes:
        runs: Number of executions.
        seen: Number of pairs of an output element and an operand element whose dependence was
            observed.
        pairs: Number of such pairs in the maps, for the output elements that were compared.
        shapes: Types of the smaller test program that was run; empty if the program itself was run.
        reason: Why nothing was run; empty if something was.
        violation: An element that changes an output element, although its maps do not contain it.
    """

    runs: int = 0
    seen: int = 0
    pairs: int = 0
    shapes: str = ""
    reason: str = ""
    violation: Violation | None = None

    def __str__(self) -> str:
        if self.reason:
            return f"not executed: {self.reason}"
        at = f" at {self.shapes}" if self.shapes else ""
        return f"executed {self.runs}{at}, seen {self.seen} of {self.pairs}"

    def to_json(self) -> dict[str, Any]:
        """Return the results of execution as JSON data."""
        if self.reason:
            return {"runs": 0, "reason": self.reason}
        return {
            "runs": self.runs,
            "seen": self.seen,
            "pairs": self.pairs,
            "instance": self.shapes or None,
        }


class Check(Struct, frozen=True):
    """Result of the check of the maps of one operand.

    Attributes:
        outcome: The result.
        by: Methods that decided, such as `isl`, `enumerated 96`, `sampled 32, seed 0`.
        reason: Why the check is undecided, or why isl did not decide.
        counter_example: A pair of elements that only the maps (`only_in` 0) or only the program (1)
            has.
        superset: Whether the maps only claim to contain the program's relation; only that was
            checked.
        seconds: Processor time of the check.
        executed: Results of execution, if requested.
    """

    outcome: Outcome
    by: tuple[str, ...] = ()
    reason: str = ""
    counter_example: CounterExample | None = None
    superset: bool = False
    seconds: float = 0.0
    executed: Executed | None = None

    def __repr__(self) -> str:
        by = f" by {', '.join(self.by)}" if self.by else ""
        reason = f": {self.reason}" if self.reason else ""
        counter = f"; {self.counter_example}" if self.counter_example else ""
        return f"<Check {self.outcome}{by}{reason}{counter}>"

    @property
    def is_refuted(self) -> bool:
        """Did the check show that the maps are wrong?"""
        return self.outcome is Outcome.REFUTED

    def __str__(self) -> str:
        shown = "" if self.executed is None or self.is_refuted else f"; {self.executed}"
        return f"{self._decided}{shown}"

    @property
    def _decided(self) -> str:
        means = "; ".join(self.by)
        match self.outcome:
            case Outcome.UNCLAIMED:
                return "nothing is claimed"
            case Outcome.UNDECIDED:
                return f"undecided: {self.reason}"
            case Outcome.REFUTED:
                return f"REFUTED by {means}: {self.disagreement}"
        contained = " (contained)" if self.superset else ""
        why = f"  (isl: {self.reason})" if self.reason else ""
        return f"{means}{contained}{why}"

    @property
    def disagreement(self) -> str:
        """Text of the counter-example; empty if there is none."""
        violation = self.executed.violation if self.executed is not None else None
        if violation is not None:
            return str(violation)
        example = self.counter_example
        if example is None:
            return self.reason
        here, there = (f"({', '.join(map(str, t))})" for t in (example.dims, example.results))
        where = ("the maps, not in the program", "the program, not in the maps")[example.only_in]
        return f"{here} -> {there} is in {where}"

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON data."""
        found: dict[str, Any] = {"verdict": str(self.outcome), "by": [*self.by]}
        if self.superset:
            found["superset"] = True
        found["reason"] = self.reason or None
        example = self.counter_example
        if example is not None:
            found["counter_example"] = {
                "index": [*example.dims],
                "touched": [*example.results],
                "only_in": ("maps", "program")[example.only_in],
            }
        if self.executed is not None:
            found["executed"] = self.executed.to_json()
        return found


_WORST: tuple[Outcome, ...] = (
    Outcome.REFUTED,
    Outcome.UNDECIDED,
    Outcome.UNCLAIMED,
    Outcome.SAMPLED,
    Outcome.PROVED,
)


def combined(checks: Sequence[Check]) -> Check:
    """Return one check for several tensors; its outcome is the weakest of theirs.

    >>> print(combined([Check(Outcome.PROVED, ("isl",)), Check(Outcome.UNDECIDED, reason="big")]))
    undecided: big
    """
    if not checks:
        return Check(Outcome.UNCLAIMED)
    if len(checks) == 1:
        return checks[0]
    worst = min(checks, key=lambda check: _WORST.index(check.outcome))
    seconds = sum(check.seconds for check in checks)
    executed = _together([c.executed for c in checks if c.executed is not None])
    superset = any(c.superset for c in checks)
    return replace(worst, superset=superset, seconds=seconds, executed=executed)


def _together(parts: Sequence[Executed]) -> Executed | None:
    """Return the results of execution for several tensors of one value, merged into one.

    `None` if `parts` is empty.
    """
    done = [part for part in parts if not part.reason]
    if not done:
        return parts[0] if parts else None
    return replace(
        done[0],
        seen=sum(part.seen for part in done),
        pairs=sum(part.pairs for part in done),
        violation=next((part.violation for part in done if part.violation), None),
    )


# --------------------------------------------------------------------------------------------------
# Files that reproduce a violation: the program, and its inputs before and after the change.


def write_evidence(violation: Violation, folder: str | Path, name: str) -> tuple[Path, ...]:
    """Write a program and its inputs that show a violation; return the paths.

    The files are `NAME.hlo` or `NAME.mlir`, and one file of values before and one after the change.
    `hloscope run NAME.hlo --input NAME.before.npz`, and with `.after.npz`, show the element that
    changes. For several devices there is a file for each, `NAME.before.0.npz` and so on. The
    command takes all of them, and `--replicas` and `--partitions` as in the program's first line.

    Raises:
        InputError: A file cannot be written.
    """
    text, ending = _text(violation)
    plain = re.sub(r"[^\w.-]+", "_", name)
    folder = Path(folder)
    path = folder / f"{plain}.{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// {violation}{_grid(violation)}\n{text}")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    types = violation.instance.running.arguments
    devices = violation.instance.devices.count
    paths = [path]
    for when, values in (("before", violation.before), ("after", violation.after)):
        for k in range(devices):
            number = f".{k}" if devices > 1 else ""
            paths.append(folder / f"{plain}.{when}{number}.npz")
            # Values are stored device by device, in the order of the parameters.
            own = values[k * len(types) : (k + 1) * len(types)]
            save(paths[-1], named(own, types))
    return tuple(paths)


def _grid(violation: Violation) -> str:
    """Return the command-line options for the number of devices that a violation needs.

    The text is empty for one device.
    """
    devices = violation.instance.devices
    if devices.count == 1:
        return ""
    return f"; --replicas {devices.replicas} --partitions {devices.partitions}"


def _text(violation: Violation) -> tuple[str, str]:
    """Return the text of the program that shows a violation, and the ending of its file name.

    It is in the language that has all its ops.
    """
    running = violation.instance.running
    ops = {inner.op.name for ins in running for inner in within(ins)}
    if "return" not in ops:
        return print_hlo(module_of(running)), "hlo"
    return print_stablehlo(module_of(_function(running))), "mlir"


def _function(computation: Computation) -> Computation:
    """Return a computation with the same instructions, and a `return` at its end."""
    root = computation.root
    results: tuple[Instruction, ...] = (root,)
    if isinstance(root.type, TupleType):
        parts = enumerate(root.type.elements)
        results = tuple([Instruction(f"result{k}", t, Result(k), (root,)) for k, t in parts])
    inside = (*computation.instructions, *(results if results != (root,) else ()))
    types = tuple([r.type for r in results])
    end = Instruction("return", TupleType(types), Return(), results)
    return Computation("main", Body((*inside, end), computation.parameters, end))
