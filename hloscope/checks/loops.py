"""The rule about loops: annotated trip counts must agree with the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.checks.findings import Finding
from hloscope.checks.rule import Rule
from hloscope.checks.subject import Subject
from hloscope.cost import TripCount, loops_of


def _trip_counts(subject: Subject) -> Iterator[Finding]:
    for loop in loops_of(subject.module):
        trip = loop.trip_count
        if trip.differs:
            message = f"annotated to run {_times(trip.annotated)}, but {_computed(trip)}"
            yield subject.finding(
                "trip-counts", loop.computation, loop.instruction, message, _distance(trip)
            )


def _times(count: int | None) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _computed(trip: TripCount) -> str:
    """The trip count by the program of a loop with a false annotation, as text."""
    if trip.count is not None:
        return f"runs {_times(trip.count)}"
    if trip.high is not None:
        return f"runs {trip.low:,} to {trip.high:,} times: {trip.reason}"
    if trip.origin == "program":
        return trip.reason
    return f"runs at least {_times(trip.low)}: {trip.reason}"


def _distance(trip: TripCount) -> int:
    """The distance of the annotation from the nearest possible count, at least 1."""
    annotated = trip.annotated or 0
    beyond = 0 if trip.high is None else annotated - trip.high
    return max(trip.low - annotated, beyond, 1)


TRIP_COUNTS: Final = Rule(
    "trip-counts",
    "No loop with a `known_trip_count` that contradicts the program.",
    {},
    _trip_counts,
)
