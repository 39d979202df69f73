"""Reference relations of one output of a program, by isl and from single elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any, Final

from hloscope.affine import POS_INF
from hloscope.arrays import Ints, np, sorted_unique
from hloscope.errors import UnsupportedError
from hloscope.fusion import Part
from hloscope.indexing import Access, sizes as sizes_of, unravel
from hloscope.ir import Computation, Instruction, Type
from hloscope.proof.graph import Reached, Steps, Walker, WalkTooLongError
from hloscope.proof.names import Names
from hloscope.proof.points import Touching
from hloscope.proof.reads import Values
from hloscope.proof.relations import Relating
from hloscope.simplifier import UndecidedError, budgeted

ENUMERATED: Final = 256
"""Outputs of at most this many elements are enumerated."""
MORE_ENUMERATED: Final = 1 << 16
"""Outputs of at most this many elements are enumerated if isl does not decide."""
SAMPLES: Final = (32, 4, 1)
"""Numbers of sampled elements of larger outputs; fewer if they reach too many elements."""
ROWS: Final = 1 << 17
"""Maximum number of elements of one state."""
MORE_ROWS: Final = 1 << 19
"""Maximum number of elements of one state if isl does not decide."""


class Truth:
    """Reference relations of one output; each kind is computed once, at first use."""

    def __init__(
        self,
        steps: Steps,
        ins: Instruction,
        output: int,
        computation: Computation | None,
        values: Sequence[Instruction],
        seed: int,
        budget: int,
        left: Callable[[], float] = lambda: inf,
    ) -> None:
        self.steps, self.ins, self.computation = steps, ins, computation
        self.left = left
        self._values = values
        self.number = output
        self.output = steps.of_part(ins.type, Part(output))
        self.seed, self.budget = seed, budget
        self.here: Type = steps.leaves(ins.type)[self.output]
        # All operands of the output are compared with the same reference.
        self._relations: Way | UndecidedError | None = None
        self._points: Way | UndecidedError | None = None
        self._all: Way | UndecidedError | None = None

    def there(self, operand: int, tensor: int) -> Type:
        """Return the type of a tensor that is read."""
        return self.steps.tensor_types(self._values[operand].type)[tensor]

    def walk(self, follower: Any, start: Any) -> dict[tuple[int, int], Reached[Any]]:
        """Traverse the program with a follower; return what is reached, by value and tensor."""
        walker: Walker[Any] = Walker(self.steps, follower, self.left())
        if self.computation is not None:
            found = walker.parameters(self.ins, self.output, start, self.computation)
        else:
            found = walker.operands(self.ins, self.output, start)
        parts = {(k, i): self.steps.part(self._values[k].type, i) for k, i in found}
        return {
            (k, parts[k, i].tensor): reached
            for (k, i), reached in found.items()
            if parts[k, i].dimension is None
        }

    def reached(self) -> frozenset[tuple[int, int]]:
        """Return the tensors that may be read: those with a path on which no map is empty.

        Raises:
            UndecidedError: The program cannot be traversed.
        """
        return frozenset(self.walk(Reaching(), True))

    def relations(self) -> Way:
        """Return the reference as isl relations.

        Raises:
            UndecidedError: isl takes too many steps, or the traversal cannot go on.
        """
        if self._relations is None:
            try:
                values = Values(self.seed)
                with budgeted(self.budget) as isl:
                    follower = Relating(isl, values)
                    found = self.walk(follower, follower.identity(sizes_of(self.here)))
                self._relations = Way(follower, found)
            except UndecidedError as error:
                self._relations = error
        if isinstance(self._relations, UndecidedError):
            raise self._relations
        return self._relations

    def points(self) -> Way:
        """Return the reference from all or some elements.

        Raises:
            UndecidedError: The traversal cannot go on.
        """
        if self._points is None:
            self._points = self._some_points()
        if isinstance(self._points, UndecidedError):
            raise self._points
        return self._points

    def all_points(self) -> Way:
        """Return the reference from all elements, up to `MORE_ENUMERATED`.

        Raises:
            UndecidedError: There are more elements, or the traversal cannot go on.
        """
        if self._all is None:
            shape = sizes_of(self.here)
            total = prod(shape)
            if total > MORE_ENUMERATED:
                self._all = UndecidedError(f"there are {total} elements")
            else:
                self._all = self._from_points(shape, total, MORE_ROWS)
        if isinstance(self._all, UndecidedError):
            raise self._all
        return self._all

    @property
    def are_few(self) -> bool:
        """Has the output at most `MORE_ENUMERATED` elements?"""
        try:
            return prod(sizes_of(self.here)) <= MORE_ENUMERATED
        except UnsupportedError:
            return False

    def _some_points(self) -> Way | UndecidedError:
        """Return the reference from all elements, or from as many samples as the limits allow."""
        shape = sizes_of(self.here)
        total = prod(shape)
        found: Way | UndecidedError = UndecidedError("the output has no elements")
        # A small output is enumerated. Otherwise fewer and fewer samples are tried, because one
        # element may reach too many others; a traversal that is too long would be so for fewer as
        # well.
        for count in (total if total <= ENUMERATED else 0, *SAMPLES):
            if 0 < count <= max(total, SAMPLES[-1]):
                found = self._from_points(shape, count, ROWS)
                if isinstance(found, Way | WalkTooLongError):
                    break
        return found

    def _from_points(self, shape: tuple[int, ...], count: int, rows: int) -> Way | UndecidedError:
        """Return the reference from `count` elements, or the reason why there is none."""
        values = Values(self.seed)
        follower = Touching(values, rows)
        try:
            chosen = some_points(shape, count, self.seed)
            found = self.walk(follower, follower.start(chosen))
        except UndecidedError as error:
            return error
        except OverflowError:
            return UndecidedError("sizes beyond 64 bits")
        return Way(follower, found, chosen, len(chosen) == prod(shape), values)


class Reaching:
    """A follower that records only whether anything is reached."""

    def through(self, reached: bool, access: Access, names: Names) -> bool | None:
        """Does the access read anything?"""
        return None if access.map is None or access.map.is_known_empty else True

    def join(self, one: bool, other: bool) -> bool:
        """Return true: the state of two unions."""
        return True

    def key(self, reached: bool) -> bool:
        """Return the only state."""
        return True

    def weight(self, reached: bool) -> int:
        """Return 1: the state has constant size."""
        return 1


class Way:
    """One reference relation, with the follower that computed it."""

    def __init__(
        self,
        follower: Any,
        found: dict[tuple[int, int], Reached[Any]],
        chosen: Ints | None = None,
        is_all: bool = False,
        values: Values | None = None,
    ) -> None:
        self.follower, self.found = follower, found
        self.chosen, self.is_all, self.values = chosen, is_all, values


def some_points(shape: Sequence[int], count: int, seed: int) -> Ints:
    """Return different indices of a tensor: all, or its ends, its middle and random ones.

    Shape `[n, rank]`.

    >>> some_points((2, 2), 9, 0).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    total = prod(shape)
    if total > POS_INF:
        return _far_points(shape, count, seed)
    if total <= count:
        flat = np.arange(total, dtype=np.int64)
    else:
        fixed = [total - 1, 0, total // 2][:count]
        drawn = np.random.default_rng(seed).integers(0, total, max(0, count - len(fixed)))
        flat = sorted_unique(np.concatenate([np.asarray(fixed, np.int64), drawn]))
    index = unravel(flat, shape)
    return np.stack(index, axis=1) if shape else np.zeros((total, 0), np.int64)


def _far_points(shape: Sequence[int], count: int, seed: int) -> Ints:
    """Return `some_points` of a tensor with more than 2^63 elements, coordinate by coordinate.

    Raises:
        UndecidedError: A single index exceeds 64 bits.
    """
    if max(shape) > POS_INF:
        raise UndecidedError("an index does not fit into 64 bits")
    rng = np.random.default_rng(seed)
    ends = np.asarray(shape, np.int64) - 1
    drawn = [rng.integers(0, ends, endpoint=True) for _ in range(count)]
    return np.unique(np.stack([ends, ends * 0, ends // 2, *drawn])[:count], axis=0)
