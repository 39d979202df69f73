"""Results of exact proofs: verdicts, counter-examples, and why a statement is undecided."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from hloscope.affine import Expr


class Verdict(StrEnum):
    """Outcome of a proof: the statement is true, it is false, or isl did not decide."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Table(Struct, frozen=True):
    """Contents of a tensor in a counter-example.

    Attributes:
        name: Name of the tensor.
        origin: The tensor, or a key that identifies it.
        entries: Pairs of an index and its value.
        formula: Value of the elements that are not listed, over `Dim(i)`, their index; `None` if
            they are arbitrary.
        rank: Number of dimensions.

    >>> print(Table("i", None, (((2, 0), 5),), rank=2))
    i[2, 0] = 5
    """

    name: str
    origin: Hashable
    entries: tuple[tuple[tuple[int, ...], int], ...] = ()
    formula: Expr | None = None
    rank: int = 0

    def __str__(self) -> str:
        said = [f"{self.name}{_index(at)} = {value}" for at, value in self.entries]
        if self.formula is not None and (self.rank or not said):
            index = [f"d{i}" for i in range(self.rank)]
            said.append(f"{self.name}{_index(index)} = {self.formula}")
        return ", ".join(said)


def _index(at: Sequence[object]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


class CounterExample(Struct, frozen=True):
    """A pair `dims -> results` that refutes a statement.

    It is, for example, in only one of two relations.

    Attributes:
        dims: The index on the left of the relation.
        results: The index on the right.
        only_in: The relation that has the pair: 0 is the first, 1 the second.
        tables: Contents of the tensors that are read at run time.
    """

    dims: tuple[int, ...]
    results: tuple[int, ...]
    only_in: int = 0
    tables: tuple[Table, ...] = ()

    def __str__(self) -> str:
        where = ("first", "second")[self.only_in]
        return f"{self.pair} only in the {where}{self.reading}"

    @property
    def pair(self) -> str:
        """Text `(dims) -> (results)` of the pair."""
        return f"{as_tuple(self.dims)} -> {as_tuple(self.results)}"

    @property
    def reading(self) -> str:
        """Text ` where …` with the contents of the tables; empty if there are none."""
        return f" where {', '.join(map(str, self.tables))}" if self.tables else ""


def as_tuple(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))})"


class Proof(Struct, frozen=True):
    """Result of a proof, with a counter-example or the reason why it is undecided.

    Attributes:
        verdict: Proved, refuted or undecided.
        counter_example: A pair that refutes the statement; `None` if there is none.
        reason: Why the statement is undecided, or what refutes it.
        seconds: Elapsed wall time.
    """

    verdict: Verdict
    counter_example: CounterExample | None = None
    reason: str = ""
    seconds: float = 0.0

    def __eq__(self, other: object) -> bool:
        if type(other) is not Proof:
            return NotImplemented
        return (
            self.verdict == other.verdict
            and self.counter_example == other.counter_example
            and self.reason == other.reason
        )

    def __hash__(self) -> int:
        return hash((self.verdict, self.counter_example, self.reason))

    def __repr__(self) -> str:
        why = self.counter_example or self.reason
        return f"<Proof {self.verdict}{f': {why}' if why else ''}>"

    @property
    def is_proved(self) -> bool:
        return self.verdict is Verdict.PROVED

    @property
    def is_refuted(self) -> bool:
        return self.verdict is Verdict.REFUTED


PROVED: Final = Proof(Verdict.PROVED)
