"""The answer to an indexing question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hloscope.api.explaining import check, of_right_programs
from hloscope.display.answer import Answer, OperandAnswer, OperandAnswers, OutputAnswer, to_json
from hloscope.display.text import to_print_indexing, to_text
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import Accesses, IndexingMap
from hloscope.ir.graph import Module
from hloscope.lazy import lazy

if TYPE_CHECKING:
    import hloscope.display.elements as elements
    import hloscope.display.html as html
    import hloscope.display.latex as latex
    import hloscope.display.reads as reads
    import hloscope.proof as proof
    from hloscope.proof import Check, Verifier
else:
    elements = lazy("hloscope.display.elements")
    html = lazy("hloscope.display.html")
    latex = lazy("hloscope.display.latex")
    reads = lazy("hloscope.display.reads")
    proof = lazy("hloscope.proof")

FEW: Final = 64
"""So many operands are asked about one by one; of more, those out of reach are told together."""


class Indexing:
    """The answer to an indexing question; prints itself, also in notebooks.

    `len`, iteration and `indexing[k]` go over the operands of the first output asked about (or, for
    `indexing_from`, over the outputs).
    """

    def __init__(
        self, answer: Answer, file: str = "<string>", module: Module | None = None
    ) -> None:
        self.answer: Final = answer
        self.asked_module: Final = module
        self.while_asked: Final = nullcontext()
        self._file = file

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

    @of_right_programs
    def verify(
        self, *, seed: int = 0, by_execution: bool = False, verifier: Verifier | None = None
    ) -> Indexing:
        """The same answer with a proof for the maps of each operand.

        The program is verified first: the maps of a wrong one have no meaning.  Then the maps are
        compared with the program twice, without our composition and simplification:
        by isl, and at single elements, all of a small output or a sample.

        Args:
            seed: Of the elements, and of values read at run time, that are drawn.
            by_execution: Run the instruction too, or a small instance of it: no element that is
                not in the maps may move an output element.  This uses no rule.
            verifier: Remembers what it has checked, where many answers about a program are.

        Raises:
            VerifyError: The program is wrong.

        >>> import hloscope
        >>> program = hloscope.read("ENTRY e { p = f32[4,8] parameter(0) "
        ...                         "ROOT t = f32[8,4] transpose(p), dimensions={1,0} }")
        >>> print(program.root.indexing().verify().checks[0])
        isl; enumerated 32
        >>> print(program.root.indexing().verify(by_execution=True).checks[0])
        isl; enumerated 32; executed 42, seen 32 of 32
        """
        check(self.asked_module)
        answer = self.answer
        convention = answer.convention
        if verifier is None:
            verifier = proof.Verifier(seed=seed, by_execution=by_execution, convention=convention)
        elif verifier.convention != convention:
            raise ValueError(f"the answer is by the convention {convention!r}, the verifier not")
        outputs = [_proved(answer, output, verifier) for output in answer.outputs]
        return Indexing(replace(answer, outputs=outputs), self._file, self.asked_module)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The proofs that `verify` found, output by output, operand by operand."""
        every = [o.check for output in self.answer.outputs for o in output.operands]
        return tuple([check for check in every if check is not None])

    @of_right_programs
    def to_json(self) -> dict[str, Any]:
        """The answer as an object of schema `hloscope.index/2`."""
        return to_json(self.answer, self._file)

    @of_right_programs
    def to_print_indexing(self) -> str:
        """The answer as XLA's tool `print_indexing` prints it."""
        return to_print_indexing(self.answer)

    @of_right_programs
    def to_svg(self, at: Sequence[int] | None = None) -> str:
        """A picture of what one element touches: `at`, or the one in the middle.

        Raises:
            ValueError: The tensor has no such element.
        """
        return reads.to_svg(self.answer, None if at is None else tuple(at))

    @of_right_programs
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
        return elements.to_elements(self.answer, tuple(at))

    def elements_json(self, at: Sequence[int]) -> dict[str, Any]:
        """The same as an object of schema `hloscope.elements/1`.

        Raises:
            ValueError: The tensor has no such element.
        """
        return elements.elements_json(self.answer, tuple(at), self._file)

    @of_right_programs
    def to_html(self, at: Sequence[int] | None = None) -> str:
        """A page with the picture and a table of the maps; needs nothing from elsewhere.

        Raises:
            ValueError: The tensor has no such element.
        """
        return html.to_html(self.answer, None if at is None else tuple(at))

    @of_right_programs
    def to_latex(self) -> str:
        """The maps as LaTeX, an `aligned` environment, which needs `amsmath`."""
        return latex.to_latex(self.answer)

    @of_right_programs
    def __str__(self) -> str:
        return to_text(self.answer)

    __repr__ = __str__

    @of_right_programs
    def _repr_html_(self) -> str:
        return html.html_fragment(self.answer)


def _proved(answer: Answer, output: OutputAnswer, verifier: Verifier) -> OutputAnswer:
    """The output's answer with proofs: of all tensors of each operand, or of the one asked from."""
    inverse = answer.direction == "input_to_output"
    operands = output.operands
    if inverse or not isinstance(operands, OperandAnswers) or len(operands) <= FEW:
        proved = _each_proved(answer, output, operands, verifier)
        return replace(output, operands=proved)
    # Of many operands, those out of reach are told together.
    reached = verifier.reached(answer.instruction, output.number, answer.computation)
    if reached is None:
        return replace(output, operands=_each_proved(answer, output, operands, verifier))
    touched = {operand.number for operand in operands.touched}
    more = [o for k in sorted(reached - touched) for o in operands.of_number(k)]
    told = _each_proved(answer, output, [*operands.touched, *more], verifier)
    rest = verifier.out_of_reach(answer.instruction, answer.computation)
    return replace(output, operands=operands.proved(told, rest))


def _each_proved(
    answer: Answer, output: OutputAnswer, operands: Sequence[OperandAnswer], verifier: Verifier
) -> list[OperandAnswer]:
    """The operands with proofs of all of their tensors, or of the one asked from."""
    inverse = answer.direction == "input_to_output"
    asked: list[tuple[int, int, Accesses]] = []
    ends: list[int] = []
    for operand in operands:
        for leaf in [operand.leaf] if inverse else range(len(leaf_types(operand.type))):
            mine = tuple([a for a in operand.accesses if inverse or a.leaf == leaf])
            asked.append((operand.number, leaf, mine))
        ends.append(len(asked))
    checks = verifier.check_all(
        answer.instruction,
        output.number,
        asked,
        order=answer.order,
        inverse=inverse,
        computation=answer.computation,
    )
    return [
        replace(operand, check=proof.combined(checks[start:end]))
        for operand, start, end in zip(operands, [0, *ends], ends, strict=False)
    ]
