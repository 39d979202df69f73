"""Indexing maps: relations from the elements of one tensor to elements of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from hloscope.affine import Dim, Expr, Interval, Style, Var
from hloscope.indexing.base import MapBase
from hloscope.indexing.compose import compose
from hloscope.indexing.simplify import MapTrace, simplify
from hloscope.indexing.text import parse_map, print_map
from hloscope.indexing.variables import Constraint, RuntimeVariable, below
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.indexing.evaluate as values
    import hloscope.indexing.inverse as inverses
    import hloscope.indexing.markup as markup
    import hloscope.indexing.proofs as proofs
    import hloscope.indexing.sets as sets
    import hloscope.indexing.tiles as tiles
    import hloscope.indexing.transform as transform
    from hloscope.indexing.evaluate import Arrays, Index, Point
    from hloscope.indexing.sets import IndexSet, Side
    from hloscope.indexing.tiles import ExactTiles
    from hloscope.support.arrays import Bools, Ints
else:
    inverses = lazy("hloscope.indexing.inverse")
    markup = lazy("hloscope.indexing.markup")
    proofs = lazy("hloscope.indexing.proofs")
    sets = lazy("hloscope.indexing.sets")
    tiles = lazy("hloscope.indexing.tiles")
    transform = lazy("hloscope.indexing.transform")
    values = lazy("hloscope.indexing.evaluate")


class IndexingMap(MapBase):
    """A relation `dims -> results` with range variables, runtime variables and constraints.

    Runtime variables stand for integers read from tensors while the program runs. Maps are
    immutable and hashable; `==` compares structure, `equals` compares the relations.

    >>> m = IndexingMap.parse("(d0, d1)[s0] -> (d0 / 2 + s0, d1), domain: d0 in [0, 9], "
    ...                       "d1 in [0, 3], s0 in [0, 1]")
    >>> sorted(m.points((4, 1)))
    [(2, 1), (3, 1)]
    >>> m.results[0]
    <d0 / 2 + s0>
    """

    __slots__ = ()

    @classmethod
    def of_sizes(
        cls,
        dim_sizes: Sequence[int],
        range_sizes: Sequence[int] = (),
        results: Sequence[Expr | int] = (),
        constraints: Iterable[Constraint] = (),
        runtime: Sequence[RuntimeVariable] = (),
    ) -> Self:
        """Return the map whose dimension and range variables take the values `[0, size)`.

        Args:
            dim_sizes: The size for each dimension variable.
            range_sizes: The size for each range variable.
            results: The results, as expressions over the variables.
            constraints: Pairs of an expression and the interval that contains it.
            runtime: The runtime variables.

        >>> from hloscope.affine import Range
        >>> print(IndexingMap.of_sizes((4, 6), (3,), (Dim(0), Range(0))))
        (d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 3], d1 in [0, 5], s0 in [0, 2]
        """
        dims, ranges = map(below, dim_sizes), map(below, range_sizes)
        return cls(tuple(dims), tuple(ranges), runtime, results, constraints)

    @classmethod
    def identity(cls, sizes: Sequence[int]) -> Self:
        """Return the map from each index of a shape to itself.

        `sizes` has the size of each dimension.

        >>> print(IndexingMap.identity((4, 6)))
        (d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 5]
        """
        return cls.of_sizes(sizes, (), [Dim(i) for i in range(len(sizes))])

    @classmethod
    def undefined(cls) -> Self:
        """Return the undefined map, about whose pairs nothing is known."""
        return cls(is_undefined=True)

    # ------------------------------------------------------------------------------------ text

    @classmethod
    def parse(cls, text: str, *, name: str = "<map>") -> Self:
        """Parse XLA's text of a map.

        Args:
            text: For example `(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 4], s0 in [0, 1]`.
            name: Name of the text in error messages.

        Raises:
            ParseError: The text is not a map; the message has the position.

        >>> print(IndexingMap.parse("(pid) -> (pid floordiv 8), domain: pid in [0, 63]"))
        (pid) -> (pid / 8), domain: pid in [0, 63]
        """
        return parse_map(cls, text, name=name)

    def text(self, style: Style = "xla", *, plain: bool = False) -> str:
        """Return the map as XLA prints it; `style="mlir"` writes `floordiv` for `/`.

        Args:
            style: The notation of divisions.
            plain: Write out shared parts at each use, as XLA has no names for them.

        Raises:
            TooLargeError: With `plain`, the text is too long.
        """
        return print_map(self, style, plain=plain)

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            text = print_map(self)
            object.__setattr__(self, "_text", text)
            return text

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_latex_(self) -> str:
        return f"${markup.to_latex(self)}$"

    def _repr_html_(self) -> str:
        return markup.to_html(self)

    # -------------------------------------------------------------------------------- questions

    def evaluate(
        self,
        dims: Index,
        ranges: Index = (),
        runtime: Index = (),
        *,
        check_domain: bool = False,
    ) -> Point:
        """Return the results at one point.

        Like XLA's `IndexingMap::Evaluate`, it computes outside the domain as well, where the
        results mean nothing; `check_domain` refuses such points.

        Args:
            dims: Values of the dimension variables.
            ranges: Values of the range variables.
            runtime: Values of the runtime variables.
            check_domain: Refuse points outside the domain.

        Raises:
            TypeError: A value is not an integer.
            ValueError: With `check_domain`, the point does not lie in the domain; the message
                says why.

        >>> m = IndexingMap.parse("(d0)[s0] -> (d0 / 2, s0), domain: d0 in [0, 9], s0 in [0, 1]")
        >>> m.evaluate((7,), (1,))
        (3, 1)
        >>> m.evaluate((10,), (1,))
        (5, 1)
        >>> m.evaluate((10,), (1,), check_domain=True)
        Traceback (most recent call last):
          ...
        ValueError: d0 = 10 is outside the domain [0, 9]
        """
        return values.evaluate(self, dims, ranges, runtime, check_domain=check_domain)

    def evaluate_array(
        self, dims: Arrays, ranges: Arrays = (), runtime: Arrays = ()
    ) -> tuple[Ints, ...]:
        """Return the results at many points, one array per result.

        `dims`, `ranges` and `runtime` have an array of values for each variable; the arrays
        broadcast. Points outside the domain have results too; `satisfies_array` returns which
        points are inside.

        >>> IndexingMap.parse("(d0) -> (d0 / 2)").evaluate_array([range(4)])
        (array([0, 0, 1, 1]),)
        """
        return values.evaluate_array(self, dims, ranges, runtime)

    def satisfies(
        self,
        dims: Index,
        ranges: Index = (),
        runtime: Index = (),
        *,
        check_bounds: bool = True,
    ) -> bool:
        """Does the point lie in the domain?

        `dims`, `ranges` and `runtime` have the values of the variables of each kind. Without
        `check_bounds` only the constraints are checked.
        """
        return values.satisfies(self, dims, ranges, runtime, check_bounds=check_bounds)

    def satisfies_array(
        self, dims: Arrays, ranges: Arrays = (), runtime: Arrays = (), *, check_bounds: bool = True
    ) -> Bools:
        """Return, for each of many points, whether it lies in the domain.

        `dims`, `ranges` and `runtime` have an array of values for each variable; the arrays
        broadcast. Without `check_bounds` only the constraints are checked.
        """
        return values.satisfies_array(self, dims, ranges, runtime, check_bounds=check_bounds)

    def points(self, dims: Index, runtime: Index = ()) -> set[Point]:
        """Return all results of the index `dims`, over all values of the range variables.

        `runtime` has the values of the runtime variables.

        Raises:
            ValueError: The range variables have more than 16 million combinations of values.
        """
        return values.points(self, dims, runtime)

    def points_of_box(self, sides: Sequence[Interval], runtime: Index = ()) -> set[Point]:
        """Return all results of the indices in a box.

        Args:
            sides: An interval for each dimension.
            runtime: Values of the runtime variables.

        Raises:
            ValueError: The box and the range variables have more than 16 million combinations of
                values.

        >>> m = IndexingMap.parse("(d0, d1) -> (d0 + d1), domain: d0 in [0, 9], d1 in [0, 9]")
        >>> m.points_of_box([Interval(1, 2), Interval(3, 4)]) == {(4,), (5,), (6,)}
        True
        """
        return values.points_of_box(self, sides, runtime)

    def range_of(self, expr: Expr) -> Interval:
        """Return an interval that contains all values of an expression over the domain.

        It is not always the smallest one.

        >>> IndexingMap.identity((10,)).range_of(Dim(0) * 2 + 1)
        Interval(lo=1, hi=19)
        """
        return self.domain.bounds(expr)

    def always_non_negative(self, expr: Expr) -> bool:
        """Is an expression known to be at least 0 on the whole domain?"""
        return self.range_of(expr).lo >= 0

    def equals(self, other: MapBase) -> bool:
        """Are the two maps the same relation, even with other bounds and expressions?

        Raises:
            UnsupportedError: The answer is undecided (products of variables); the message says why.

        >>> a = IndexingMap.parse("(d0) -> (d0 / 4), domain: d0 in [0, 7]")
        >>> b = IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 7], s0 in [0, 9], "
        ...                       "d0 - s0 * 4 in [0, 3]")
        >>> a == b, a.equals(b)
        (False, True)
        """
        return proofs.decided(proofs.prove_equal([self], [other]), "equality")

    # ------------------------------------------------------------------------- sets and relations

    def implies(self, other: MapBase) -> bool:
        """Is every pair of this map also a pair of the other map?

        Raises:
            UnsupportedError: The answer is undecided; `prove_implies` returns that instead.

        >>> IndexingMap.identity((4,)).implies(IndexingMap.identity((5,)))
        True
        """
        return proofs.decided(proofs.prove_implies([self], [other]), "implication")

    def is_injective(self) -> bool:
        """Does every result belong to only one index?

        Raises:
            UnsupportedError: The answer is undecided; `prove_injective` returns that instead.

        >>> IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]").is_injective()
        False
        """
        return proofs.decided(proofs.prove_injective([self]), "injectivity")

    def is_bijective(self, shape: Sequence[int]) -> bool:
        """Does every index have exactly one result, and every index of `shape` exactly one origin?

        The results must not lie outside of `shape`.

        Raises:
            UnsupportedError: The answer is undecided; `prove_bijective` returns that instead.

        >>> m = IndexingMap.parse("(d0) -> (d0 / 8, d0 mod 8), domain: d0 in [0, 31]")
        >>> m.is_bijective((4, 8)), m.is_bijective((8, 8))
        (True, False)
        """
        return proofs.decided(proofs.prove_bijective(self, shape), "bijectivity")

    def image(self, box: Sequence[Side] | None = None) -> IndexSet[Self]:
        """Return the set of all results of the indices in a box, or in the whole domain.

        A side is an interval, a pair of both included ends, a range, or one index.

        >>> window = IndexingMap.parse("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 9], "
        ...                            "s0 in [0, 2]")
        >>> window.image([(0, 1)]).card(), (5,) in window.image([(0, 1)])
        (5, False)
        """
        return sets.image(self, box)

    def image_of(self, box: Sequence[Side]) -> ExactTiles:
        """Return the set of results of a box of indices, as a strided box and the holes in it.

        Both ends of each side are included.

        Raises:
            ValueError: The box has another number of sides than the map has dimensions.

        >>> expand = IndexingMap.parse("(d0) -> (d0 / 6, d0 mod 6), domain: d0 in [0, 47]")
        >>> expand.image_of([(0, 11)]).shape.sizes, expand.image_of([(0, 8)]).missing.element
        ((2, 6), (1, 3))
        """
        return tiles.image_of(self, box)

    def tiles(self, sizes: Sequence[int]) -> ExactTiles:
        """Return the image of each tile of these sizes: boxes, holes, overlaps and counts.

        Args:
            sizes: Size of a tile along each dimension; range variables are not tiled.

        Raises:
            ValueError: The sizes are not one positive number for each dimension.

        >>> IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]").tiles([3]).overlap
        Shared(tiles=((0,), (1,)), element=(1,))
        """
        return tiles.exact_tiles([self], sizes)

    def preimage(self, box: Sequence[Side] | None = None) -> IndexSet[Self]:
        """Return the set of all indices that have a result in a box, or any result.

        >>> list(IndexingMap.parse("(d0) -> (d0 / 4), domain: d0 in [0, 9]").preimage([2]))
        [(8,), (9,)]
        """
        return sets.preimage(self, box)

    def card(self, runtime: Index = ()) -> int:
        """Return the exact number of different results over the whole domain.

        Args:
            runtime: Values of the runtime variables, if they matter.

        Raises:
            UnsupportedError: The number is undecided, or depends on runtime values; `card_bounds`
                returns bounds.

        >>> IndexingMap.parse("(d0) -> (d0 / 3), domain: d0 in [0, 9]").card()
        4
        """
        return sets.image(self).card(runtime)

    def card_bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the number of different results.

        They hold for all runtime values, and are equal if `card` returns the number.

        Raises:
            UnsupportedError: The number is infinite.

        >>> rows = "(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 3], rt0 in [0, 2]"
        >>> IndexingMap.parse(rows).card_bounds()
        (1, 4)
        """
        return sets.image(self).card_bounds()

    def union(self, other: Self) -> list[Self]:
        """Return the pairs that either map has, as disjoint maps; the first one is this map.

        >>> [print(m) for m in IndexingMap.identity((4,)).union(IndexingMap.identity((6,)))]
        (d0) -> (d0), domain: d0 in [0, 3]
        (d0) -> (d0), domain: d0 in [4, 5]
        [None, None]
        """
        return sets.union(self, other)

    def intersect(self, other: Self) -> list[Self]:
        """Return the pairs that both maps have, as disjoint maps.

        Raises:
            UnsupportedError: The result is undecided.
        """
        return sets.intersect(self, other)

    def subtract(self, other: Self) -> list[Self]:
        """Return the pairs that only this map has, as disjoint maps.

        Raises:
            UnsupportedError: The result is undecided.

        >>> IndexingMap.identity((8,)).subtract(IndexingMap.identity((6,)))
        [<(d0) -> (d0), domain: d0 in [6, 7]>]
        """
        return sets.subtract(self, other)

    def to_isl(self) -> Any:
        """Return the relation as an `islpy.Map`; runtime variables are parameters `p0`, `p1`, ….

        Raises:
            UnsupportedError: The map is not affine, or a runtime variable varies with the index,
                as a parameter cannot.
        """
        return sets.to_isl(self)

    @classmethod
    def from_isl(cls, relation: Any) -> list[Self]:
        """Convert an `islpy.Map`, or isl's text of one, to disjoint maps.

        Raises:
            UnsupportedError: isl finds no quotients for its unknowns within its budget.

        >>> IndexingMap.from_isl("{ [i] -> [j] : 0 <= i < 10 and 4j <= i < 4j + 4 }")
        [<(d0) -> (d0 / 4), domain: d0 in [0, 9]>]
        """
        return sets.from_isl(cls, relation)

    # ------------------------------------------------------------------------------- operations

    def compose(self, second: Self) -> Self:
        """Return the composition: apply this map first, then `second`.

        Raises:
            ValueError: This map has another number of results than `second` has dimensions.

        >>> halves = IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
        >>> print(halves.compose(halves))
        (d0) -> (d0 / 2 / 2), domain: d0 in [0, 9], d0 / 2 in [0, 9]
        """
        return compose(self, second)

    def simplify(
        self, *, replace_points: bool = True, exact: bool = False, trace: MapTrace | None = None
    ) -> Self:
        """Return the same relation with simpler constraints, tighter bounds and simpler results.

        Args:
            replace_points: A dimension with one value becomes that value in the results.
            exact: Search for still shorter forms of results, which are then proved.
            trace: If given, every step is appended.

        >>> print(IndexingMap.parse("(d0) -> (d0 mod 8), domain: d0 in [0, 99], d0 / 8 in [2, 2]")
        ...       .simplify())
        (d0) -> (d0 - 16), domain: d0 in [16, 23]
        """
        return simplify(self, replace_points=replace_points, exact=exact, trace=trace)

    def add_constraint(self, expr: Expr, interval: Interval) -> Self:
        """Return the map with the additional constraint `expr in interval`."""
        return self.with_(constraints=(*self.constraints, (expr, interval)))

    def inverse(self) -> Self:
        """Return the inverse relation: from each result to the indices that map to it.

        The inverse is always exact. Its range variables are what a result does not determine.

        >>> print(IndexingMap.parse("(d0) -> (d0 / 4), domain: d0 in [0, 39]").inverse())
        (d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]
        """
        return inverses.inverse(self).simplify().remove_unused_symbols()

    def unused_variables(self) -> set[Var]:
        """Return the variables that `remove_unused_vars` would remove."""
        return transform.unused_variables(self)

    def remove_unused_vars(self) -> Self:
        """Return the map without variables that affect neither results nor emptiness.

        The remaining variables are renumbered. Constraints that have only removed variables are
        dropped if they can be satisfied; otherwise the map is empty.
        """
        return transform.remove_unused(self, dims=True)

    def remove_unused_symbols(self) -> Self:
        """Return the same relation without range and runtime variables that do not affect it.

        >>> print(IndexingMap.of_sizes((4,), (8,), [Dim(0)]).remove_unused_symbols())
        (d0) -> (d0), domain: d0 in [0, 3]
        """
        return transform.remove_unused(self, dims=False)

    def rescale_symbols(self) -> Self:
        """Return the relation with range variables under `s mod c = r` written as `s * c + r`.

        >>> print(IndexingMap.parse("()[s0] -> (s0 / 2), domain: s0 in [0, 9], s0 mod 4 in [1, 1]")
        ...       .rescale_symbols())
        ()[s0] -> ((s0 * 4 + 1) / 2), domain: s0 in [0, 2]
        """
        return transform.rescale(self)

    def symbols_to_dims(self) -> Self:
        """Return the map with its range and then its runtime variables as further dimensions."""
        return transform.symbols_to_dims(self)

    def ranges_to_dims(self, indices: Sequence[int]) -> Self:
        """Return the map with the range variables at `indices` as additional dimensions."""
        return transform.ranges_to_dims(self, indices)

    def sub_map(self, indices: Iterable[int]) -> Self:
        """Return the map to the results at `indices`, in that order.

        >>> print(IndexingMap.identity((4, 6)).sub_map([1]))
        (d0, d1) -> (d1), domain: d0 in [0, 3], d1 in [0, 5]
        """
        found = self.with_(results=[self.results[i] for i in indices])
        if self.is_simplified:
            found.mark_simplified()
        return found

    def bounded(
        self,
        dims: Sequence[Interval | int],
        ranges: Sequence[Interval | int] = (),
        runtime: Sequence[Interval | int] = (),
    ) -> Self:
        """Return the map with other bounds of its variables.

        `dims`, `ranges` and `runtime` have an interval for each variable; an integer `n` is `[0,
        n)`.

        Raises:
            ValueError: The number of bounds differs from the number of variables.
        """
        return transform.bounded(self, dims, ranges, runtime)
