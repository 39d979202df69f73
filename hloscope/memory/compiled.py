"""Accesses as LLVM compiles them: consecutive elements of one basic block become vectors.

XLA emits an access for each element, or a vector along the loop that it unrolls. LLVM unrolls the
inner loops of a thread, then merges loads, and stores, of consecutive elements in one basic block,
as far as it can prove the vector aligned.

Source: LLVM `llvm/lib/Transforms/Vectorize/LoadStoreVectorizer.cpp`, `InferAlignment.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from hloscope.affine import (
    Const,
    Expr,
    FloorDiv,
    Interval,
    Range,
    Var,
    as_sum,
    floordiv,
    from_terms,
    known_divisor,
    variables,
)
from hloscope.indexing import Constraint, IndexingMap, RuntimeVariable, Variable, substituted
from hloscope.memory.requests import Requests

MOST_UNROLLED: Final = 1 << 10
"""Maximum number of iterations of a thread's loops that are enumerated; others stay loops."""
LARGEST_GAP: Final = 2
"""Maximum number of consecutive unused elements that a merged load may contain."""
_Domains: TypeAlias = tuple[tuple[Constraint, ...], ...]


class _Element(NamedTuple):
    """An access of `width` consecutive elements, `offset` elements after its block's address.

    The block is a `_Block`: accesses of one basic block with a common part of the address.
    """

    offset: int
    width: int


class _Block(NamedTuple):
    """Common part of the accesses of one basic block; they differ only in offset and width.

    Attributes:
        address: Address in elements, without its constant.
        dims: Variables of lane, warp and block.
        ranges: Variables of loops that are not unrolled.
        runtime: Run-time values.
        domains: A lane is active if all constraints of one of the domains hold.
        bits: Bits of an element.
        warp: Lanes of a warp.
    """

    address: Expr
    dims: tuple[Variable, ...]
    ranges: tuple[Variable, ...]
    runtime: tuple[RuntimeVariable, ...]
    domains: _Domains
    bits: int
    warp: int


def compiled(found: Sequence[Requests], widest: int, *, are_loads: bool = False) -> list[Requests]:
    """Return the requests of one array's accesses after LLVM merges consecutive elements.

    Args:
        found: The accesses as emitted, all loads or all stores, without duplicates.
        widest: Bytes of the widest access of a lane.
        are_loads: Are they loads? An element that a thread loads twice is then one load.

    Returns:
        The objects of `found` if LLVM merges nothing.
    """
    kept: list[Requests] = []
    blocks: dict[_Block, dict[_Element, Requests]] = {}
    # Elements below a byte have no address, so LLVM cannot merge them.
    candidates = [one for one in found if not one.map.is_known_empty and one.bits >= 8]
    several = _may_be_neighbours(candidates, LARGEST_GAP if are_loads else 0)
    for one in found:
        elements = [*_elements(one)] if one in several else []
        if not elements:
            kept.append(one)
        for block, element in elements:
            blocks.setdefault(block, {}).setdefault(element, one)
    if are_loads:
        _without_repeated(blocks)
    merged: list[Requests] = []
    for block, elements_of in blocks.items():
        divisor = proved_divisor(block.address)
        vectors = [*_vectors(elements_of, divisor, block.bits, widest, fills_gaps=are_loads)]
        merged += _requests(block, vectors, [*dict.fromkeys(elements_of.values())])
    # Merging only ever lowers the number of accesses; an equal number means that none was merged,
    # and the emitted form (with its loops) is the shorter description.
    if sum(map(_count, merged)) == sum(map(_count, several)):
        return [*found]
    return kept + merged


def _without_repeated(blocks: dict[_Block, dict[_Element, Requests]]) -> None:
    """Remove each load of elements that another basic block also loads under a weaker condition.

    Source: LLVM's `GVN` and `EarlyCSE`, for loads of memory that the kernel does not write.

    Args:
        blocks: For each basic block, its loads with their requests; changed in place.
    """
    by_address: dict[tuple[object, ...], list[_Block]] = {}
    for block in blocks:
        if not block.ranges:  # registers do not hold the values of a loop that is not unrolled
            key = block.address, block.runtime, block.bits
            by_address.setdefault(key, []).append(block)
    for several in by_address.values():
        for block in several:
            for other in several:
                # The condition of `block` implies that of `other`.
                if (
                    other is not block
                    and all(
                        b.interval.contains(a.interval)
                        for a, b in zip(block.dims, other.dims, strict=True)
                    )
                    and all(any({*o} <= {*d} for o in other.domains) for d in block.domains)
                ):
                    loaded = {o + k for o, width in blocks[other] for k in range(width)}
                    blocks[block] = {
                        element: one
                        for element, one in blocks[block].items()
                        if not loaded.issuperset(range(element.offset, sum(element)))
                    }


def proved_divisor(address: Expr) -> int:
    """Return the largest divisor that LLVM proves for an address; 0 if the address is 0.

    LLVM writes `e / c * c` as `e - e mod c`, for which it knows only the divisors of `e`.

    >>> from hloscope.affine import Dim
    >>> x = Dim(0)
    >>> proved_divisor(x // 6 * 6), proved_divisor(x // 6 * 12), proved_divisor(x // 8 * 8)
    (1, 12, 8)
    """
    terms, const = as_sum(address)
    found = abs(const)
    for e, factor in terms:
        divisor = known_divisor(e)
        match e:
            # For a power of two LLVM writes a shift or a mask, whose trailing zeros are known.
            case FloorDiv(num, Const(by)) if by == factor and by & (by - 1):
                found = gcd(found, known_divisor(num), by)
            case _:
                found = gcd(found, factor * divisor)
    return found


def _count(requests: Requests) -> int:
    """Return how many times a thread makes the access: the product of its loop sizes."""
    return prod([v.interval.size for v in requests.map.ranges])


def _may_be_neighbours(found: Sequence[Requests], gap: int) -> set[Requests]:
    """Return the accesses that LLVM may merge with a neighbouring access.

    The neighbour is another iteration of a loop, or has an address at a constant distance.

    Args:
        found: The accesses of one array.
        gap: Maximum number of unused elements between two neighbours.
    """
    chosen: set[Requests] = set()
    by_rest: dict[Expr, list[Requests]] = {}
    for one in found:
        terms = _loops(one)
        if any(abs(factor) <= one.vector + gap for factor in terms.values()):
            chosen.add(one)
        rest = [(e, c) for e, c in as_sum(one.address)[0] if e not in terms]
        by_rest.setdefault(from_terms(rest, 0), []).append(one)
    for several in by_rest.values():
        # Addresses that differ by a constant only may be neighbours.
        if len(several) > 1:
            chosen.update(several)
    return chosen


def _loops(one: Requests) -> dict[Var, int]:
    """Return the loops of an access that can be unrolled, with their coefficients in the address.

    Such a loop variable occurs in the address only as one linear term.
    """
    terms = dict(as_sum(one.address)[0])
    read = {x for v in one.map.runtime for x in variables(*v.arguments)}
    found: dict[Var, int] = {}
    size = 1
    for k, loop in enumerate(one.map.ranges):
        x = Range(k)
        others = [e for e in terms if e is not x]
        # A loop that decides a run-time value, or occurs in another term, changes more than the
        # offset.
        if x not in terms or x in read or x in variables(*others):
            continue
        size *= loop.interval.size
        if size > MOST_UNROLLED:
            break
        found[x] = terms[x]
    return found


def _elements(one: Requests) -> Iterator[tuple[_Block, _Element]]:
    """Yield each access that a thread makes for `one`, with the basic block that contains it.

    The loops that `_loops` returns are unrolled: each of their iterations is one access. Other
    loops stay ranges of the block.
    """
    loops = _loops(one)
    terms, const = as_sum(one.address)
    rest = from_terms([(e, c) for e, c in terms if e not in loops], 0)
    left = [k for k in range(len(one.map.ranges)) if Range(k) not in loops]
    renamed: dict[Var, Expr] = {Range(k): Range(new) for new, k in enumerate(left)}
    address = substituted([rest], renamed)[0]
    ranges = tuple([one.map.ranges[k] for k in left])
    sizes = [range(i.lo, i.hi + 1) for i in (one.map.box[x] for x in loops)]
    in_condition = bool(variables(*one.conditions) & set(loops))
    runtime = tuple([v.at(substituted(v.arguments, renamed)) for v in one.map.runtime])
    domains = _normal(one.domains, renamed)
    for values in product(*sizes):
        at = dict(zip(loops, values, strict=True))
        # A condition on a loop differs between the unrolled iterations: each gets its own block,
        # and iterations that never run are left out.
        if in_condition:
            here: dict[Var, Expr] = {x: x * 0 + value for x, value in at.items()}
            domains = _normal(one.domains, renamed | here)
            if not domains:
                continue
        offset = const + sum([loops[x] * value for x, value in at.items()])
        block = _Block(
            address, tuple(one.map.dims), ranges, runtime, domains, one.bits, one.warp
        )  # fmt: skip
        yield block, _Element(offset, one.vector)


def _normal(domains: _Domains, new: dict[Var, Expr]) -> _Domains:
    """Return the domains after loop variables are replaced by values, in a canonical form.

    Domains that never hold are left out.

    Args:
        domains: Domains in which lanes are active.
        new: Value of each replaced loop variable.
    """
    found: list[tuple[Constraint, ...]] = []
    for domain in domains:
        constraints: dict[Expr, Interval] = {}
        for e, interval in domain:
            terms, const = as_sum(substituted([e], new)[0])
            # Canonical: no constant, coprime coefficients, a positive first one, and one interval
            # for each expression. Equal conditions of unrolled iterations then compare equal.
            lo, hi = interval.lo - const, interval.hi - const
            factor = gcd(*[c for _, c in terms])
            if not factor:
                if lo <= 0 <= hi:
                    continue
                break
            if terms[0][1] < 0:
                factor = -factor
                lo, hi = hi, lo
            kept = from_terms([(x, c // factor) for x, c in terms], 0)
            limits = Interval(-(-lo // factor), hi // factor)
            constraints[kept] = constraints.get(kept, limits) & limits
        else:
            found.append(tuple(sorted(constraints.items(), key=repr)))
    return tuple(dict.fromkeys(found))


def _vectors(
    elements: Iterable[_Element], divisor: int, bits: int, widest: int, *, fills_gaps: bool
) -> Iterator[_Element]:
    """Yield the vectors that LLVM makes of one block's elements, in order of address.

    Each vector is the widest one that is aligned.

    Args:
        elements: The elements that the instructions of a block access.
        divisor: Divisor of the common address that LLVM proves; 0 if the address is 0.
        bits: Bits of an element.
        widest: Maximum number of bytes of a vector.
        fills_gaps: May a vector contain unused elements? Loads may, if an element of the second
            half of the vector is needed.
    """
    ordered = sorted(elements)
    at = 0
    while at < len(ordered):
        offset, width = ordered[at]
        end, last, chosen = offset + width, at, (at, width)
        size = width
        # The vector starts at `divisor * k + offset`, so it is aligned to `size` elements if and
        # only if `size` divides both. Sizes double, so the last one that fits is the widest.
        while size * 2 * bits <= widest * 8 and gcd(divisor, offset) % (size * 2) == 0:
            size *= 2
            while last + 1 < len(ordered) and sum(ordered[last + 1]) <= offset + size:
                if ordered[last + 1].offset - end > (LARGEST_GAP if fills_gaps else 0):
                    break
                last += 1
                end = sum(ordered[last])
            span = end - offset
            if span == size or (fills_gaps and span * 2 > size):
                chosen = last, size
        yield _Element(offset, chosen[1])
        at = chosen[0] + 1


def _requests(
    block: _Block, vectors: Sequence[_Element], origins: Sequence[Requests]
) -> Iterator[Requests]:
    """Yield the vectors of a basic block as requests; vectors at equal distances form a loop.

    Only vectors of one width are joined to a loop.

    Args:
        block: The basic block.
        vectors: The vectors that LLVM makes of its accesses.
        origins: The requests as XLA emits them from which the vectors come.
    """
    originals = tuple(dict.fromkeys([map for one in origins for map in one.originals]))
    for width in sorted({v.width for v in vectors}, reverse=True):
        offsets = [v.offset for v in vectors if v.width == width]
        for start, step, count in _progressions(offsets):
            ranges = [*block.ranges]
            address: Expr = block.address + start
            if count > 1:
                address = address + Range(len(ranges)) * step
                ranges.append(Variable(Interval(0, count - 1)))
            map = IndexingMap(block.dims, ranges, block.runtime, [address], block.domains[0])
            yield Requests(map, block.bits, width, block.warp, originals, block.domains[1:])


def _progressions(offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield maximal arithmetic progressions of sorted numbers: start, step and length of each.

    >>> [*_progressions([0, 4, 8, 9, 20])]
    [(0, 4, 3), (9, 11, 2)]
    """
    at = 0
    while at < len(offsets):
        last = min(at + 1, len(offsets) - 1)
        step = offsets[last] - offsets[at]
        while last + 1 < len(offsets) and offsets[last + 1] - offsets[last] == step:
            last += 1
        yield offsets[at], step, last - at + 1
        at = last + 1


def apart(one: Requests, widths: Sequence[int]) -> list[Requests]:
    """Split a vector access into consecutive accesses of `widths` elements each.

    The result is the access itself if its vectors cannot be split into these widths.
    """
    if one.vector == 1 or sum(widths) < one.vector:
        return [one]
    found: list[Requests] = []
    offset = 0
    for width in widths[-one.vector :] if one.vector < sum(widths) else widths:
        map = one.map.with_(results=[one.address + offset])
        found.append(replace(one, map=map, vector=width))
        offset += width
    return found


def in_words(one: Requests, word: int) -> Requests:
    """Return an access of elements as an access of the memory words that contain the elements.

    `word` is the number of bits of a word, a multiple of the element's bits.
    """
    address = floordiv(one.address, word // one.bits)
    map = one.map.with_(results=[address]).simplify(replace_points=False)
    return replace(one, map=map, bits=word, vector=1)
