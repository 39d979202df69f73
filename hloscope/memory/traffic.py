"""How many sectors and lines the requests of an access move: counted over the whole grid.

Requests that behave alike are counted once (`periods`); what is left is evaluated with np.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.devices import SECTOR
from hloscope.memory.kernel import Stores

EXACT, SAMPLED, BOUNDS = "exact", "sampled", "bounds"


class Request(Struct, frozen=True):
    """One request: where it is, what its lanes touch.

    Attributes:
        at: Warp, block and loops, by printed name.
        addresses: For each lane the first byte touched; `None` where it is masked off.
        unit: Bytes that a lane touches.
        sectors: Different sectors.
    """

    at: Mapping[str, int]
    addresses: tuple[int | None, ...]
    unit: int
    sectors: int


class Traffic(Struct, frozen=True):
    """What the requests of one access move.

    Attributes:
        requests: Requests with an active lane.
        sectors: Sectors of all requests; the same sector in two requests counts twice.
        lines: Cache lines of all requests.
        asked: Bytes asked for; the same byte twice in a request counts once.
        needed: Sectors that as many bytes take where they stand side by side, request by request.
        histogram: Number of requests by sectors.
        lanes: Active lanes of all requests.
        precision: `exact`, `sampled` (figures are scaled up), or `bounds` with `best`.
        worst: A request with the most sectors.
        typical: A request with the most usual number of sectors.
        best: The least that values read at run time may lead to; the other figures are the most.
        vector: Elements of a lane in one request.
        seen: Lanes that were looked at.
        tries: How often each request may be made in all: the figures are those of one try each.
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
        """Bytes moved."""
        return self.sectors * SECTOR

    @property
    def utilisation(self) -> float:
        """Share of the bytes moved that was asked for; 1 where nothing is moved."""
        return self.asked / self.moved if self.moved else 1.0

    @property
    def efficiency(self) -> float:
        """Sectors needed over sectors moved: 1 also where a whole warp reads one element."""
        return self.needed / self.sectors if self.sectors else 1.0

    @property
    def wasted(self) -> int:
        """Bytes moved beyond the sectors that the bytes asked for need."""
        return max(self.sectors - self.needed, 0) * SECTOR

    @property
    def fewest(self) -> int:
        """Sectors of the best request."""
        return min(self.histogram, default=0)

    @property
    def most(self) -> int:
        """Sectors of the worst request."""
        return max(self.histogram, default=0)

    @property
    def mean(self) -> float:
        """Sectors of a request."""
        return self.sectors / self.requests if self.requests else 0.0


def together(parts: list[Traffic]) -> Traffic:
    """The traffic of several accesses, each with requests of its own."""
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
    """The traffic of stores that are made less or more often than once, with bounds then."""
    found = traffic
    if stores.run > 1 or (stores.least, stores.most) != (1, 1):
        best = _scaled(traffic.best or traffic, stores.least, stores.run)
        worst = _scaled(traffic, stores.most, 1)
        found = replace(worst, precision=BOUNDS, best=best)
    return replace(found, tries=stores.tries) if stores.tries > 1 else found


def _scaled(traffic: Traffic, times: int, parts: int) -> Traffic:
    """All requests so many times, divided by `parts` and rounded down."""

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
