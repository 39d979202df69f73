"""What is written to add an op that both languages have: five files, or four if it is element-wise.

Each op is a table of what is added to which file, and a program in both languages whose value is
known.  Run as a module it says, of the package that is imported, which of the laws does not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

import hloscope as hs
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.ops import OPS
from tests.agreement import test_completeness
from tests.indexing import test_rules_stablehlo
from tests.tiling import test_coverage


class NewOp(NamedTuple):
    """An op, what is written for it, and a program.

    Attributes:
        added: To each file: the line before which it stands, and the text.
        hlo: The program as HLO text.
        stablehlo: The same in StableHLO.
        value: What it gives of 0, 1, 2, ….
        map: What its output reads, by both programs.
    """

    added: dict[str, tuple[str, str]]
    hlo: str
    stablehlo: str
    value: list[float]
    map: str


ROTATE: Final = NewOp(
    {
        "ops/shape.py": (
            '@op("reverse")',
            '''
@op("rotate")
class Rotate(Op):
    """`result[i] = operand[(i + amount) % n]` along a dimension of size `n`."""

    dimension: int
    amount: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        require(0 <= self.dimension < t.rank, "rotate_c1", f"no dimension {self.dimension}")
        return without_layouts(t)


''',
        ),
        "mlir/dialects/stablehlo.py": (
            "    reverse | operand:FBICQ |",
            "    rotate | operand:FBICQ | dimension:i64>=0 amount:i64 | result:FBICQ | infer\n",
        ),
        "hlo_parser/opcodes.py": (
            "    reverse  ",
            "    rotate | rotate | array | array like | dimension!int amount!int\n",
        ),
        "indexing/rules/shape.py": (
            "@output_to_input(Reverse)",
            """
from hloscope.ops import Rotate


def _rotated(ins: Instruction, op: Rotate, amount: int) -> tuple[Accesses, ...]:
    shape = sizes(ins.type)
    at = MapBuilder(shape)
    index: list[Expr] = dims(len(shape))
    index[op.dimension] = (index[op.dimension] + amount) % shape[op.dimension]
    return (exact(at.map(index)),)


@output_to_input(Rotate)
def _(ins: Instruction, op: Rotate, output: int) -> tuple[Accesses, ...]:
    return _rotated(ins, op, op.amount)


@input_to_output(Rotate)
def _(ins: Instruction, op: Rotate, operand: int) -> tuple[Accesses, ...]:
    return _rotated(ins, op, -op.amount)


""",
        ),
        "interpreter/ops/shape.py": (
            "@evaluates(Reverse)",
            """
from hloscope.ops import Rotate


@evaluates(Rotate)
def _rotate(op: Rotate, at: Site) -> Kernel:
    return lambda x: np.roll(x, -op.amount, op.dimension)


""",
        ),
    },
    "ENTRY e { p = f32[5] parameter(0)  ROOT r = f32[5] rotate(p), dimension=0, amount=2 }",
    """func.func @main(%p: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "stablehlo.rotate"(%p) {dimension = 0 : i64, amount = 2 : i64}
      : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}""",
    [2, 3, 4, 0, 1],
    "(d0) -> ((d0 + 2) mod 5), domain: d0 in [0, 4]",
)
"""An op with attributes and a rule of its own."""

POWER_OF_TWO: Final = NewOp(
    {
        "ops/elementwise.py": ("    tanh 1 result_accuracy\n", "    power_of_two 1\n"),
        "mlir/dialects/stablehlo.py": (
            "    imag | operand:FC | | result:F |",
            "    power_of_two | operand:F | | result:F | compatible elementwise ~unary\n",
        ),
        "hlo_parser/opcodes.py": (
            "    float                         | ceil",
            "    float                         | power_of_two\n",
        ),
        "interpreter/numbers/floats.py": ('    "cbrt":', '    "power_of_two": np.exp2,\n'),
    },
    "ENTRY e { p = f32[3] parameter(0)  ROOT r = f32[3] power_of_two(p) }",
    """func.func @main(%p: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.power_of_two %p : tensor<3xf32>
  return %0 : tensor<3xf32>
}""",
    [1, 2, 4],
    "(d0) -> (d0), domain: d0 in [0, 2]",
)
"""An element-wise op: how it indexes, and how tiles pass it, follows from its class."""

NEW: Final = {"rotate": ROTATE, "power_of_two": POWER_OF_TWO}


def laws(name: str, new: NewOp) -> Iterator[Callable[[], None]]:
    """What is to hold of a package with the new op."""
    yield test_completeness.test_every_op_is_spelled_in_both_languages_or_it_is_listed
    yield test_completeness.test_every_op_is_evaluated
    yield test_rules_stablehlo.test_the_table_has_every_op_and_a_reason_for_what_is_not_exact
    if name == "power_of_two":
        yield test_coverage.test_every_op_carries_tiles_or_says_why_not

    def it_has_a_class_and_a_row() -> None:
        assert name in OPS
        assert f"stablehlo.{name}" in DEFINITIONS

    yield it_has_a_class_and_a_row

    def it_is_read_printed_and_verified() -> None:
        module = hs.parse_hlo(new.hlo)
        printed = hs.print_hlo(module)
        assert name in printed
        assert hs.print_hlo(hs.parse_hlo(printed)) == printed
        assert hs.print_stablehlo(hs.parse_stablehlo(new.stablehlo)).strip().startswith("module")
        assert hs.verify(new.hlo) == hs.verify(new.stablehlo) == []

    def it_computes_and_tells_what_it_reads() -> None:
        for text, value in ((new.hlo, "r"), (new.stablehlo, "0")):
            program = hs.read(text)
            given = np.arange(len(new.value), dtype=np.float32)
            assert np.asarray(program.evaluate(given)).tolist() == new.value
            read = str(program[value].indexing().map)
            assert read == new.map, read

    yield it_is_read_printed_and_verified
    yield it_computes_and_tells_what_it_reads


def main(name: str) -> None:
    for law in laws(name, NEW[name]):
        try:
            law()
        except Exception as error:
            print(law.__name__, repr(error))


if __name__ == "__main__":
    main(sys.argv[1])
