"""The result of an indexing query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from hloscope import display, proof
from hloscope.api.invalid import check, explains_invalid_program
from hloscope.display import (
    Answer,
    Columns,
    OperandAnswer,
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
from hloscope.support.lazy import lazy
from hloscope.support.source import visible

if TYPE_CHECKING:
    import hloscope.api.unknown_sizes as in_sizes
    from hloscope.indexing import SymbolicAnalysis
    from hloscope.proof import Check, Prover
else:
    in_sizes = lazy("hloscope.api.unknown_sizes")

_Each: TypeAlias = Sequence[tuple[OperandAnswer, Sequence[int]]]
"""Operands, each with the numbers of its tensors to prove."""
_TensorsToProve: TypeAlias = "tuple[_Each, Check | None]"
TOGETHER: Final = 32
"""Maximum number of outputs that one isl process proves together."""
FEW: Final = 64
"""Maximum number of tensors that are proved one by one.

Beyond it, tensors that are not read are proved together.
"""


class Indexing(Tabular):
    """The result of an indexing query; prints itself, also in notebooks.

    `len`, iteration and `indexing[k]` go over the operands of the first output (or, for
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
        self._file = file
        self._symbolic = symbolic

    @property
    def operands(self) -> tuple[OperandAnswer, ...]:
        """Return the accesses of each operand; for `indexing_from`, those of each output."""
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
        """Return the maps of each operand; accesses without a known map are left out."""
        return tuple(
            [tuple([a.map for a in o.accesses if a.map is not None]) for o in self.operands]
        )

    @property
    def map(self) -> IndexingMap:
        """Return the only map.

        Raises:
            ValueError: The result has several maps, or none.
        """
        maps = [map for some in self.maps for map in some]
        if len(maps) != 1:
            raise ValueError(f"there are {len(maps)} maps; choose an operand, or use `maps`")
        return maps[0]

    @explains_invalid_program
    def prove(
        self, *, seed: int = 0, by_execution: bool = False, prover: Prover | None = None
    ) -> Indexing:
        """Return this result with a proof for the maps of each operand.

        The program is verified first, because the maps of an invalid one have no meaning. Then the
        maps are compared with the program twice, without our composition and simplification: by
        isl, and at single elements, which are all of a small output or a sample. Maps in terms of
        named sizes are compared with the instruction at some sizes.

        Args:
            seed: Seed of the sampled elements and of the values of runtime variables.
            by_execution: Also execute the instruction, or a small instance of it: a change of an
                element outside the maps must not change an output element. This uses no indexing
                rule.
            prover: A prover that several results about one program share; it remembers its checks.

        Raises:
            VerifyError: The program is invalid.

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
                stated=counts_of(self.asked_module) if self.asked_module else UNKNOWN_COUNTS,
            )
        elif prover.convention != convention:
            raise ValueError(f"the answer is by the convention {convention!r}, the prover not")
        outputs = _Proving(answer, prover).proved()
        return Indexing(replace(answer, outputs=outputs), self._file, self.asked_module)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Return the proofs that `prove` found, output by output, operand by operand."""
        every = [o.check for output in self.answer.outputs for o in output.operands]
        return tuple([check for check in every if check is not None])

    @explains_invalid_program
    def to_json(self) -> dict[str, Any]:
        """Return the result as an object of schema `hloscope.index/3`."""
        return to_json(self.answer, self._file)

    @explains_invalid_program
    def to_print_indexing(self) -> str:
        """Return the result as text in the format of XLA's tool `print_indexing`."""
        return to_print_indexing(self.answer)

    @explains_invalid_program
    def to_svg(self, at: Sequence[int] | None = None) -> str:
        """Return a picture of what one element reads, or of what depends on it.

        `at` is the index of the element; the default is in the middle.

        Raises:
            ValueError: The tensor has no element `at`.
        """
        return display.to_svg(self.answer, None if at is None else tuple(at))

    @explains_invalid_program
    def to_elements(self, at: Sequence[int]) -> str:
        """Return text with the related elements of element `at`: boxes and their number.

        Related elements are those that the element reads; for `indexing_from`, those that depend on
        it.

        Raises:
            ValueError: The tensor has no element `at`.

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
        """Return the related elements of element `at` as JSON of schema `hloscope.elements/1`.

        Related elements are those that the element reads; for `indexing_from`, those that depend on
        it.

        Raises:
            ValueError: The tensor has no element `at`.
        """
        return display.elements_json(self.answer, tuple(at), self._file)

    @explains_invalid_program
    def to_html(self, at: Sequence[int] | None = None) -> str:
        """Return one HTML file with the picture and a table of the maps; it loads no other file.

        `at` is the index of the element in the picture; the default is in the middle.

        Raises:
            ValueError: The tensor has no element `at`.
        """
        return display.to_html(self.answer, None if at is None else tuple(at))

    @explains_invalid_program
    def to_latex(self) -> str:
        """Return the maps as LaTeX: an `aligned` environment, which needs `amsmath`."""
        return display.to_latex(self.answer)

    columns: Final[Columns] = {
        "output": "int64", "operand": "int64", "name": "string", "type": "string", "map": "string",
        "precision": "string", "reason": "string",
    }  # fmt: skip
    """Columns of the table of maps."""

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a row for each map, output by output; an operand without accesses has no row."""
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

    @explains_invalid_program
    def _repr_html_(self) -> str:
        return display.html_fragment(self.answer)


class _Proving:
    """Proves the maps of one result with one prover."""

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
        """Return the outputs with the proofs of their operands."""
        found: list[OutputAnswer] = []
        outputs = self._answer.outputs
        for start in range(0, len(outputs), TOGETHER):
            some = outputs[start : start + TOGETHER]
            found += self._proved(some, list(map(self._tensors_to_prove, some)))
        return found

    def _tensors_to_prove(self, output: OutputAnswer) -> _TensorsToProve:
        """Return the tensors to prove one by one, and one check for all others.

        If an output has many tensors, those that it does not depend on are checked together.
        """
        operands = output.operands
        if not self._is_wide:
            return [(operand, self._of(operand)) for operand in operands], None
        reached, rest = self._verifier.reached(
            self._answer.instruction, output.number, self._answer.computation
        )
        if isinstance(operands, TensorAnswers):
            # A tensor is proved alone if the program reaches it, or if the result has maps for it:
            # a map of a tensor that is out of reach would be wrong, and must be checked too.
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
        """Return the tensor numbers that a result covers: one for `indexing_from`, else all."""
        return [operand.leaf] if self._is_inverse else range(self._tensors[operand.number])

    def _proved(
        self, outputs: Sequence[OutputAnswer], asked: Sequence[_TensorsToProve]
    ) -> Iterator[OutputAnswer]:
        """Yield the outputs with the proofs of their tensors.

        Tensors that are not proved one by one get one check that covers them all.

        Args:
            outputs: The outputs.
            asked: For each output, the result of `_tensors_to_prove`.
        """
        found = self._verifier.check_outputs(
            self._answer.instruction,
            [(o.number, self._maps(each)) for o, (each, _) in zip(outputs, asked, strict=True)],
            order=self._answer.order,
            inverse=self._is_inverse,
            computation=self._answer.computation,
        )
        for output, (each, rest), checks in zip(outputs, asked, found, strict=True):
            told = self._with_proofs(each, None if self._is_inverse else rest, checks)
            yield replace(output, operands=output.operands.proved(told, rest))

    def _maps(self, each: _Each) -> list[tuple[int, int, Accesses]]:
        """Return (operand number, tensor number, accesses) of each tensor to prove.

        An unknown access counts for all tensors of its operand.
        """
        asked: list[tuple[int, int, Accesses]] = []
        for operand, leaves in each:
            unknown = [access for access in operand.accesses if access.map is None]
            of_leaf: dict[int, list[Access]] = {leaf: [*unknown] for leaf in leaves}
            for access in operand.accesses:
                if access.map is not None:
                    of_leaf[operand.leaf if self._is_inverse else access.leaf].append(access)
            asked += [(operand.number, leaf, tuple(some)) for leaf, some in of_leaf.items()]
        return asked

    def _with_proofs(
        self, each: _Each, rest: Check | None, checks: Sequence[Check]
    ) -> list[OperandAnswer]:
        """Return the operands, each with one proof that combines those of its tensors.

        Args:
            each: Operands with the tensors that were proved.
            rest: Check of all other tensors; `None` without one.
            checks: Proof of each tensor, in the order of `each`.
        """
        told = []
        left = iter(checks)
        for operand, leaves in each:
            found = [next(left) for _ in leaves]
            # The common check stands for the tensors of this operand that were not proved alone.
            if rest is not None and len(leaves) < self._tensors[operand.number]:
                found.append(rest)
            told.append(operand.proved(proof.combined(found)))
        return told
