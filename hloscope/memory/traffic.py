"""Traffic of an access: its requests, sectors, cache lines and bytes, and sums of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.devices import SECTOR
from hloscope.memory.kernel import Stores

EXACT, SAMPLED, BOUNDS = "exact", "sampled", "bounds"


class Request(Struct, frozen=True):
    """One request of a warp: its position in the grid, and the addresses of its lanes.

    Attributes:
        at: Warp, block and loops, by printed name.
        addresses: First byte of each lane; `None` for inactive lanes.
        unit: Bytes that a lane accesses.
        sectors: Number of distinct sectors.
    """

    at: Mapping[str, int]
    addresses: tuple[int | None, ...]
    unit: int
    sectors: int


class Traffic(Struct, frozen=True):
    """Traffic of the requests of one access.

    Attributes:
        requests: Requests with an active lane.
        sectors: Sectors of all requests; the same sector in two requests counts twice.
        lines: Cache lines of all requests.
        asked: Bytes requested; the same byte twice in a request counts once.
        needed: Sectors needed if the bytes of each request were contiguous and aligned.
        histogram: Number of requests by sectors.
        lanes: Active lanes of all requests.
        precision: `exact`, `sampled` (figures are scaled up), or `bounds` with `best`.
        worst: A request with the most sectors.
        typical: A request with the most usual number of sectors.
        best: Lower bounds over run-time values; the other figures are then upper bounds.
        vector: Elements of a lane in one request.
        seen: Lanes that were evaluated.
        tries: Maximum number of attempts of each request; the figures count one attempt each.
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    asked: int = 0
    needed: int = 0
    histogram: Mapping[int, int] = field(default_factory=dict)
    lanes: int = 0
    precision: str = EXACT
    worst: Request | None = None
    typical: Request | None = None
    best: Traffic | None = None
    vector: int = 1
    seen: int = 0
    tries: int = 1

    @property
    def moved(self) -> int:
        """Return the bytes transferred, in whole sectors."""
        return self.sectors * SECTOR

    @property
    def utilisation(self) -> float:
        """Return the requested bytes over the transferred bytes; 1 if nothing is transferred."""
        return self.asked / self.moved if self.moved else 1.0

    @property
    def efficiency(self) -> float:
        """Return the needed over the transferred sectors.

        It is 1 also if a whole warp reads one element.
        """
        return self.needed / self.sectors if self.sectors else 1.0

    @property
    def wasted(self) -> int:
        """Return the bytes transferred beyond the needed sectors."""
        return max(self.sectors - self.needed, 0) * SECTOR

    @property
    def fewest(self) -> int:
        """Return the sectors of the best request; 0 without requests."""
        return min(self.histogram, default=0)

    @property
    def most(self) -> int:
        """Return the sectors of the worst request; 0 without requests."""
        return max(self.histogram, default=0)

    @property
    def mean(self) -> float:
        """Return the mean number of sectors of a request."""
        return self.sectors / self.requests if self.requests else 0.0


def together(parts: list[Traffic]) -> Traffic:
    """Return the total traffic of several accesses, each with separate requests."""
    if len(parts) == 1:
        return parts[0]
    histogram: dict[int, int] = {}
    for part in parts:
        for sectors, count in part.histogram.items():
            histogram[sectors] = histogram.get(sectors, 0) + count
    order = [EXACT, SAMPLED, BOUNDS]
    precision = max([part.precision for part in parts], key=order.index, default=EXACT)
    worst = max(parts, key=lambda part: part.most, default=Traffic())
    largest = max(parts, key=lambda part: part.requests, default=Traffic())
    best = None
    if any(part.best for part in parts):
        best = together([part.best or part for part in parts])
    return Traffic(
        sum(part.requests for part in parts),
        sum(part.sectors for part in parts),
        sum(part.lines for part in parts),
        sum(part.asked for part in parts),
        sum(part.needed for part in parts),
        dict(sorted(histogram.items())),
        sum(part.lanes for part in parts),
        precision,
        worst.worst,
        largest.typical,
        best,
        max([part.vector for part in parts], default=1),
        sum(part.seen for part in parts),
        max([part.tries for part in parts], default=1),
    )


def stored(traffic: Traffic, stores: Stores) -> Traffic:
    """Return the traffic of stores that are made more or less than once, with bounds."""
    found = traffic
    if stores.run > 1 or (stores.least, stores.most) != (1, 1):
        best = _scaled(traffic.best or traffic, stores.least, stores.run)
        worst = _scaled(traffic, stores.most, 1)
        found = replace(worst, precision=BOUNDS, best=best)
    return replace(found, tries=stores.tries) if stores.tries > 1 else found


def _scaled(traffic: Traffic, times: int, parts: int) -> Traffic:
    """Return the traffic with all counts times `times`, divided by `parts` and rounded down."""

    def scaled(value: int) -> int:
        return value * times // parts

    return Traffic(
        scaled(traffic.requests),
        scaled(traffic.sectors),
        scaled(traffic.lines),
        scaled(traffic.asked),
        scaled(traffic.needed),
        {sectors: scaled(count) for sectors, count in traffic.histogram.items() if scaled(count)},
        scaled(traffic.lanes),
        worst=traffic.worst,
        typical=traffic.typical,
        vector=traffic.vector,
        seen=traffic.seen,
    )
