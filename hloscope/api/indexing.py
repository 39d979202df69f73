"""The answer to an indexing question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from hloscope import display, proof
from hloscope.api.explaining import check, explains_invalid_program
from hloscope.display import (
    Answer,
    Columns,
    OperandAnswer,
    OperandAnswers,
    OutputAnswer,
    Tabular,
    TensorAnswers,
    to_json,
    to_print_indexing,
    to_text,
)
from hloscope.fusion import leaf_types
from hloscope.hlo_parser import brief_type
from hloscope.indexing import UNKNOWN_COUNTS, Access, Accesses, IndexingMap, counts_of
from hloscope.ir import Module
from hloscope.lazy import lazy
from hloscope.visible import visible

if TYPE_CHECKING:
    import hloscope.api.unknown_sizes as in_sizes
    from hloscope.indexing import SymbolicAnalysis
    from hloscope.proof import Check, Prover
else:
    in_sizes = lazy("hloscope.api.unknown_sizes")

_Each: TypeAlias = Sequence[tuple[OperandAnswer, Sequence[int]]]
"""Operands, and which of their tensors are asked about."""
_Asked: TypeAlias = "tuple[_Each, Check | None]"
TOGETHER: Final = 32
"""So many outputs are proved together, by one process of isl."""
FEW: Final = 64
"""So many tensors are asked about one by one; of more, those out of reach are told together."""


class Indexing(Tabular):
    """The answer to an indexing question; prints itself, also in notebooks.

    `len`, iteration and `indexing[k]` go over the operands of the first output asked about (or, for
    `indexing_from`, over the outputs).
    """

    def __init__(
        self,
        answer: Answer,
        file: str = "<string>",
        module: Module | None = None,
        symbolic: SymbolicAnalysis | None = None,
    ) -> None:
        self.answer: Final = answer
        self.asked_module: Final = module
        self.while_asked: Final = nullcontext()
        self._file = file
        self._symbolic = symbolic

    @property
    def operands(self) -> tuple[OperandAnswer, ...]:
        """What is touched of each operand; asked from an operand: of each output."""
        outputs = self.answer.outputs
        if self.answer.direction == "output_to_input":
            return tuple(outputs[0].operands) if outputs else ()
        return tuple([operand for output in outputs for operand in output.operands])

    def __len__(self) -> int:
        return len(self.operands)

    def __iter__(self) -> Iterator[OperandAnswer]:
        return iter(self.operands)

    def __getitem__(self, number: int) -> OperandAnswer:
        return self.operands[number]

    @property
    def maps(self) -> tuple[tuple[IndexingMap, ...], ...]:
        """The maps of each operand, without accesses nothing is known about."""
        return tuple(
            [tuple([a.map for a in o.accesses if a.map is not None]) for o in self.operands]
        )

    @property
    def map(self) -> IndexingMap:
        """The map, where there is just one.

        Raises:
            ValueError: There are several maps, or none.
        """
        maps = [map for some in self.maps for map in some]
        if len(maps) != 1:
            raise ValueError(f"there are {len(maps)} maps; choose an operand, or use `maps`")
        return maps[0]

    @explains_invalid_program
    def prove(
        self, *, seed: int = 0, by_execution: bool = False, prover: Prover | None = None
    ) -> Indexing:
        """The same answer with a proof for the maps of each operand.

        The program is verified first: the maps of a wrong one have no meaning.  Then the maps are
        compared with the program twice, without our composition and simplification:
        by isl, and at single elements, all of a small output or a sample.  Maps in terms of sizes
        are compared with the instruction at some of these sizes.

        Args:
            seed: Of the elements, and of values read at run time, that are drawn.
            by_execution: Run the instruction too, or a small instance of it: no element that is
                not in the maps may move an output element.  This uses no rule.
            prover: Remembers what it has checked, where many answers about a program are.

        Raises:
            VerifyError: The program is wrong.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> print(program.root.indexing().prove().checks[0])
        isl; enumerated 32
        >>> print(program.root.indexing().prove(by_execution=True).checks[0])
        isl; enumerated 32; executed 42, seen 32 of 32
        """
        check(self.asked_module)
        answer = self.answer
        if self._symbolic is not None and answer.what == "operand":
            proved = in_sizes.proved(answer, self._symbolic, self.asked_module, seed)
            return Indexing(proved, self._file, self.asked_module, self._symbolic)
        convention = answer.convention
        if prover is None:
            prover = proof.Prover(
                seed=seed,
                by_execution=by_execution,
                convention=convention,
                said=counts_of(self.asked_module) if self.asked_module else UNKNOWN_COUNTS,
            )
        elif prover.convention != convention:
            raise ValueError(f"the answer is by the convention {convention!r}, the prover not")
        outputs = _Proving(answer, prover).proved()
        return Indexing(replace(answer, outputs=outputs), self._file, self.asked_module)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The proofs that `verify` found, output by output, operand by operand."""
        every = [o.check for output in self.answer.outputs for o in output.operands]
        return tuple([check for check in every if check is not None])

    @explains_invalid_program
    def to_json(self) -> dict[str, Any]:
        """The answer as an object of schema `hloscope.index/3`."""
        return to_json(self.answer, self._file)

    @explains_invalid_program
    def to_print_indexing(self) -> str:
        """The answer as XLA's tool `print_indexing` prints it."""
        return to_print_indexing(self.answer)

    @explains_invalid_program
    def to_svg(self, at: Sequence[int] | None = None) -> str:
        """A picture of what one element touches: `at`, or the one in the middle.

        Raises:
            ValueError: The tensor has no such element.
        """
        return display.to_svg(self.answer, None if at is None else tuple(at))

    @explains_invalid_program
    def to_elements(self, at: Sequence[int]) -> str:
        """The elements that one element touches, as boxes with their number.

        Raises:
            ValueError: The tensor has no such element.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> print(program.root.indexing().to_elements((5, 2)))
        t = f32[8,4] transpose(p)
        <BLANKLINE>
        Element (5, 2) of the output, f32[8,4], reads
        <BLANKLINE>
          operand 0  f32[4,8]  p   1 element
            [2, 5]
        """
        return display.to_elements(self.answer, tuple(at))

    def elements_json(self, at: Sequence[int]) -> dict[str, Any]:
        """The same as an object of schema `hloscope.elements/1`.

        Raises:
            ValueError: The tensor has no such element.
        """
        return display.elements_json(self.answer, tuple(at), self._file)

    @explains_invalid_program
    def to_html(self, at: Sequence[int] | None = None) -> str:
        """A page with the picture and a table of the maps; needs nothing from elsewhere.

        Raises:
            ValueError: The tensor has no such element.
        """
        return display.to_html(self.answer, None if at is None else tuple(at))

    @explains_invalid_program
    def to_latex(self) -> str:
        """The maps as LaTeX, an `aligned` environment, which needs `amsmath`."""
        return display.to_latex(self.answer)

    @property
    def columns(self) -> Columns:
        """Name and type of each column of `to_pandas`, `to_arrow` and `to_polars`."""
        return COLUMNS

    def records(self) -> Iterator[dict[str, Any]]:
        """A row for each map, output by output; what is not touched has no row."""
        for output in self.answer.outputs:
            for operand in output.touched:
                for access in operand.accesses:
                    yield {
                        "output": output.number,
                        "operand": operand.number,
                        "name": operand.name,
                        "type": brief_type(operand.type),
                        "map": None if access.map is None else str(access.map),
                        "precision": str(access.precision),
                        "reason": access.reason,
                    }

    @explains_invalid_program
    def __str__(self) -> str:
        return visible(to_text(self.answer))

    __repr__ = __str__

    @explains_invalid_program
    def _repr_html_(self) -> str:
        return display.html_fragment(self.answer)


COLUMNS: Final[Columns] = {
    "output": "int64", "operand": "int64", "name": "string", "type": "string", "map": "string",
    "precision": "string", "reason": "string",
}  # fmt: skip
"""Columns of the table of maps."""


class _Proving:
    """Proofs for the outputs of one answer, by one prover."""

    def __init__(self, answer: Answer, prover: Prover) -> None:
        self._answer, self._verifier = answer, prover
        self._is_inverse = answer.direction == "input_to_output"
        # Every output is asked about the same operands: their tensors are counted once.
        asked = answer.outputs[0].operands if answer.outputs else ()
        self._tensors = (
            {} if self._is_inverse else {o.number: len(leaf_types(o.type)) for o in asked}
        )
        self._is_wide = (len(asked) if self._is_inverse else sum(self._tensors.values())) > FEW

    def proved(self) -> list[OutputAnswer]:
        """The outputs with proofs: of all tensors of each operand, or of those asked from."""
        found: list[OutputAnswer] = []
        outputs = self._answer.outputs
        for start in range(0, len(outputs), TOGETHER):
            some = outputs[start : start + TOGETHER]
            found += self._proved(some, list(map(self._asked, some)))
        return found

    def _asked(self, output: OutputAnswer) -> _Asked:
        """Which tensors are asked about one by one, and the proof of all others.

        Of many tensors, those that the output does not reach are told together.
        """
        operands = output.operands
        if not self._is_wide or not isinstance(operands, OperandAnswers):
            return [(operand, self._of(operand)) for operand in operands], None
        reached, rest = self._verifier.reached(
            self._answer.instruction, output.number, self._answer.computation
        )
        if isinstance(operands, TensorAnswers):
            mine = {leaf for number, leaf in reached if number == operands.operand.number}
            mine.update([operand.leaf for operand in operands.touched])
            return [(o, [leaf]) for leaf in sorted(mine) for o in operands.of_number(leaf)], rest
        leaves: dict[int, set[int]] = {}
        for number, leaf in reached:
            leaves.setdefault(number, set()).add(leaf)
        for operand in operands.touched:
            leaves.setdefault(operand.number, set()).update([a.leaf for a in operand.accesses])
        return [(o, sorted(leaves[k])) for k in sorted(leaves) for o in operands.of_number(k)], rest

    def _of(self, operand: OperandAnswer) -> Sequence[int]:
        """The tensors that an answer about an operand is about."""
        return [operand.leaf] if self._is_inverse else range(self._tensors[operand.number])

    def _proved(
        self, outputs: Sequence[OutputAnswer], asked: Sequence[_Asked]
    ) -> Iterator[OutputAnswer]:
        """Outputs with the proofs of what is asked about, and of all others together."""
        found = self._verifier.check_outputs(
            self._answer.instruction,
            [(o.number, self._maps(each)) for o, (each, _) in zip(outputs, asked, strict=True)],
            order=self._answer.order,
            inverse=self._is_inverse,
            computation=self._answer.computation,
        )
        for output, (each, rest), checks in zip(outputs, asked, found, strict=True):
            told = self._told(each, None if self._is_inverse else rest, checks)
            operands = output.operands
            if rest is not None and isinstance(operands, OperandAnswers):
                yield OutputAnswer(output.number, output.type, operands.proved(told, rest))
            else:
                yield OutputAnswer(output.number, output.type, told)

    def _maps(self, each: _Each) -> list[tuple[int, int, Accesses]]:
        """The maps of each tensor that is asked about; what is not known is so of all of them."""
        asked: list[tuple[int, int, Accesses]] = []
        for operand, leaves in each:
            unknown = [access for access in operand.accesses if access.map is None]
            of_leaf: dict[int, list[Access]] = {leaf: [*unknown] for leaf in leaves}
            for access in operand.accesses:
                if access.map is not None:
                    of_leaf[operand.leaf if self._is_inverse else access.leaf].append(access)
            asked += [(operand.number, leaf, tuple(some)) for leaf, some in of_leaf.items()]
        return asked

    def _told(
        self, each: _Each, rest: Check | None, checks: Sequence[Check]
    ) -> list[OperandAnswer]:
        """The operands with the proofs of their tensors, one after the other."""
        told = []
        left = iter(checks)
        for operand, leaves in each:
            found = [next(left) for _ in leaves]
            if rest is not None and len(leaves) < self._tensors[operand.number]:
                found.append(rest)
            told.append(operand.proved(proof.combined(found)))
        return told
