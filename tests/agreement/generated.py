"""Everything said about a generated program, compared with what it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

import hloscope as hs
from hloscope.api.program import InstructionView
from hloscope.errors import HloscopeError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import Accesses, Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.op import NotInferredError
from hloscope.ir.types import TensorType, compatible
from hloscope.ops.control import AsyncStart, Fusion
from tests.agreement.claims import Claim, WrongMapError, claim
from tests.agreement.execution import (
    KINDS,
    Bools,
    Leaves,
    Moved,
    Observation,
    Runner,
    observe,
    observe_floats,
)
from tests.generator import (
    Program,
    generate,
    hlo_text,
    isolated,
    moderate,
    options_of,
    stablehlo_text,
    walk,
)
from tests.generator.kinds import COLLECTIVES
from tests.generator.program import Node

SPELL: Final = {"hlo": hlo_text, "mlir": stablehlo_text}
MORE_DRAWS: Final = 240
"""Further draws for programs that hide nothing, until all has moved that is claimed."""
Pair = tuple[int, int]
"""An output and an input, both leaves by number."""


class FailureError(AssertionError):
    """Something said about a program is wrong.

    Attributes:
        kind: What is wrong, in one word or two; the same for a smaller program.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class Report:
    """What was found out about a program, or many.

    Attributes:
        precisions: How many pairs of an output and an input had which claim.
        pairs: Counts of pairs of elements: `claimed`, `moved`, `hidden` (claimed exactly, and never
            seen to move).
    """

    precisions: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Report) -> Report:
        return Report(
            self.precisions + other.precisions,
            self.pairs + other.pairs,
            self.reasons + other.reasons,
        )

    def __str__(self) -> str:
        reasons = "".join(f"\n  {n} {reason}" for reason, n in self.reasons.most_common(12))
        return f"answers: {dict(self.precisions)}\nelements: {dict(self.pairs)}{reasons}"


class Said:
    """The maps of a program, in both directions."""

    def __init__(self, program: hs.Program, devices: int = 1) -> None:
        entry = program.module.entry
        self.devices: Final = devices
        self.entry: Final = entry
        self.outputs = [t for t in leaf_types(entry.root.type) if isinstance(t, TensorType)]
        self.inputs = [t for p in entry.parameters for t in leaf_types(p.type)]
        places = [
            (k, i) for k, p in enumerate(entry.parameters) for i in range(len(leaf_types(p.type)))
        ]
        self.back: dict[Pair, Accesses] = {}
        self.forth: dict[Pair, Accesses] = {}
        root = program.root
        answers = root.to_parameters(output=None).answer.outputs
        for o, answer in enumerate(answers):
            for i, (k, leaf) in enumerate(places):
                some = [a for a in answer.operands[k].accesses if a.leaf == leaf or a.map is None]
                self.back[o, i] = tuple(some)
        outside = tuple(Instruction(p.name, p.type, p.op) for p in entry.parameters)
        whole = Instruction("whole", entry.root.type, Fusion("kLoop"), outside, (entry,))
        for i, (k, leaf) in enumerate(places):
            for o, some in program.analysis.input_to_output(whole, k, leaf).items():
                self.forth[o, i] = some

    def claims(self, pair: Pair, seen: Observation) -> tuple[Claim, Claim]:
        """What is said of a pair: from the output, and from the input (transposed)."""
        o, i = pair
        source, target = self.outputs[o].shape, self.inputs[i].shape
        back = claim(self.back[pair], source, target, seen.values, self.devices)
        forth = claim(self.forth.get(pair, ()), target, source, seen.values, self.devices)
        forth.touched = forth.touched.transpose(2, 1, 0)
        return back, forth


def program_of(seed: int, language: str) -> Program:
    """The program of a seed; of one of four, an op of it alone that has regions, if it has one.

    Not those whose operands are not any: loops end for some only, sizes have bounds, and processes
    that meet have to take the same branches.
    """
    program = generate(seed, options_of(seed, language))
    if seed % 4 != 3:
        return program
    fragile = {"stablehlo.while", "stablehlo.set_dimension_size"}
    alone = [
        isolated(node)
        for node in walk(program.entry)
        if node.regions
        and fragile.isdisjoint(n.name for n in (node, *_inside(node)))
        and COLLECTIVES.isdisjoint(n.name for n in _inside(node))
    ]
    if not alone:
        return program
    return replace(alone[seed // 4 % len(alone)], replicas=program.replicas, seed=seed)


def _inside(node: Node) -> Iterator[Node]:
    for region in node.regions:
        yield from walk(region)


def check(program: Program, language: str, *, draws: int = 4) -> Report:
    """Compare what is said about a program with what it does.

    Raises:
        FailureError: Something is wrong.
    """
    text = SPELL[language](program)
    wrong = hs.verify(text)
    if wrong:
        raise FailureError("verify", str(wrong[0]))
    try:
        read = hs.read(text)
        _check_printing(read)
        _check_types(read)
        for view in read.entry:
            if view.calls:
                _check_instruction(view, program.replicas)
        return _compare(program, language, read, draws)
    except HloscopeError as error:
        raise FailureError(f"error {type(error).__name__}", str(error)) from error
    except WrongMapError as error:
        raise FailureError("wrong map", str(error)) from error
    except FailureError:
        raise
    except Exception as error:
        raise FailureError(f"crash {type(error).__name__}", repr(error)) from error


def _check_printing(read: hs.Program) -> None:
    """What is printed reads as the same program."""
    once = read.text()
    if hs.read(once).text() != once:
        raise FailureError("print", "printing is no fixed point")


def _check_types(read: hs.Program) -> None:
    """Each type is what its op infers, also inside."""
    for computation in read.module:
        for ins in computation:
            if isinstance(ins.op, AsyncStart):
                continue  # its contexts are declared only
            try:
                inferred = ins.op.infer(tuple(o.type for o in ins.operands), ins.calls)
            except NotInferredError:
                continue
            if not compatible(inferred, ins.type):
                raise FailureError("infer", f"{ins.name} is {ins.type}, inferred {inferred}")


def _check_instruction(view: InstructionView, devices: int) -> None:
    """One instruction: both directions are inverse, and no value matters that is not read."""
    program, ins = view.program, view.ir
    analysis = program.analysis
    outputs = [t for t in leaf_types(ins.type) if isinstance(t, TensorType)]
    back: dict[tuple[int | Instruction, int, int], Accesses] = {}
    for o in range(len(outputs)):
        for (source, leaf), some in analysis.output_to_input(ins, o).items():
            back[source, leaf, o] = some
    sources: list[int | Instruction] = [*range(len(ins.operands)), *analysis.captured(ins)]
    for source in sources:
        value = ins.operands[source] if isinstance(source, int) else source
        for leaf, type_ in enumerate(leaf_types(value.type)):
            reached = analysis.input_to_output(ins, source, leaf)
            for o, there in enumerate(outputs):
                said, forth = back.get((source, leaf, o), ()), reached.get(o, ())
                one = claim(said, there.shape, type_.shape, {}, devices)
                other = claim(forth, type_.shape, there.shape, {}, devices)
                turned = other.touched.transpose(2, 1, 0)
                if one.is_exact and other.is_exact and (one.touched != turned).any():
                    raise FailureError(
                        "directions of one",
                        f"{view}: {_listed(said)} is not the inverse of {_listed(forth)}",
                    )


def _compare(program: Program, language: str, read: hs.Program, draws: int) -> Report:
    """Compare the maps of the whole program with what moves."""
    said = Said(read, program.replicas)
    runner = Runner(read.module, program.replicas)
    rng = np.random.default_rng(program.seed or 0)
    seen = Seen()
    report = Report()
    for draw in range(draws if program.replicas == 1 else min(draws, 2)):
        kind = KINDS[draw % len(KINDS)]
        seen.add(said, observe(runner, said.outputs, rng, kind), kind)
        if draw == 0:
            report.precisions.update(str(precision) for precision in seen.precisions)
            report.reasons.update(a.reason for some in said.back.values() for a in some if a.reason)
    shows_all = not program.masks and program.replicas == 1
    if shows_all and seen.missed(said):
        steady = Runner(hs.read(SPELL[language](moderate(program))).module)
        _look_closer(runner, steady, said, seen, rng)
    report.pairs.update(seen.counts())
    if shows_all and (missed := seen.missed(said)):
        o, i = missed[0]
        raise FailureError(
            "not exact", f"output {o} never moved with input {i}: {_listed(said.back[o, i])}"
        )
    return report


def _look_closer(
    runner: Runner, steady: Runner, said: Said, seen: Seen, rng: np.random.Generator
) -> None:
    """Draw more until all has moved that is claimed.

    Each draw is looked at twice: the steady program loses no float beside a large one.
    """
    for _ in range(MORE_DRAWS):
        for arguments in seen.plain:
            seen.add_moved(observe_floats(steady, said.outputs, rng, arguments))
        seen.plain.clear()
        if not seen.missed(said):
            break
        seen.add(said, observe(runner, said.outputs, rng, "plain"), "plain")


class Seen:
    """What was seen to move in several draws, and what was claimed.

    Claims are held against what moves where elements are plain numbers only: products with zero
    and no numbers hide what they are made of.
    """

    def __init__(self) -> None:
        self.moved: dict[Pair, Bools] = {}
        self.claimed: dict[Pair, Bools] = {}
        self.is_exact: dict[Pair, bool] = {}
        self.precisions: list[Precision] = []
        self.plain: list[list[Leaves]] = []

    def add(self, said: Said, seen: Observation, kind: str) -> None:
        """One more draw.

        Raises:
            FailureError: Something moved that no map has, or the directions differ.
        """
        for pair, moved in seen.moved.items():
            back, forth = said.claims(pair, seen)
            _check_pair(pair, said, moved, back, forth)
            if kind != "plain":
                continue
            self.moved[pair] = self.moved.get(pair, moved) | moved
            self.claimed[pair] = self.claimed.get(pair, back.touched) | back.touched
            self.is_exact[pair] = self.is_exact.get(pair, True) and back.is_exact
            self.precisions.append(back.precision)
        if kind == "plain":
            self.plain.append(seen.arguments)

    def add_moved(self, moved: Moved) -> None:
        """What moved at one of the draws, floats being others."""
        for pair, some in moved.items():
            self.moved[pair] |= some

    def hidden(self) -> list[Pair]:
        """The pairs with elements that are claimed exactly and never moved."""
        return [
            pair
            for pair, claimed in self.claimed.items()
            if self.is_exact[pair] and (claimed & ~self.moved[pair]).any()
        ]

    def missed(self, said: Said) -> list[Pair]:
        """Those of them whose input is of floats: it is computed with, and chooses nothing."""
        return [pair for pair in self.hidden() if said.inputs[pair[1]].element.kind == "float"]

    def counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for pair, claimed in self.claimed.items():
            found["claimed"] += int(claimed.sum())
            found["moved"] += int(self.moved[pair].sum())
            if self.is_exact[pair]:
                found["hidden"] += int((claimed & ~self.moved[pair]).sum())
        return found


def _check_pair(pair: Pair, said: Said, moved: Bools, back: Claim, forth: Claim) -> None:
    o, i = pair
    for direction, found in (("back", back), ("forth", forth)):
        missing = moved & ~found.touched
        if missing.any():
            row, device, column = (int(x[0]) for x in np.nonzero(missing))
            maps = said.back[pair] if direction == "back" else said.forth.get(pair, ())
            raise FailureError(
                f"missing {direction}",
                f"output {o} element {row} moved with input {i} element {column} of device"
                f" {device}, {int(missing.sum())} pairs; says {_listed(maps)}",
            )
    if back.is_exact and forth.is_exact and (back.touched != forth.touched).any():
        raise FailureError(
            "directions",
            f"output {o} and input {i}: {_listed(said.back[pair])} is not the inverse of"
            f" {_listed(said.forth.get(pair, ()))}",
        )


def _listed(accesses: Accesses) -> str:
    return "; ".join(f"{a.map} [{a.precision}]" for a in accesses) or "nothing"
