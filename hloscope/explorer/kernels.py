"""Facts about kernels (coalescing, bytes, tiles, data movement), as data without names.

Equal kernels of repeated layers then have equal facts, which are stored once.
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
    """Facts about kernels by subject; equal facts are stored once.

    Each subject has a column with the number of the facts about each instruction, `NOTHING` if
    there are none. The column `from` has the distance from an instruction forward to the one that
    its facts count distances from.
    """

    def __init__(self, count: int) -> None:
        self._facts: Final = Shared()
        self._of: Final[dict[str, list[int]]] = {}
        self._from: Final = [0] * count

    def number(self, facts: Mapping[str, Any] | Written) -> int:
        """The number of the given facts. If they are `Written`, their members must be sorted."""
        text = facts if isinstance(facts, Written) else written(facts, sort_keys=True)
        return self._facts.number(text)

    def add(self, subject: str, instruction: int, number: int, start: int | None = None) -> None:
        """Give an instruction the facts of this number, whose distances count from `start`."""
        column = self._of.get(subject)
        if column is None:
            column = self._of[subject] = [NOTHING] * len(self._from)
        column[instruction] = number
        if start is not None:
            self._from[instruction] = start - instruction

    def told(self) -> list[Any]:
        """All facts in a form that JSON can encode, for `add_told`."""
        return [self._facts.values, self._of, self._from]

    def add_told(self, told: Sequence[Any]) -> None:
        """Add facts that another process computed, about subjects that this table lacks."""
        texts, columns, froms = told
        number_of = [self.number(Written(text)) for text in texts]
        for subject, column in columns.items():
            self._of[subject] = [n if n == NOTHING else number_of[n] for n in column]
        # The subjects are disjoint, but share this column: only one side has set an entry.
        self._from[:] = [mine or other for mine, other in zip(self._from, froms, strict=True)]

    def to_json(self) -> Written:
        """The facts, and the number of each instruction's facts."""
        facts = Written(f"[{','.join(self._facts.values)}]")
        of = written_object({subject: numbers(column) for subject, column in self._of.items()})
        return written_object({"facts": facts, "of": of, "from": numbers(self._from)})


def coalescing_facts(answer: Coalescing) -> Facts:
    """The transfers of a kernel's warps, in all and for each array."""
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
    """The least bytes that a kernel reads and writes, and how often it runs; `None` if unknown."""
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
    """The tile sizes with their constraints by XLA's analysis, or why it refuses."""
    if isinstance(symbolic, Refusal):
        return {"refused": visible(f"{symbolic.code}: {symbolic.reason}")}
    return {
        "sizes": [parameter.size for parameter in symbolic.parameters],
        "must": [visible(str(clause)) for clause in symbolic.constraints.clauses],
        "forgotten": [visible(str(clause)) for clause in symbolic.dropped.clauses],
    }


class ChainPlaces(NamedTuple):
    """Positions of a chain's instructions, as distances back from its sink.

    Attributes:
        steps: The ops of the chain.
        moves_at: The first op after which the bytes are rearranged; `None` if there is none.
        sources: The sources.
    """

    steps: tuple[int | None, ...]
    moves_at: int | None
    sources: tuple[int | None, ...]


def chain_places(chain: Chain, numbering: Numbering) -> ChainPlaces:
    """The positions of a chain's instructions."""
    number_of = numbering.numbers.get
    sink, blocking = number_of(chain.sink, 0), chain.blocking
    at = None if blocking is None else number_of(blocking)
    return ChainPlaces(
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.steps]),
        None if at is None else sink - at,
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.sources]),
    )


def chain_sources(chain: Chain) -> list[str]:
    """The verdict on the movement from each source, as JSON; equal for chains of one structure."""
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
    """The verdict on a chain of data movement.

    Programs have thousands of chains that differ only in their positions. So `sources` is encoded
    before, by `chain_sources`, and the members here are written in sorted order.
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
