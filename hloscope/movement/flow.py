"""Where values flow: through fusions and tuples, and which ops only move elements.

What is looked at: operands; the computation of a fusion, if that is its only call; tuples that are
taken apart again.  Other called computations are walked through by themselves.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

from hloscope.indexing import Access, IndexingMap, Precision, output_to_input
from hloscope.ir import Computation, Instruction, Module, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    Bitcast,
    Broadcast,
    BroadcastInDim,
    Concatenate,
    Elementwise,
    Fusion,
    GetTupleElement,
    Pad,
    Parameter,
    Reshape,
    Reverse,
    Slice,
    Transpose,
    Tuple,
)

COPY: Final = ELEMENTWISE["copy"]
MOVES: Final = (Reshape, Transpose, Bitcast, Broadcast, BroadcastInDim, Slice, Reverse, COPY)
"""Ops whose result is elements of their one operand."""
JOINS: Final = (Concatenate, Pad)
"""Ops whose result is elements of several operands."""


class Flow:
    """The values of a module and who reads them, fusions and tuples seen through."""

    def __init__(self, module: Module) -> None:
        calls = Counter(callee for c in module for ins in c for callee in ins.calls)
        self.module: Final = module
        self.fused: Final[dict[Computation, Instruction]] = {
            ins.calls[0]: ins
            for c in module
            for ins in c
            if isinstance(ins.op, Fusion) and len(ins.calls) == 1 and calls[ins.calls[0]] == 1
        }
        """The one fusion that calls a computation."""
        self.home: Final[dict[Instruction, Computation]] = {i: c for c in module for i in c}
        self.users: Final[dict[Instruction, list[Instruction]]] = {}
        """Readers of each value that are neither fusions nor tuples that were seen through."""
        self._sources: dict[Instruction, Instruction] = {}
        self.outputs: Final = self._read()

    def _read(self) -> set[Instruction]:
        """Fill `users`; the values that computations return."""
        returned: set[Instruction] = set()
        for computation in self.module:
            for ins in computation:
                if isinstance(ins.op, Tuple) or ins in self._opened:
                    continue
                for operand in dict.fromkeys(map(self.source, ins.operands)):
                    self.users.setdefault(operand, []).append(ins)
            if computation not in self.fused:
                root = computation.root
                parts = root.operands if isinstance(root.op, Tuple) else (root,)
                returned.update(map(self.source, parts))
        return returned

    @property
    def _opened(self) -> set[Instruction]:
        return set(self.fused.values())
