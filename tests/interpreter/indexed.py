"""Random gathers and scatters, and where the specification says that their slices are."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

GATHER = """func.func @main(%x: tensor<{x}>, %i: tensor<{i}>) -> tensor<{r}> {{
  %0 = "stablehlo.gather"(%x, %i) <{{
    dimension_numbers = #stablehlo.gather<offset_dims = {offset}, collapsed_slice_dims = {dropped},
      operand_batching_dims = {batching}, start_indices_batching_dims = {of_indices},
      start_index_map = {mapped}, index_vector_dim = {vector}>,
    slice_sizes = array<i64: {sizes}>
  }}> : (tensor<{x}>, tensor<{i}>) -> tensor<{r}>
  return %0 : tensor<{r}>
}}"""
SCATTER = """func.func @main(%x: tensor<{x}>, %i: tensor<{i}>, %u: tensor<{u}>) -> tensor<{x}> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {offset},
      inserted_window_dims = {dropped}, input_batching_dims = {batching},
      scatter_indices_batching_dims = {of_indices}, scatter_dims_to_operand_dims = {mapped},
      index_vector_dim = {vector}>
  }}> ({{
    ^bb0(%a: tensor<{e}>, %b: tensor<{e}>):
      {body}
      stablehlo.return %r : tensor<{e}>
  }}) : (tensor<{x}>, tensor<{i}>, tensor<{u}>) -> tensor<{x}>
  return %0 : tensor<{x}>
}}"""


@dataclass
class Case:
    """Dimension numbers of a gather, which are those of the scatter the other way round."""

    operand: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: tuple[int, ...]
    offset: list[int]
    dropped: list[int]
    batching: list[int]
    of_indices: list[int]
    mapped: list[int]
    vector: int

    @property
    def windows(self) -> tuple[int, ...]:
        """Shape of the slices side by side."""
        out = [*self.dropped, *self.batching]
        window = iter([s for d, s in enumerate(self.sizes) if d not in out])
        batch = iter([s for d, s in enumerate(self.indices) if d != self.vector])
        rank = len(self.offset) + len(self.indices) - (self.vector < len(self.indices))
        return tuple(next(window) if d in self.offset else next(batch) for d in range(rank))

    def text(self, template: str, **more: str) -> str:
        def type_(sizes: tuple[int, ...], element: str) -> str:
            return "x".join([*map(str, sizes), element])

        element = more.pop("element", "i32")
        return template.format(
            **vars(self)
            | {
                "x": type_(self.operand, element),
                "i": type_(self.indices, "i64"),
                "r": type_(self.windows, element),
                "u": type_(self.windows, element),
                "e": element,
                "sizes": ", ".join(map(str, self.sizes)),
            },
            **more,
        )

    def places(self, indices: Any) -> Any:
        """Every index of the slices, the full start, and the place inside the slice.

        Written as the specification has it, one index after the other.
        """
        out = [*self.dropped, *self.batching]
        for at in np.ndindex(self.windows):
            batch = [i for d, i in enumerate(at) if d not in self.offset]
            vector = indices[(*batch[: self.vector], slice(None), *batch[self.vector :])]
            start = [0] * len(self.operand)
            for i, d in enumerate(self.mapped):
                start[d] = int(vector[i])
            for d, given in zip(self.batching, self.of_indices, strict=True):
                start[d] = batch[given - (given > self.vector)]
            inside = iter([at[d] for d in self.offset])
            yield at, start, [0 if d in out else next(inside) for d in range(len(start))]


def made(seed: int) -> tuple[Case, Any, Any, Random]:
    """A random case, the operand and the indices."""
    random = Random(seed)
    rank = random.randint(1, 4)
    operand = tuple(random.randint(1, 4) for _ in range(rank))
    roles = [random.choice(["window", "window", "dropped", "batching"]) for _ in operand]
    batching = [d for d in range(rank) if roles[d] == "batching"]
    mapped = [d for d in range(rank) if d not in batching and random.random() < 0.6]
    random.shuffle(mapped)
    sizes = tuple(
        random.randint(1, n) if role == "window" and random.random() < 0.5
        else n if role == "window" else 1
        for n, role in zip(operand, roles, strict=True)
    )  # fmt: skip
    dims: list[Any] = [*batching, *[-random.randint(1, 3) for _ in range(random.randint(0, 2))]]
    random.shuffle(dims)
    vector = random.randint(0, len(dims))
    of_indices = [dims.index(d) + (dims.index(d) >= vector) for d in batching]
    shape = [operand[d] if d >= 0 else -d for d in dims]
    if vector < len(shape) or len(mapped) != 1 or random.random() < 0.5:
        shape.insert(vector, len(mapped))
    kept = sum(role == "window" for role in roles)
    offset = sorted(random.sample(range(kept + len(dims)), kept))
    dropped = [d for d in range(rank) if roles[d] == "dropped"]
    case = Case(operand, tuple(shape), sizes, offset, dropped, batching, of_indices, mapped, vector)
    numbers = np.random.default_rng(seed)
    x = numbers.integers(-99, 99, operand, dtype="i4")
    indices = numbers.integers(-2, 5, case.indices, dtype="i8")
    return case, x, indices, random


EXAMPLE = Case((3, 4, 2), (2, 3, 2), (1, 2, 2), [2, 3], [0], [], [], [1, 0], 2)
"""Dimension numbers of the specification's examples."""
ROWS = Case((5, 2), (4, 1), (1, 2), [1], [0], [], [], [0], 1)
"""Rows of a matrix by number."""
