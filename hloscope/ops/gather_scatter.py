"""Gather and scatter: reads and writes at indices given by an array."""

from __future__ import annotations

from typing import ClassVar

from hloscope.errors import UnsupportedError
from hloscope.ir import Callees, Dims, Op, TensorType, Type, Types
from hloscope.ops.inference import (
    Extent,
    array,
    check_all_in_bounds,
    check_distinct,
    check_in_bounds,
    compatible_shapes,
    count,
    extents,
    known_elements,
    may_be_one_size,
    op,
    packed,
    require,
    same_elements,
    size_text,
    sizes_text,
    tensors,
    without,
)
from hloscope.ops.reduction import ReducerRules, accumulators, check_reducer
from hloscope.ops.result_types import mismatch


class _Gathering(Op):
    """Base of the gather ops: common parameters and type checks."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    operand_batching_dims: Dims
    start_indices_batching_dims: Dims
    start_index_map: Dims
    index_vector_dim: int

    def _check(self, operand: TensorType, indices: TensorType, number: int | None) -> None:
        """Check operand, indices and parameters, except the slice sizes' values.

        `number` is the number of slice sizes, or `None` if it is unknown.
        """
        name = self.name
        # The order of the checks is that of StableHLO's verifier, so that the same error is
        # reported first.
        offset, collapsed = self.offset_dims, self.collapsed_slice_dims
        batching = self.operand_batching_dims
        require(
            operand.rank == len(offset + collapsed + batching),
            f"{name}_c1",
            f"offset_dims size ({len(offset)}) plus collapse_slice_dims size ({len(collapsed)})"
            f" plus operand_batching_dims size ({len(batching)}) is not equal to operand rank"
            f" ({operand.rank})",
        )
        self._check_index_vectors(indices)
        _check_sorted("expects offset_dims", offset, f"{name}_c4", ", got", unique=True)
        names = "collapsed_slice_dims", "operand_batching_dims"
        check_distinct(collapsed, batching, *names, f"{name}_c6")
        of_operand = operand.rank, "rank-of('operand')"
        for numbers, what, sort, inside in (
            (collapsed, names[0], f"{name}_c7", f"{name}_c8"),
            (batching, names[1], f"{name}_c10", f"{name}_c11"),
        ):
            _check_sorted(f"expects {what}", numbers, sort, ", got")
            check_all_in_bounds(numbers, of_operand[0], what, of_operand[1], inside)
        self._check_batching(operand, indices)
        names = "start_index_map", "operand_batching_dims"
        check_distinct(self.start_index_map, batching, *names, f"{name}_c18")
        check_all_in_bounds(
            self.start_index_map, of_operand[0], names[0], of_operand[1], f"{name}_c19"
        )
        require(
            number in (operand.rank, None),
            f"{name}_c20",
            f"slice_sizes size ({number}) not equal to operand rank ({operand.rank})",
        )

    def _check_index_vectors(self, indices: TensorType) -> None:
        """Check that index vectors have one component for each entry of `start_index_map`."""
        vector, name = self.index_vector_dim, self.name
        check_in_bounds(
            vector,
            indices.rank,
            "index_vector_dim",
            "rank-of('start_indices')",
            f"{name}_c2",
            inclusive=True,
        )
        length = 1 if vector == indices.rank else indices.sizes[vector]
        require(
            may_be_one_size(length, len(self.start_index_map)),
            f"{name}_c3",
            f"start_index_map size ({len(self.start_index_map)}) is not equal to size of index"
            f" dimension ({vector}) of start_indices ({length})",
        )

    def _check_batching(self, operand: TensorType, indices: TensorType) -> None:
        """Check that the batching dimensions of operand and indices agree in number and sizes."""
        batching, of_indices = self.operand_batching_dims, self.start_indices_batching_dims
        name, what = self.name, "start_indices_batching_dims"
        _check_unique(f"expects {what}", of_indices, f"{name}_c13", ", got")
        upper = "rank-of('start_indices')"
        check_all_in_bounds(of_indices, indices.rank, what, upper, f"{name}_c14")
        require(
            self.index_vector_dim not in of_indices,
            f"{name}_c15",
            f"expects {what} not to include index_vector_dim {self.index_vector_dim}",
        )
        message = f"operand_batching_dims and {what} should have the same size"
        require(len(batching) == len(of_indices), f"{name}_c16", message)
        for i, (a, b) in enumerate(zip(batching, of_indices, strict=True)):
            sizes = operand.sizes[a], indices.sizes[b]
            require(
                may_be_one_size(*sizes),
                f"{name}_c17",
                f"operand_batching_dims[{i}] and {what}[{i}] must have compatible sizes, but got"
                f" {sizes[0]} and {sizes[1]}",
            )

    def _check_slice_sizes(self, operand: TensorType, sizes: Dims) -> None:
        """Check the values of the slice sizes, one for each dimension of `operand`."""
        for dims, what, rule in (
            (self.collapsed_slice_dims, "collapsed_slice_dims", f"{self.name}_c9"),
            (self.operand_batching_dims, "operand_batching_dims", f"{self.name}_c12"),
        ):
            for d in dims:
                require(
                    sizes[d] <= 1,
                    rule,
                    f"Expects that for each dim in {what}, slice_sizes[dim] should be <= 1, but got"
                    f" {sizes[d]}",
                )
        for d, (size, whole) in enumerate(zip(sizes, operand.sizes, strict=True)):
            require(
                size >= 0 and (whole is None or size <= whole),
                f"{self.name}_c21",
                f"slice size ({size}) is out of bounds for operand dimension ({size_text(whole)})"
                f" at index {d}",
            )

    def _gathered(
        self, operand: TensorType, indices: TensorType, sizes: tuple[int | None, ...]
    ) -> TensorType:
        """Return the type of the result.

        It has the batch dimensions of the indices, and the slice sizes at `offset_dims`.
        """
        batch = iter(without(extents(indices), (self.index_vector_dim,)))
        rank = len(self.offset_dims) + indices.rank - (self.index_vector_dim < indices.rank)
        check_all_in_bounds(
            self.offset_dims, rank, "offset_dims", "implied-result-rank", f"{self.name}_c5"
        )
        dropped = self.collapsed_slice_dims + self.operand_batching_dims
        window = iter([size for d, size in enumerate(sizes) if d not in dropped])
        dims: list[Extent] = [
            (next(window), None) if d in self.offset_dims else next(batch) for d in range(rank)
        ]
        return array(operand.element, dims)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        sizes, element = f"{self.name}_c22", f"{self.name}_c23"
        return mismatch(inferred, declared, number="", sizes=sizes, element=element)


@op("gather")
class Gather(_Gathering):
    """Slices of `operand` at the index vectors of `start_indices`.

    Source: StableHLO spec `gather`.
    """

    slice_sizes: Dims
    indices_are_sorted: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        operand, indices = tensors(self.name, operands, 2)
        self._check(operand, indices, len(self.slice_sizes))
        self._check_slice_sizes(operand, self.slice_sizes)
        return self._gathered(operand, indices, self.slice_sizes)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        types = tensors(self.name, operands[:1] + results)
        message = "failed to verify that all of {operand, result} have same element type"
        require(same_elements(types, any_float=False), "gather_c23", message)
        super().verify(operands, results, calls)


@op("dynamic_gather")
class DynamicGather(_Gathering):
    """`gather` with the slice sizes in operand 2."""

    reads_values: ClassVar[tuple[int, ...]] = (2,)
    indices_are_sorted: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        operand, indices, slice_sizes = tensors(self.name, operands, 3)
        require(
            slice_sizes.rank == 1,
            "dynamic_gather_i3",
            f"slice_sizes.rank != 1 (got {slice_sizes.rank})",
        )
        self._check(operand, indices, slice_sizes.sizes[0])
        sizes = known_elements(slice_sizes)
        if sizes is None:
            return self._gathered(operand, indices, (None,) * operand.rank)
        self._check_slice_sizes(operand, sizes)
        return self._gathered(operand, indices, sizes)


def _check_unique(what: str, dims: Dims, rule: str, got: str, end: str = "") -> None:
    message = f"{what} to not repeat{got}: [{sizes_text(dims)}]{end}"
    require(len(set(dims)) == len(dims), rule, message)


def _check_sorted(
    what: str, dims: Dims, rule: str, got: str, end: str = "", *, unique: bool = False
) -> None:
    message = f"{what} to be sorted{got}: [{sizes_text(dims)}]{end}"
    require(sorted(dims) == list(dims), rule, message)
    if unique:
        _check_unique(what, dims, rule, got, end)


@op("scatter")
class Scatter(Op):
    """Combines updates with the inputs.  Operands: N inputs, indices, N updates.  Callee: the body.

    Attributes:
        by_window: Whether the op follows HLO.  HLO drops a window of updates that is not completely
            inside, and takes windows one after another.  StableHLO drops single elements that are
            outside, and takes updates in row-major order of all their dimensions.

    Source: StableHLO spec `scatter`; XLA's `ScatterExpander`.
    """

    update_window_dims: Dims
    inserted_window_dims: Dims
    input_batching_dims: Dims
    scatter_indices_batching_dims: Dims
    scatter_dims_to_operand_dims: Dims
    index_vector_dim: int
    indices_are_sorted: bool = False
    unique_indices: bool = False
    by_window: bool = True

    def may_exceed_bounds(self, operands: Types) -> bool:
        """Can a window of updates be partly outside of its input?

        Only then do HLO and StableHLO have different results.
        """
        _, _, updates = self._parts(operands)
        gone = {*self.inserted_window_dims, *self.input_batching_dims}
        kept = (d for d in range(len(gone) + len(self.update_window_dims)) if d not in gone)
        sizes = {d: updates[0].sizes[w] for d, w in zip(kept, self.update_window_dims, strict=True)}
        return any(sizes.get(d, 1) not in (0, 1) for d in self.scatter_dims_to_operand_dims)

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        inputs, _, _ = self._parts(operands)
        elements = accumulators(self.name, calls, inputs)
        return packed(array(e, extents(t)) for e, t in zip(elements, inputs, strict=True))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        inputs, indices, updates = self._parts(operands)
        message = "Not all inputs have compatible shapes."
        require(all(compatible_shapes(inputs[0], t) for t in inputs), "scatter_c1", message)
        message = "Not all updates have compatible shapes."
        require(all(compatible_shapes(updates[0], t) for t in updates), "scatter_c3", message)
        check_in_bounds(
            self.index_vector_dim,
            indices.rank,
            "index_vector_dim",
            "rank-of('scatter_indices')",
            "scatter_c22",
            inclusive=True,
        )
        if calls:
            inits = [array(t.element, ()) for t in updates]
            check_reducer(calls[0], inputs, inits, (), _SCATTER_BODY)
        expanded = indices.sizes + (1,) * (self.index_vector_dim == indices.rank)
        needed = len(expanded) - 1 + len(self.update_window_dims)
        for t in updates:
            require(
                t.rank == needed,
                "scatter_c4",
                f"expects updates tensor must be of rank {needed} ( == rank-of('scatter_indices') -"
                " 1 + size-of('update_window_dims'), where 'scatter_indices' is expanded by a"
                " trailing 1 dimension if 'index_vector_dim' == rank-of('scatter_indices')), but"
                f" got {t.rank}.",
            )
        for t, update in zip(inputs, updates, strict=True):
            # The dimension numbers of all inputs are checked first, as sizes are compared along
            # them.
            self._check_dimensions(t, expanded, update)
        for t, update in zip(inputs, updates, strict=True):
            self._check_updates(t, expanded, update)
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred, declared, number="scatter_c5", sizes="scatter_c24", element="scatter_c25"
        )

    def _parts(self, operands: Types) -> tuple[list[TensorType], TensorType, list[TensorType]]:
        """Return the operand types in three parts: inputs, indices, updates."""
        number = (len(operands) - 1) // 2
        require(number > 0, "scatter_c5", "requires at least 1 input value")
        count(self.name, operands, 2 * number + 1)
        types = tensors(self.name, operands)
        return types[:number], types[number], types[number + 1 :]

    def _check_dimensions(
        self, operand: TensorType, indices: tuple[int | None, ...], update: TensorType
    ) -> None:
        """Check the dimension numbers for one input, its update and the index vectors.

        Args:
            operand: Type of the input.
            indices: Sizes of the scatter indices, the dimension of index vectors included.
            update: Type of the update.
        """
        window, inserted = self.update_window_dims, self.inserted_window_dims
        batching = self.input_batching_dims
        total = len(window + inserted + batching)
        require(
            operand.rank == total,
            "scatter_c2",
            "Expects rank-of operand to match size-of('update_window_dims') +"
            " size-of('inserted_window_dims') + size-of('input_batching_dims') i.e."
            f" {total} but got {operand.rank}.",
        )
        of_operand = "rank-of('operand')"
        _check_sorted("Expects update_window_dims", window, "scatter_c7", "; got", ".", unique=True)
        check_all_in_bounds(
            window, update.rank, "update_window_dims", "rank-of('updates')", "scatter_c8"
        )
        names = "inserted_window_dims", "input_batching_dims"
        check_distinct(inserted, batching, *names, "scatter_c9")
        _check_sorted("Expects inserted_window_dims", inserted, "scatter_c10", "; got", ".")
        check_all_in_bounds(inserted, operand.rank, names[0], of_operand, "scatter_c11")
        _check_sorted("Expects input_batching_dims", batching, "scatter_c12", "; got", ".")
        check_all_in_bounds(batching, operand.rank, names[1], of_operand, "scatter_c13")
        self._check_batching(operand, indices)
        self._check_index_vectors(indices)
        to_operand = self.scatter_dims_to_operand_dims
        names = "scatter_dims_to_operand_dims", "input_batching_dims"
        check_distinct(to_operand, batching, *names, "scatter_c20")
        check_all_in_bounds(to_operand, operand.rank, names[0], of_operand, "scatter_c21")

    def _check_batching(self, operand: TensorType, indices: tuple[int | None, ...]) -> None:
        batching, of_indices = self.input_batching_dims, self.scatter_indices_batching_dims
        what = "scatter_indices_batching_dims"
        _check_unique(f"Expects {what}", of_indices, "scatter_c14", "; got", ".")
        upper = "rank-of('scatter_indices')"
        check_all_in_bounds(of_indices, len(indices), what, upper, "scatter_c15")
        message = f"expects {what} not to include index_vector_dim {self.index_vector_dim}."
        require(self.index_vector_dim not in of_indices, "scatter_c16", message)
        message = f"input_batching_dims and {what} should have the same size."
        require(len(batching) == len(of_indices), "scatter_c17", message)
        for i, (a, b) in enumerate(zip(batching, of_indices, strict=True)):
            sizes = operand.sizes[a], indices[b]
            require(
                may_be_one_size(*sizes),
                "scatter_c18",
                f"input_batching_dims[{i}] and {what}[{i}] must have compatible sizes, but got"
                f" {sizes[0]} and {sizes[1]}.",
            )

    def _check_index_vectors(self, indices: tuple[int | None, ...]) -> None:
        number, length = len(self.scatter_dims_to_operand_dims), indices[self.index_vector_dim]
        require(
            may_be_one_size(length, number),
            "scatter_c19",
            f"Scatter op has {number} elements in scatter_dims_to_operand_dims and the bound of"
            f" dimension index_vector_dim={self.index_vector_dim} of scatter_indices is {length}."
            " These two numbers must be equal.",
        )

    def _check_updates(
        self, operand: TensorType, indices: tuple[int | None, ...], update: TensorType
    ) -> None:
        """Check the sizes of an update: for each index, a window that fits into the input.

        Args:
            operand: Type of the input.
            indices: Sizes of the scatter indices.
            update: Type of the update.
        """
        dropped = self.inserted_window_dims + self.input_batching_dims
        most = [size for d, size in enumerate(operand.sizes) if d not in dropped]
        for d, largest in zip(self.update_window_dims, most, strict=True):
            found = update.sizes[d]
            require(
                found is None or largest is None or found <= largest,
                "scatter_c4",
                "expects bounds of the window dimensions of updates to not exceed the bounds of the"
                f" corresponding dimensions of operand. For dimension {d}, updates bound is"
                f" {found}, operand bound is {largest}.",
            )
        scattered = [d for d in range(update.rank) if d not in self.update_window_dims]
        needed = [size for d, size in enumerate(indices) if d != self.index_vector_dim]
        for d, size in zip(scattered, needed, strict=True):
            require(
                may_be_one_size(update.sizes[d], size),
                "scatter_c4",
                "expects bounds of the scatter dimensions of updates to be same as the bounds of"
                f" the corresponding dimensions of scatter indices. For scatter dimension {d},"
                f" updates bound is {update.sizes[d]} , scatter_indices bound is {size}.",
            )


_SCATTER_BODY = ReducerRules(
    body="scatter_c23", init_element="scatter_c6", input_element="scatter_c6"
)


@op("torch_index_select")
class TorchIndexSelect(Op):
    """The former `torch_index_select` of StableHLO: slices along `dim` by number."""

    dim: int
    batch_dims: int

    def selected_sizes(self, whole: Dims, indices: Dims) -> Dims:
        """Return the sizes of the result for an operand of sizes `whole`.

        Raises:
            UnsupportedError: `dim` or `batch_dims` do not fit the operands, which the verifier does
                not check.
        """
        dim, batch = self.dim, self.batch_dims
        is_there = 0 <= batch <= dim < len(whole) and batch <= len(indices)
        if not is_there or whole[:batch] != indices[:batch]:
            raise UnsupportedError(
                f"`{self.name}` along dimension {dim} of {list(whole)} by indices {list(indices)}"
                f" with {batch} batch dimensions"
            )
        return (*whole[:dim], *indices[batch:], *whole[dim + 1 :])
