"""Bank conflicts: lanes of a request that need different words of one shared-memory bank.

Such lanes are served one after another; lanes that need the same word are served at once. Accesses
of 8 bytes are served by half warps, those of 16 bytes by quarter warps.

Source: CUDA C++ Programming Guide, shared memory.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, Interval, Var, evaluate_array, linear
from hloscope.arrays import Bools, Ints, np
from hloscope.devices import Device
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap
from hloscope.memory.kernel import Launch, SharedAccess
from hloscope.memory.requests import LANE, Requests, requests_of

MOST_REQUESTS: Final = 1 << 16


class BankUse(Struct, frozen=True):
    """Conflicts of an access to shared memory.

    Attributes:
        what: Label of the access.
        shape: Sizes of the tile, padding included.
        bytes: Size of the tile in bytes.
        requests: Phases of requests with an active lane, in one block.
        mean: Distinct words requested of the busiest bank, mean over the phases.
        most: Distinct words requested of the busiest bank, maximum over the phases.
        worst: Word requested by each lane in the worst phase; `None` for inactive lanes.
        is_exact: Were all requests counted, and not only the first ones?
    """

    what: str
    shape: tuple[int, ...]
    bytes: int
    requests: int
    mean: float
    most: int
    worst: tuple[int | None, ...] = ()
    is_exact: bool = True


# Different kernels of one size share their tiles (30 of 70 calls, in Llama 3.1 70B).
@lru_cache(maxsize=1 << 10)
def bank_use(shared: SharedAccess, launch: Launch | None, device: Device) -> BankUse:
    """Count the bank conflicts of one access, over the warps of one block.

    Args:
        shared: The access: a map from threads to an index in the tile.
        launch: Launch dimensions.
        device: The device, for its banks and the lanes of a warp.

    Raises:
        UnsupportedError: The kernel has no launch dimensions.

    >>> from hloscope.affine import Dim
    >>> from hloscope.devices import device_of
    >>> launch = Launch.of(32, 1)
    >>> rows = launch.map((), [Dim(0), 0])
    >>> for width in (32, 33):
    ...     access = SharedAccess("read", rows, (32, width), 32)
    ...     print(bank_use(access, launch, device_of("h100")).most)
    32
    1
    """
    if launch is None:
        raise UnsupportedError("without launch dimensions nothing is known of lanes")
    one_block = Launch(launch.threads, (1, 1, 1))
    requests = requests_of(_linear(shared), shared.bits, one_block, device.warp)
    addresses, active, is_exact = _addresses(requests)
    size = -(-prod(shared.shape) * shared.bits // 8)
    if not len(addresses):
        return BankUse(shared.what, shared.shape, size, 0, 0.0, 0)
    # A bank serves one word (4 bytes) at a time, so a warp's access of `phases` words per lane is
    # split into `phases` parts of the warp, each of which is one conflict-free transfer at best.
    unit = max(requests.unit_bits // 8, 1)
    phases = max(unit // device.bank_bytes, 1)
    first = addresses * shared.bits // 8 // device.bank_bytes
    lanes = device.warp // phases
    degrees: list[Ints] = []
    for phase in range(phases):
        part = slice(phase * lanes, (phase + 1) * lanes)
        # Each lane of a wide access needs `phases` consecutive words, all in this phase.
        words = [first[:, part] + k for k in range(phases)]
        masks = [active[:, part]] * phases
        degrees.append(
            _degree(np.concatenate(words, axis=1), np.concatenate(masks, axis=1), device.banks)
        )
    every = np.stack(degrees, axis=1)
    # Phases in which no lane is active issue no request and must not lower the mean.
    used = every[every > 0]
    row = int(np.argmax(every.max(axis=1)))
    worst = tuple(
        [
            int(word) if on else None
            for word, on in zip(first[row].tolist(), active[row].tolist(), strict=True)
        ]
    )
    return BankUse(
        shared.what,
        shared.shape,
        size,
        len(used),
        float(used.mean()) if len(used) else 0.0,
        int(every.max(initial=0)),
        worst,
        is_exact,
    )


def _linear(shared: SharedAccess) -> IndexingMap:
    """Return the map to the linear position in the tile, for the first block of the grid."""
    terms: list[tuple[Expr, int]] = [
        (e, prod(shared.shape[k + 1 :])) for k, e in enumerate(shared.map.results)
    ]
    map = shared.map.with_(results=[linear(*terms) if terms else Const(0)])
    # Dimensions 3 to 5 are the block indices. Shared memory belongs to one block, and all blocks
    # have the same conflicts.
    pinned = [map.dims[k].interval.lo for k in range(3, 6)] if not map.is_known_empty else []
    for k, lo in enumerate(pinned, 3):
        map = map.add_constraint(*_point(k, lo))
    return map.simplify(replace_points=False)


def _point(dimension: int, value: int) -> tuple[Expr, Interval]:
    return Dim(dimension), Interval(value, value)


def _addresses(requests: Requests) -> tuple[Ints, Bools, bool]:
    """Return element addresses and active lanes, [requests, lanes], and whether all are counted."""
    map = requests.map
    sizes = [interval.hi - interval.lo + 1 for _, interval in requests.free]
    total = prod(sizes)
    if map.is_known_empty or total <= 0:
        empty = np.zeros((0, requests.warp), dtype=np.int64)
        return empty, empty.astype(np.bool_), True
    # Requests are numbered row-major over the free variables, the last one fastest.
    flat = np.arange(min(total, MOST_REQUESTS))
    at: dict[Var, Ints] = {}
    for (x, interval), size in zip(reversed(requests.free), reversed(sizes), strict=True):
        at[x] = (flat % size + interval.lo)[:, None]
        flat = flat // size
    at[LANE] = np.arange(requests.warp, dtype=np.int64)[None, :]
    shape = min(total, MOST_REQUESTS), requests.warp
    addresses = np.broadcast_to(evaluate_array(requests.address, at), shape)
    active = np.ones(shape, dtype=np.bool_)
    for e, interval in map.constraints:
        value = evaluate_array(e, at)
        active &= (value >= interval.lo) & (value <= interval.hi)
    lanes = map.dims[0].interval
    active &= (at[LANE] >= lanes.lo) & (at[LANE] <= lanes.hi)
    return addresses, active, total <= MOST_REQUESTS


def _degree(words: Ints, active: Bools, banks: int) -> Ints:
    """Count for each row the distinct words requested of the busiest bank."""
    # Sorting puts equal words next to each other and inactive lanes last, so that a word counts
    # where it differs from its left neighbour.
    nowhere = (1 << 62) - 1
    keys = np.where(active, words, nowhere)
    keys.sort(axis=1)
    new = np.ones_like(keys, dtype=np.bool_)
    new[:, 1:] = keys[:, 1:] != keys[:, :-1]
    new &= keys != nowhere
    rows = np.broadcast_to(np.arange(len(keys))[:, None], keys.shape)
    counts = np.zeros((len(keys), banks), dtype=np.int64)
    np.add.at(counts, (rows[new], keys[new] % banks), 1)
    most: Ints = counts.max(axis=1, initial=0)
    return most
