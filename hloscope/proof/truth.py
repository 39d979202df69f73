"""What is reached from one output of a program: as relations, and from single elements."""

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
"""The elements of an output of at most so many are all looked at."""
MORE_ENUMERATED: Final = 1 << 16
"""Those of an output of at most so many are, where isl does not decide."""
SAMPLES: Final = (32, 4, 1)
"""Of a larger one so many; fewer where they touch too much."""
ROWS: Final = 1 << 17
"""Elements that are looked at together."""
MORE_ROWS: Final = 1 << 19
"""The same where isl does not decide."""


class Truth:
    """What is reached from one output: asked for when needed, each way once."""

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
        self._relations: Way | UndecidedError | None = None
        self._points: Way | UndecidedError | None = None
        self._all: Way | UndecidedError | None = None

    def there(self, operand: int, tensor: int) -> Type:
        """The type of what is touched."""
        return self.steps.tensor_types(self._values[operand].type)[tensor]

    def walk(self, follower: Any, start: Any) -> dict[tuple[int, int], Reached[Any]]:
        """What is reached of the tensors of values, as a follower has it."""
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
        """The tensors of values of which anything may be touched: on some way no map is empty.

        Raises:
            UndecidedError: The program cannot be walked through.
        """
        return frozenset(self.walk(Reaching(), True))

    def relations(self) -> Way:
        """What is reached, as relations."""
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
        """What is reached from some or all elements."""
        if self._points is None:
            self._points = self._some_points()
        if isinstance(self._points, UndecidedError):
            raise self._points
        return self._points

    def all_points(self) -> Way:
        """What is reached from all elements, more of them than are looked at at first.

        Raises:
            UndecidedError: They are too many.
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
        """Has the output so few elements that all of them can be looked at?"""
        try:
            return prod(sizes_of(self.here)) <= MORE_ENUMERATED
        except UnsupportedError:
            return False

    def _some_points(self) -> Way | UndecidedError:
        shape = sizes_of(self.here)
        total = prod(shape)
        found: Way | UndecidedError = UndecidedError("the output has no elements")
        for count in (total if total <= ENUMERATED else 0, *SAMPLES):
            if 0 < count <= max(total, SAMPLES[-1]):
                found = self._from_points(shape, count, ROWS)
                if isinstance(found, Way | WalkTooLongError):
                    break
        return found

    def _from_points(self, shape: tuple[int, ...], count: int, rows: int) -> Way | UndecidedError:
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
    """A follower that tells only whether anything is reached."""

    def through(self, reached: bool, access: Access, names: Names) -> bool | None:
        """Is anything touched?"""
        return None if access.map is None or access.map.is_known_empty else True

    def join(self, one: bool, other: bool) -> bool:
        """Both together."""
        return True

    def key(self, reached: bool) -> bool:
        """There is one state."""
        return True

    def weight(self, reached: bool) -> int:
        """It is one number."""
        return 1


class Way:
    """One way of following the program, and what it reached."""

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
    """Different indices of a tensor: all, or its corners, its middle and random ones.

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
    """The same where int64 does not number the elements: coordinates are drawn one by one."""
    if max(shape) > POS_INF:
        raise UndecidedError("an index does not fit into 64 bits")
    rng = np.random.default_rng(seed)
    ends = np.asarray(shape, np.int64) - 1
    drawn = [rng.integers(0, ends, endpoint=True) for _ in range(count)]
    return np.unique(np.stack([ends, ends * 0, ends // 2, *drawn])[:count], axis=0)
