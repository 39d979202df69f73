"""What is said of kernels (coalescing, bytes, tiles, cancellation), as data without names.

Kernels of equal layers are equal then, and stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hloscope.cost import Footprint
from hloscope.display import coalescing_json, footprint_json
from hloscope.explorer.answers import NOTHING
from hloscope.explorer.program import Numbering
from hloscope.explorer.tables import Shared, Written, numbers, written, written_object
from hloscope.memory import Coalescing
from hloscope.movement import Chain, Figures
from hloscope.tiling import Refusal, SymbolicTiles
from hloscope.visible import visible

Facts = dict[str, Any]
_TRAFFIC: Final = ("utilisation", "efficiency", "asked_bytes", "moved_bytes", "requests", "sectors")


class Kernels:
    """Facts about kernels, by subject; equal ones are there once.

    A column for each subject has the number of the facts about each instruction, `NOTHING` where
    nothing is said; `from` has the distance from each instruction forward to the one from which
    its facts count others.
    """

    def __init__(self, count: int) -> None:
        self._facts: Final = Shared()
        self._of: Final[dict[str, list[int]]] = {}
        self._from: Final = [0] * count

    def number(self, facts: Mapping[str, Any] | Written) -> int:
        """The number of some facts; if they are written already, members stand in order."""
        text = facts if isinstance(facts, Written) else written(facts, sort_keys=True)
        return self._facts.number(text)

    def add(self, subject: str, instruction: int, number: int, start: int | None = None) -> None:
        """The facts of this number are known of an instruction; others are counted from `start`."""
        column = self._of.get(subject)
        if column is None:
            column = self._of[subject] = [NOTHING] * len(self._from)
        column[instruction] = number
        if start is not None:
            self._from[instruction] = start - instruction

    def told(self) -> list[Any]:
        """All that is known, as JSON can say it, for `add_told`."""
        return [self._facts.values, self._of, self._from]

    def add_told(self, told: Sequence[Any]) -> None:
        """Add what others know, of subjects of which nothing is said here."""
        texts, columns, froms = told
        number_of = [self.number(Written(text)) for text in texts]
        for subject, column in columns.items():
            self._of[subject] = [n if n == NOTHING else number_of[n] for n in column]
        self._from[:] = [mine or other for mine, other in zip(self._from, froms, strict=True)]

    def to_json(self) -> Written:
        """The facts, and which one each instruction has."""
        facts = Written(f"[{','.join(self._facts.values)}]")
        of = written_object({subject: numbers(column) for subject, column in self._of.items()})
        return written_object({"facts": facts, "of": of, "from": numbers(self._from)})


def coalescing_facts(answer: Coalescing) -> Facts:
    """What warps move: of the kernel, and of each array it reads or writes."""
    told = coalescing_json(answer)
    kept = ("model", "emitter", "wasted_bytes", "utilisation", "efficiency", "xla_heuristic")
    notes = [visible(note) for note in told["notes"]]
    return {
        **{key: told[key] for key in kept},
        "notes": notes,
        "arrays": [_array(array) for array in told["arrays"]],
    }


def _array(array: Facts) -> Facts:
    told = {key: array[key] for key in ("role", "number", "leaf", "xla_map", "precision")}
    told |= {key: array[key] for key in _TRAFFIC if key in array}
    if "best" in array:
        told["best"] = array["best"]["efficiency"]
    if "spoiler" in array:
        told["spoiler"] = visible(array["spoiler"]["text"])
    if "tile" in array:
        told["tile"] = array["tile"]
    if array["reason"]:
        told["reason"] = visible(array["reason"])
    return told


def footprint_facts(found: Footprint, times: int | None) -> Facts:
    """The bytes a kernel reads and writes at least, and how often it runs, if that is known."""
    told = footprint_json(found)
    kept = ("read_bytes", "written_bytes", "flops", "intensity", "reuse", "exact")
    sides = ("reads", "writes")
    parts = ("number", "leaf", "elements", "bytes", "sectors", "reuse", "exact")
    return {
        **{key: told[key] for key in kept},
        **{side: [{key: a[key] for key in parts} for a in told[side]] for side in sides},
        "notes": [visible(note) for note in told["notes"]],
        "times": times,
    }


def tile_facts(symbolic: SymbolicTiles | Refusal) -> Facts:
    """The tile sizes to choose and what they must fulfil, as XLA's analysis says, or why not."""
    if isinstance(symbolic, Refusal):
        return {"refused": visible(f"{symbolic.code}: {symbolic.reason}")}
    return {
        "sizes": [parameter.size for parameter in symbolic.parameters],
        "must": [visible(str(clause)) for clause in symbolic.constraints.clauses],
        "forgotten": [visible(str(clause)) for clause in symbolic.dropped.clauses],
    }


class ChainPlaces(NamedTuple):
    """Where instructions of a chain are, by distance back from its sink.

    Attributes:
        steps: The steps.
        moves_at: The op from which on the bytes have moved.
        sources: The leaves that count.
    """

    steps: tuple[int | None, ...]
    moves_at: int | None
    sources: tuple[int | None, ...]


def chain_places(chain: Chain, numbering: Numbering) -> ChainPlaces:
    """Where instructions of a chain are."""
    number_of = numbering.numbers.get
    sink, blocking = number_of(chain.sink, 0), chain.blocking
    at = None if blocking is None else number_of(blocking)
    return ChainPlaces(
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.steps]),
        None if at is None else sink - at,
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.sources]),
    )


def chain_sources(chain: Chain) -> list[str]:
    """What the movement from each source is: the same of chains that are alike."""
    return [
        written(
            {
                "proof": str(judged.proof.verdict) if judged.kind.is_free else None,
                "reason": judged.reason and visible(judged.reason),
                "verdict": str(judged.kind),
            }
        )
        for judged in chain.judgements
    ]


def chain_facts(figures: Figures, places: ChainPlaces, sources: Sequence[str]) -> Written:
    """What a chain of data movement comes to; instructions by distance back from its sink.

    There are thousands of chains, most of them like another one but for their places; so what is
    said of their `sources` (`chain_sources`) is written before, and members stand in order already.
    """
    assert figures.chain is not None
    froms = [
        f'{{"of":{numbers(place)},{source[1:]}'
        for place, source in zip(places.sources, sources, strict=True)
    ]
    return Written(
        f'{{"bytes_moved":{figures.moved},"bytes_saved":{figures.saved},'
        f'"moves_at":{numbers(places.moves_at)},"sink":0,"sources":[{",".join(froms)}],'
        f'"steps":{numbers([*places.steps])},"verdict":{written(str(figures.chain.kind))}}}'
    )
