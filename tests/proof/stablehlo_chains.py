"""Random chains of collectives as StableHLO text, with moves of data between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class StableChain:
    """Writes one random chain for a grid of replicas × partitions.

    Attributes:
        size: Elements of the first argument; the second one is an index.
        text: The program.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._grid = [(2, 1), (1, 2), (2, 2), (4, 1), (1, 3), (3, 2)][self._number(6)]
        self.size = self._size = [2, 4, 6, 12][self._number(4)]
        self._value = "%p"
        self._lines: list[str] = []
        steps = (
            self._all_reduce, self._all_gather, self._reduce_scatter, self._all_to_all,
            self._permute, self._broadcast,
        )  # fmt: skip
        for _ in range(2 + self._number(3)):
            if self._number(3) == 0:
                self._move()
            steps[self._number(len(steps))]()
        if not self._lines:
            self._all_reduce()
        body = "\n  ".join(self._lines)
        self.text = f"""func.func @main(%p: tensor<{self.size}xf32>, %i: tensor<i32>)
    -> tensor<{self._size}xf32> {{
  {body}
  return {self._value} : tensor<{self._size}xf32>
}}"""

    def _number(self, end: int) -> int:
        return int(self._rng.integers(end))

    def _emit(self, op: str, attributes: str, size: int, region: str = "") -> None:
        name = f"%v{len(self._lines)}"
        types = f"(tensor<{self._size}xf32>) -> tensor<{size}xf32>"
        self._lines.append(
            f'{name} = "stablehlo.{op}"({self._value}) {region}{{{attributes}}} : {types}'
        )
        self._value, self._size = name, size

    def _move(self) -> None:
        before, name = self._size, f"%v{len(self._lines)}"
        if before < 3 or self._number(2):
            self._emit("reverse", "dimensions = array<i64: 0>", before)
            return
        self._size = before - 1
        self._lines.append(
            f"{name} = stablehlo.dynamic_slice {self._value}, %i, sizes = [{self._size}]"
            f" : (tensor<{before}xf32>, tensor<i32>) -> tensor<{self._size}xf32>"
        )
        self._value = name

    def _axis(self, between_partitions: bool) -> tuple[int, str]:
        """How many numbers groups are of, and the attributes that say of what."""
        replicas, partitions = self._grid
        channel = f"channel_handle = #stablehlo.channel_handle<handle = {len(self._lines) + 1}, "
        if self._number(2):
            return replicas, ""
        if between_partitions:
            return partitions, f", {channel}type = 1>"
        return replicas * partitions, f", {channel}type = 1>, use_global_device_ids"

    def _groups(self, between_partitions: bool = False) -> tuple[int, str]:
        count, more = self._axis(between_partitions)
        sizes = [n for n in range(1, count + 1) if count % n == 0]
        size = sizes[self._number(len(sizes))]
        rows = self._rng.permutation(count).reshape(-1, size).tolist()
        return size, f"replica_groups = {_table(rows)}{more}"

    def _region(self) -> str:
        return (
            "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32>"
            " stablehlo.return %s : tensor<f32> }) "
        )

    def _all_reduce(self) -> None:
        self._emit("all_reduce", self._groups()[1], self._size, self._region())

    def _all_gather(self) -> None:
        count, groups = self._groups()
        if self._size * count <= 24:
            self._emit("all_gather", f"all_gather_dim = 0 : i64, {groups}", self._size * count)

    def _reduce_scatter(self) -> None:
        count, groups = self._groups()
        if self._size % count == 0:
            attributes = f"scatter_dimension = 0 : i64, {groups}"
            self._emit("reduce_scatter", attributes, self._size // count, self._region())

    def _all_to_all(self) -> None:
        count, groups = self._groups(between_partitions=True)
        if self._size % count == 0:
            self._emit(
                "all_to_all",
                "split_dimension = 0 : i64, concat_dimension = 0 : i64,"
                f" split_count = {count} : i64, {groups}",
                self._size,
            )

    def _permute(self) -> None:
        count, more = self._axis(between_partitions=True)
        some = 1 + self._number(count)
        pairs = [self._rng.permutation(count)[:some].tolist() for _ in range(2)]
        table = _table([*zip(*pairs, strict=True)])
        self._emit("collective_permute", f"source_target_pairs = {table}{more}", self._size)

    def _broadcast(self) -> None:
        self._emit("collective_broadcast", self._groups(between_partitions=True)[1], self._size)


def _table(rows: Sequence[Sequence[int]]) -> str:
    return f"dense<{[[*row] for row in rows]}> : tensor<{len(rows)}x{len(rows[0])}xi64>"
