"""Lower bounds of time, from the bytes and operations that no kernel can avoid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.errors import HloscopeError
from hloscope.support.devices import Device

# --------------------------------------------------------------------------------------------------
# Lower bounds of time: no kernel and no step can be faster on a device.
#
# A kernel or step takes at least as long as its busiest unit needs alone: bytes / bandwidth, or
# operations / peak.  Units run in parallel, so the bound is the maximum over units, not the sum.
# One unit computes its element types one after another: these times add up.  A bound is not a time:
# launches, latency, waiting and imbalance are added to it.
#
# Peaks are never too low, so that a bound is never too high:
#
# * f32 on matrix units: by default compilers may compute in tf32 (NVIDIA, AMD) or bf16 (TPU); the
#   faster type counts, unless `exact_f32` says that the precision forbids it.
# * A type without a peak in the table takes the peak of the fastest type that could carry it: s8
#   for
#   f8, f16 for bf16, twice f32 for f16 on vector units (no device has more than two packed lanes).
# * If there is still no peak, the work is left out, and a note states it.
#
# Transcendentals are a separate part and never decide: a compiler may compute them on vector units
# as well, so the peak of the special units gives no bound.


WorkByUnit = Mapping[tuple[str, str], float]
"""Operations by (`matrix` or `vector`, element type); a multiply-add counts as 2 operations."""

MEMORY: Final = "memory"
UNKNOWN: Final = "unknown"
_UNITS: Final = ("matrix", "vector")

_WIDER: Final[Mapping[str, tuple[tuple[str, str, float], ...]]] = {
    "matrix f64": (("matrix", "f64", 1), ("vector", "f64", 1)),
    "matrix tf32": (("matrix", "tf32", 1), ("matrix", "f32", 1)),
    "matrix f32": (("matrix", "f32", 1), ("vector", "f32", 1)),
    "matrix f16": (("matrix", "f16", 1), ("matrix", "bf16", 1), ("vector", "f16", 1)),
    "matrix bf16": (
        ("matrix", "bf16", 1), ("matrix", "f16", 1), ("vector", "bf16", 1), ("vector", "f32", 2),
    ),
    "matrix f8": tuple([("matrix", t, 1.0) for t in ("f8", "s8", "f16", "bf16")]),
    "matrix s8": tuple([("matrix", t, 1.0) for t in ("s8", "f8", "f16", "bf16")]),
    "matrix f4": tuple([("matrix", t, 1.0) for t in ("f4", "s4", "f8", "s8", "f16", "bf16")]),
    "matrix s4": tuple([("matrix", t, 1.0) for t in ("s4", "f4", "s8", "f8", "f16", "bf16")]),
    "matrix s32": (("vector", "s32", 1), ("vector", "f32", 1)),
    "vector f64": (("vector", "f64", 1),),
    "vector f32": (("vector", "f32", 1),),
    "vector f16": (("vector", "f16", 1), ("vector", "f32", 2)),
    "vector bf16": (("vector", "bf16", 1), ("vector", "f16", 1), ("vector", "f32", 2)),
    "vector s32": (("vector", "s32", 1), ("vector", "f32", 1)),
}  # fmt: skip
"""For each unit and type, the peaks that can stand for its peak, with factors.

The first known one is taken. For 8-bit and 4-bit types the narrower types come first, as they are
faster.
"""
_NAMES: Final = {
    "c64": "f32", "c128": "f64", "u8": "s8", "u4": "s4", "s2": "s4", "u2": "s4", "s1": "s4",
    "u1": "s4", "u32": "s32", "s16": "s32", "u16": "s32", "s64": "s32", "u64": "s32",
}  # fmt: skip
"""For element types without peaks, the type whose peak is used.

64-bit integers need several operations of 32 bits.
"""


class BoundError(HloscopeError, ValueError):
    """An amount of work is negative or not a number, or its unit is unknown."""

    exit_code = 2


class Part(Struct, frozen=True):
    """The lower bound of the time of one unit.

    Attributes:
        unit: `memory`, `matrix`, `vector`, `special`, or `transfer`.
        element: Element type of the work, as given; empty for bytes.
        amount: Bytes or operations.
        rate: Bytes or operations per second; `None` if unknown.
        seconds: Lower bound in seconds; `None` if the rate is unknown.
        counts: Is `seconds` included in the bound?
        note: Assumption about the rate, or why it is unknown.
    """

    unit: str
    element: str
    amount: float
    rate: float | None
    seconds: float | None
    counts: bool = True
    note: str = ""


class Bound(Struct, frozen=True):
    """A lower bound of time.

    Attributes:
        seconds: Lower bound of the time of a run, in seconds; 0 if nothing is known.
        limited_by: `memory`, `matrix TYPE`, `vector TYPE`, `transfer`, or `unknown`.  TYPE is the
            element type that takes most of the unit's time.
        parts: The parts by unit and element type.
        notes: Work that the bound leaves out, and its assumptions.
    """

    seconds: float
    limited_by: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Is all work included in the bound? Otherwise the true bound may be higher."""
        return all(part.seconds is not None for part in self.parts if part.counts)


def bound_of(
    read_bytes: float,
    written_bytes: float,
    work: WorkByUnit,
    device: Device,
    *,
    transcendentals: float = 0,
    exact_f32: bool = False,
    notes: Iterable[str] = (),
) -> Bound:
    """Return a lower bound of the time to transfer these bytes and do this work.

    Args:
        read_bytes: The fewest bytes that come from memory.
        written_bytes: The fewest bytes that go to memory.
        work: Operations by unit and element type.
        device: The device.
        transcendentals: Number of results of transcendental functions, in f32.
        exact_f32: Does the stated precision forbid tf32 and bf16 for products of f32?
        notes: Further notes, such as reasons why work is missing.

    Raises:
        BoundError: An amount is negative or not a number, or a unit is unknown.

    >>> from hloscope.support.devices import device_of
    >>> bound = bound_of(1e9, 0, {("matrix", "bf16"): 1e12}, device_of("h100"))
    >>> bound.limited_by, round(bound.seconds * 1e3, 2)
    ('matrix bf16', 1.01)
    """
    moved, rate = _amount(read_bytes) + _amount(written_bytes), device.bandwidth * 1e9 or None
    is_unknown = rate is None and moved > 0
    note = f"`{device.name}` has no bandwidth: give a device file" if is_unknown else ""
    seconds = moved / rate if rate else (None if moved else 0.0)
    parts = [Part(MEMORY, "", moved, rate, seconds, note=note)]
    for (unit, element), amount in work.items():
        if unit not in _UNITS:
            raise BoundError(f"no unit `{unit}`; known: {', '.join(_UNITS)}")
        if _amount(amount):
            rate, note = _rate_of(unit, element, device, exact_f32)
            seconds = amount / rate if rate else None
            parts.append(Part(unit, element, amount, rate, seconds, note=note))
    if _amount(transcendentals):
        rate = device.special * 1e12 or None
        seconds = transcendentals / rate if rate else None
        note = "not in the bound: vector units can compute them as well"
        parts.append(
            Part("special", "f32", transcendentals, rate, seconds, counts=False, note=note)
        )
    return _bound_of_parts(parts, list(notes))


STEP: Final = "a step: its arguments are read once and its results written once"


def _amount(value: float) -> float:
    if not 0 <= value < float("inf"):  # false for NaN too
        raise BoundError(f"an amount of work is {value}: expected a number of at least 0")
    return value


def _rate_of(unit: str, element: str, device: Device, exact_f32: bool) -> tuple[float | None, str]:
    """Return the operations per second of a unit, and a note on assumptions.

    The rate is `None` if it is unknown.

    Args:
        unit: `matrix` or `vector`.
        element: Element type in HLO.
        device: The device.
        exact_f32: Does the stated precision forbid faster types for products of f32?
    """
    name = _peak_type(element)
    candidates = [*_WIDER.get(f"{unit} {name}", ())]
    found = _known(candidates, device)
    # The default precision lets a compiler use a faster type for products of f32. A bound must
    # assume that it does, or a run could beat the bound.
    is_product = unit == "matrix" and name == "f32" and bool(device.fast_f32)
    if is_product and not (exact_f32 and found):  # exact products without a peak take more passes
        found = _known([*_WIDER.get(f"matrix {device.fast_f32}", ()), *candidates], device)
    if not found:
        return None, f"`{device.name}` has no peak of {unit} {element}: left out"
    # The first candidate is the type's own peak; of those for f32 the highest counts.
    (from_unit, taken), peak = max(found, key=lambda row: row[1]) if name == "f32" else found[0]
    note = "" if (from_unit, taken) == (unit, element) else f"at the peak of {from_unit} {taken}"
    if name == "f32" and taken != "f32" and not exact_f32:
        note += ", which the default precision allows"
    return peak * 1e12, note


def _known(
    candidates: Iterable[tuple[str, str, float]], device: Device
) -> list[tuple[tuple[str, str], float]]:
    """Return the candidates for which the device has a peak, with the peaks in TFLOP/s.

    A peak is multiplied by the candidate's factor.
    """
    peaks = [((unit, element), device.peak(unit, element), k) for unit, element, k in candidates]
    return [(way, peak * factor) for way, peak, factor in peaks if peak]


def _peak_type(element: str) -> str:
    """Return the type whose peak is used for an HLO type: `f8` for `f8e4m3fn`, `s8` for `u8`."""
    if element.startswith(("f8e", "f6e")):
        return "f8"
    if element.startswith("f4e"):
        return "f4"
    return _NAMES.get(element, element)


def _bound_of_parts(parts: list[Part], notes: list[str]) -> Bound:
    """Return the bound of several units that work at the same time: the longest time of a unit.

    Times of one unit's element types add up.

    Args:
        parts: Times by unit and element type.
        notes: Further notes.
    """
    times: dict[str, float] = {}
    longest: dict[str, tuple[float, str]] = {}
    for part in parts:
        if part.counts and part.seconds is not None:
            times[part.unit] = times.get(part.unit, 0.0) + part.seconds
            if part.unit not in longest or part.seconds > longest[part.unit][0]:
                longest[part.unit] = part.seconds, part.element
    every = tuple(dict.fromkeys([*[part.note for part in parts if part.note], *notes]))
    unit = max(times, key=lambda name: times[name], default=UNKNOWN)
    seconds = times.get(unit, 0.0)
    limited = f"{unit} {longest[unit][1]}".strip() if seconds else UNKNOWN
    return Bound(seconds, limited, tuple(parts), every)


# --------------------------------------------------------------------------------------------------
# Operations of an instruction, by the unit that computes them and by element type.


class Product(NamedTuple):
    """Element types of a dot or convolution, with its stated precision.

    Attributes:
        lhs: Element type of operand 0.
        rhs: Element type of operand 1.
        result: Element type of the result.
        precision: Precision of each operand as the program states it; empty if it does not.
        algorithm: Algorithm as the program states it; empty if it does not.
    """

    lhs: str
    rhs: str
    result: str
    precision: tuple[str, ...] = ()
    algorithm: str = ""

    @property
    def allows_tf32(self) -> bool:
        """Is it allowed to multiply these f32 operands as tf32?

        If an algorithm is stated, its types decide. Otherwise precision `HIGHEST` forbids it.
        """
        if (self.lhs, self.rhs) != ("f32", "f32"):
            return False
        if self.algorithm:
            return "tf32" in self.algorithm.lower()
        return not any(p.upper() == "HIGHEST" for p in self.precision)


class Work(Struct, frozen=True):
    """Operations by unit and element type. Objects can be added, and multiplied by numbers of runs.

    Attributes:
        matrix: Operations of dots, convolutions, and library calls of these.
        vector: Operations of element-wise ops, comparisons, reductions.
        transcendentals: Results of exponentials, roots, trigonometric and similar functions.
        converts: Elements that are converted to another type, or to or from complex numbers.
        unknown: Names of ops and targets of custom calls of unknown work, sorted.  Their work is
            not in the figures.
        estimates: Names of the rules by which part of the figures is estimated, sorted.
        at_least: Names of the rules by which part of the figures is a lower bound, sorted.
    """

    matrix: tuple[tuple[Product, int], ...] = ()
    vector: tuple[tuple[str, int], ...] = ()
    transcendentals: tuple[tuple[str, int], ...] = ()
    converts: tuple[tuple[str, int], ...] = ()
    unknown: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()

    @property
    def matrix_flops(self) -> int:
        """Return the operations of matrix units."""
        return sum([n for _, n in self.matrix])

    @property
    def vector_flops(self) -> int:
        """Return the operations of vector units."""
        return sum([n for _, n in self.vector])

    @property
    def flops(self) -> int:
        """Return the operations of matrix and vector units, without transcendentals or converts."""
        return self.matrix_flops + self.vector_flops

    @property
    def transcendental_count(self) -> int:
        """Return the number of results of transcendental functions."""
        return sum([n for _, n in self.transcendentals])

    @property
    def convert_count(self) -> int:
        """Return the number of converted elements."""
        return sum([n for _, n in self.converts])

    @property
    def is_exact(self) -> bool:
        """Is all work known, and no part estimated or a lower bound?"""
        return not (self.unknown or self.estimates or self.at_least)

    def __add__(self, other: Work) -> Work:
        return total([(self, 1), (other, 1)])

    def __mul__(self, runs: int) -> Work:
        return total([(self, runs)])

    __rmul__ = __mul__


NOTHING: Final = Work()
"""No work."""


def total(parts: Iterable[tuple[Work, int]]) -> Work:
    """Return the sum of pairs of `Work` and its number of runs.

    Work with 0 runs adds no names.

    Raises:
        ValueError: A number of runs is negative.
    """
    matrix: dict[Product, int] = {}
    elements: tuple[dict[str, int], ...] = ({}, {}, {})
    names: tuple[set[str], ...] = (set(), set(), set())
    for work, runs in parts:
        if runs < 0:
            raise ValueError(f"a number of runs is {runs}, needs at least 0")
        if runs == 0 or work is NOTHING:
            continue
        for product, n in work.matrix:
            matrix[product] = matrix.get(product, 0) + n * runs
        figures = work.vector, work.transcendentals, work.converts
        for counts, figure in zip(elements, figures, strict=True):
            for element, n in figure:
                counts[element] = counts.get(element, 0) + n * runs
        for found, more in zip(names, (work.unknown, work.estimates, work.at_least), strict=True):
            found.update(more)
    if not (matrix or any(elements) or any(names)):
        return NOTHING
    vector, transcendentals, converts = map(_counted, elements)
    unknown, estimates, at_least = [tuple(sorted(found)) for found in names]
    products = tuple(sorted([(product, n) for product, n in matrix.items() if n]))
    return Work(products, vector, transcendentals, converts, unknown, estimates, at_least)


def _counted(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted([(element, n) for element, n in counts.items() if n]))


def largest(branches: Sequence[Work]) -> Work:
    """Return the work of the largest branch, for each figure separately.

    Flops are those of the branch with most flops; transcendentals and converts each come from the
    branch with most of them. The names are those of all branches.
    """
    if not branches:
        return NOTHING
    flops = max(branches, key=lambda work: work.flops)
    transcendentals = max(branches, key=lambda work: work.transcendental_count)
    converts = max(branches, key=lambda work: work.convert_count)
    names = total([(work, 1) for work in branches])
    return Work(
        flops.matrix,
        flops.vector,
        transcendentals.transcendentals,
        converts.converts,
        names.unknown,
        names.estimates,
        names.at_least,
    )
