"""Traffic of the accesses of an array, as XLA emits them and as LLVM compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import to_text
from hloscope.indexing import IndexingMap, prove_equal
from hloscope.ir import TensorType, size_text, storage_bits
from hloscope.memory import requests as figures
from hloscope.memory.answers import Touch
from hloscope.memory.bounded import traffic_of
from hloscope.memory.compiled import apart, compiled, in_words
from hloscope.memory.kernel import PLAIN, Address, Kernel, Launch, Stores
from hloscope.memory.requests import (
    BOUNDS,
    Requests,
    Traffic,
    WasteCause,
    requests_of,
    stored,
    united,
    waste_cause_of,
)
from hloscope.simplifier import Verdict
from hloscope.support.devices import Device

MAY_BE_ONE: Final = "it is not known which loads on different conditions are one: at worst none"
"""Reason for bounds: it is unknown which loads under different conditions are identical."""
OPEN: Final = "whether LLVM proves the alignment depends on the code around: at worst it does not"
MERGED: Final = "LLVM merges neighbours in one basic block into {} at most"
NOT_ALIGNED: Final = "{} × {}: the alignment of `{}` is not provable, LLVM's search ends before"
CHOSEN: Final = "a select chooses by it: LLVM loads four predicates in parts"
EXPANDED: Final = "LLVM expands the atomic: the old element is loaded first"
Loads: TypeAlias = Callable[[], Sequence[Sequence[Address]] | None]
"""Function that returns the accesses to an array, grouped by load instruction.

It returns `None` if the loads cannot be separated.
"""


class Measured(Struct, frozen=True):
    """Accesses of one array, with their traffic.

    Attributes:
        touches: The accesses as LLVM compiles them.
        traffic: Their total traffic.
        emitted: The accesses as XLA emits them; `None` if their traffic is the same.
        change: Why the compiled and the emitted accesses differ.
        reason: Why the traffic is given as bounds; empty if it is exact.
    """

    touches: tuple[Touch, ...] = ()
    traffic: Traffic | None = None
    emitted: tuple[Touch, ...] | None = None
    change: str = ""
    reason: str = ""


def together(parts: Sequence[Measured]) -> Measured:
    """Return the accesses that several loops make to one array as one result.

    `parts` are the accesses in each loop. Their traffic adds up.
    """
    if len(parts) == 1:
        return parts[0]
    traffic = [part.traffic for part in parts if part.traffic is not None]
    emitted = None
    if any(part.emitted is not None for part in parts):
        emitted = tuple([t for p in parts for t in (p.touches if p.emitted is None else p.emitted)])
    return Measured(
        tuple([touch for part in parts for touch in part.touches]),
        figures.together(traffic) if len(traffic) == len(parts) else None,
        emitted,
        next((part.change for part in parts if part.change), ""),
        next((part.reason for part in parts if part.reason), ""),
    )


class Levels:
    """Computes requests and traffic of accesses on one device. Equal accesses are counted once."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device

        self._widest: Final = device.vector_bits // 8
        self._requests: dict[tuple[object, ...], Requests] = {}
        self._traffic: dict[Requests, tuple[Traffic, WasteCause | None]] = {}

    def counted(self, map: IndexingMap, bits: int, launch: Launch, vector: int) -> Touch:
        """Return one access by threads to elements of `bits` bits, with its traffic.

        Args:
            map: Map from threads (x, y, z), blocks (x, y, z) and loops to the element's address, in
                elements.
            bits: Bits of an element.
            launch: Blocks and threads.
            vector: Consecutive elements that a thread accesses at once.
        """
        return self._touch(self._requests_of(map, bits, launch, vector, self._widest))

    def read(
        self,
        addresses: Sequence[Address],
        type: TensorType,
        kernel: Kernel,
        loads: Loads,
        predicate: tuple[int, ...] = (),
    ) -> Measured:
        """Return the loads of an array by the threads of a kernel, with their traffic.

        Args:
            addresses: The accesses by which the threads load it.
            type: Type of the array.
            kernel: The kernel of the threads.
            loads: Returns the accesses grouped by load; called if several accesses may be one load.
            predicate: Widths in bytes of the loads into which LLVM splits a load of four
                predicates; empty if it does not.
        """
        by_map = {a.map: a for a in addresses}
        every = self._emitted(by_map, by_map, type, kernel)
        before = next((a.before for a in addresses if a.before is not None), None)
        if before is not None:
            return self._old_element_loads(before, every, type, kernel)
        # Loads of one address on different conditions are one load at best. If no two loads have
        # the same address, the loads need not be distinguished.
        fewest = united(every)
        if len(fewest) == len(every):
            return self._measured(every, by_map, type, kernel, predicate=predicate)
        told_apart = loads()
        is_known = told_apart is not None
        if told_apart is not None:
            different: dict[frozenset[IndexingMap], list[IndexingMap]] = {}
            for load in told_apart:
                there = [a.map for a in load]
                different.setdefault(frozenset(there), there)
            parts = [united(self._emitted(own, by_map, type, kernel)) for own in different.values()]
            every, is_known = self._distinct_loads(
                dict.fromkeys(one for part in parts for one in part)
            )
        most = self._measured(every, by_map, type, kernel, predicate=predicate)
        if is_known or most.traffic is None:
            return most
        least = self._measured(fewest, by_map, type, kernel, predicate=predicate).traffic
        assert least is not None
        bounded = replace(most.traffic, precision=BOUNDS, best=least.best or least)
        return replace(most, traffic=bounded, reason=MAY_BE_ONE)

    def written(
        self, addresses: Sequence[Address], type: TensorType, kernel: Kernel, stores: Stores
    ) -> Measured:
        """Return the stores to an array, with their traffic. Each address is a separate store.

        Args:
            addresses: The accesses by which threads store.
            type: Type of the array.
            kernel: The kernel of the threads.
            stores: How the elements are stored: ordinary stores, atomics or compare-and-swap loops.
        """
        by_map = {a.map: a for a in addresses}
        found = self._emitted(by_map, by_map, type, kernel)
        return self._measured(found, by_map, type, kernel, stores)

    def _measured(
        self,
        found: Sequence[Requests],
        by_map: Mapping[IndexingMap, Address],
        type: TensorType,
        kernel: Kernel,
        stores: Stores | None = None,
        predicate: tuple[int, ...] = (),
    ) -> Measured:
        if kernel.is_given:
            touches, traffic = self._touches(found)
            return Measured(tuple(touches), traffic)
        whole, cut, maybe = self._by_alignment(found, by_map, type, kernel)
        are_loads = stores is None
        stores = stores or PLAIN
        if stores.is_apart:
            last = self._stored_apart(found, stores, type, kernel)
        else:
            last = compiled(whole, self._widest, are_loads=are_loads)
            last += self._elements([*cut, *maybe], type, kernel)
        if predicate and type.element.name == "pred":
            last = [part for one in last for part in apart(one, predicate)]
        touches, traffic = self._touches(last)
        # Whether LLVM proves these aligned is unknown: they stay vectors at best, and are split at
        # worst.
        if maybe:
            best = compiled([*whole, *maybe], self._widest, are_loads=are_loads)
            best += self._elements(cut, type, kernel)
            traffic = replace(traffic, precision=BOUNDS, best=self._touches(best)[1])
        before, emitted_traffic = self._touches(found)
        is_same = stores.is_apart or traffic == emitted_traffic
        traffic = stored(traffic, stores)
        reason = OPEN if maybe else stores.reason
        if is_same:
            return Measured(tuple(touches), traffic, reason=reason)
        change = CHOSEN if predicate else self._change([*cut, *maybe], type)
        return Measured(tuple(touches), traffic, tuple(before), change, reason)

    def _emitted(
        self,
        maps: Iterable[IndexingMap],
        by_map: Mapping[IndexingMap, Address],
        type: TensorType,
        kernel: Kernel,
    ) -> list[Requests]:
        """Return the distinct requests of the accesses as XLA emits them.

        Args:
            maps: Maps from threads to addresses.
            by_map: The access of each map.
            type: Type of the array.
            kernel: The kernel.
        """
        every = self._each(maps, type, kernel)
        return [
            one
            for vectors in every
            for one in (
                self._elements([vectors], type, kernel)
                if by_map[vectors.original].by_element
                else [vectors]
            )
        ]

    def _by_alignment(
        self,
        found: Iterable[Requests],
        by_map: Mapping[IndexingMap, Address],
        type: TensorType,
        kernel: Kernel,
    ) -> tuple[list[Requests], list[Requests], list[Requests]]:
        """Group accesses by whether LLVM keeps their vectors, as far as it proves alignment.

        The three lists have the accesses that stay vectors, that LLVM splits into elements, and
        that it may split.

        Args:
            found: Requests of the accesses as XLA emits them.
            by_map: The access of each map.
            type: Type of the array.
            kernel: The kernel.
        """
        whole: list[Requests] = []
        cut: list[Requests] = []
        maybe: list[Requests] = []
        for one in found:
            address = by_map[one.original]
            parts = address.parts if one.vector > 1 else ()
            if not parts:
                (cut if address.by_element else whole).append(one)
            for part in parts:
                there = cut if part.is_apart else maybe if part.may_be_apart else whole
                there += self._each([part.map], type, kernel)
        return whole, cut, maybe

    def _old_element_loads(
        self, stores: Stores, requests: Sequence[Requests], type: TensorType, kernel: Kernel
    ) -> Measured:
        """Return the loads of old elements that LLVM adds for atomic updates; XLA emits none.

        Args:
            stores: How the elements are stored.
            requests: The requests that load the old elements.
            type: Type of the array.
            kernel: The kernel of the threads.
        """
        last = requests
        if stores.is_apart:
            last = self._stored_apart(requests, stores, type, kernel)
        touches, traffic = self._touches(last)
        traffic = stored(traffic, replace(stores, least=1, tries=1, most=1))
        return Measured(tuple(touches), traffic, (), EXPANDED)

    def _stored_apart(
        self, requests: Iterable[Requests], stores: Stores, type: TensorType, kernel: Kernel
    ) -> list[Requests]:
        """Return the requests of stores after each vector is split into stores of one element.

        If elements are narrower than `stores.word`, the stores are those of whole words.

        Args:
            requests: The stores as XLA emits them.
            stores: How the elements are stored.
            type: Type of the array.
            kernel: The kernel of the threads.
        """
        apart = self._elements(requests, type, kernel)
        is_word = stores.word > storage_bits(type)
        return [in_words(one, stores.word) for one in apart] if is_word else apart

    def _change(self, cut: Sequence[Requests], type: TensorType) -> str:
        if not cut:
            return MERGED.format(size_text(self._widest))
        one = cut[0]
        element = size_text(max(storage_bits(type) // 8, 1))
        return NOT_ALIGNED.format(
            one.vector, element, to_text(one.original.results[0], one.original.names)
        )

    def _elements(
        self, found: Iterable[Requests], type: TensorType, kernel: Kernel
    ) -> list[Requests]:
        """Return the requests after LLVM splits each vector access into accesses of one element.

        Args:
            found: The requests of the vector accesses.
            type: Type of the array.
            kernel: The kernel of the threads.
        """
        maps = [map for one in found for map in one.originals]
        return self._each(maps, type, replace(kernel, unroll=1), storage_bits(type) // 8)

    def _distinct_loads(self, loads: Iterable[Requests]) -> tuple[list[Requests], bool]:
        """Return the distinct loads, and whether the comparison of every pair was decided.

        Two loads are the same if their maps are proved equal, even if they are written differently.
        """
        kept: list[Requests] = []
        is_known = True
        for one in loads:
            for at, other in enumerate(kept):
                if not self._may_be_same(one, other):
                    continue
                verdict = prove_equal(one.originals, other.originals).verdict
                is_known &= verdict is not Verdict.UNDECIDED
                if verdict is Verdict.PROVED:
                    # The wider form of two equal loads is what the hardware executes.
                    kept[at] = max(other, one, key=lambda requests: requests.vector)
                    break
            else:
                kept.append(one)
        return kept, is_known

    def _may_be_same(self, one: Requests, other: Requests) -> bool:
        """Could two accesses be the same load?

        That requires equal address expressions, and equal numbers of accessed elements.
        """
        if one.original.results != other.original.results:
            return False
        a, b = self._touch(one).traffic, self._touch(other).traffic
        return a is not None and b is not None and a.lanes * a.vector == b.lanes * b.vector

    def _each(
        self,
        maps: Iterable[IndexingMap],
        type: TensorType,
        kernel: Kernel,
        widest: int | None = None,
    ) -> list[Requests]:
        """Return the requests of each distinct map; a lane accesses at most `widest` bytes at once.

        `widest` of `None` stands for the widest access of the device.
        """
        launch, bits = kernel.launch, storage_bits(type)
        assert launch is not None
        most = self._widest if widest is None else widest
        return [
            self._requests_of(map, bits, launch, kernel.unroll, most) for map in dict.fromkeys(maps)
        ]

    def _requests_of(
        self, map: IndexingMap, bits: int, launch: Launch, unroll: int, widest: int
    ) -> Requests:
        key = map, bits, launch, unroll, widest
        # Proofs of alignment make requests expensive; arrays of one kernel often share a map, and
        # the emitted and compiled accesses of an array share most maps.
        known = self._requests.get(key)
        if known is None:
            known = self._requests[key] = requests_of(
                map, bits, launch, self._device.warp, widest=widest, unroll=unroll
            )
        return known

    def _touches(self, accesses: Sequence[Requests]) -> tuple[list[Touch], Traffic]:
        """Return each access with its traffic, and the total traffic."""
        touches = [self._touch(requests) for requests in accesses]
        return touches, figures.together([t.traffic for t in touches if t.traffic is not None])

    def _touch(self, requests: Requests) -> Touch:
        # Counting dominates the run time; the operands of a loop kernel mostly have equal requests.
        known = self._traffic.get(requests)
        if known is None:
            traffic = traffic_of(requests)
            spoiler = None if traffic.worst is None else waste_cause_of(requests, traffic.worst)
            known = self._traffic[requests] = traffic, spoiler
        return Touch(requests.originals, *known)
