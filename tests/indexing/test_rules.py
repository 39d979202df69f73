"""The maps of single instructions: their text, and that the two directions are inverse.

`golden/rules.txt` holds one case per paragraph: an instruction, then its maps in both directions.
`python -m tests.indexing.test_rules` writes the answers anew, to be read before they are committed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hloscope.fusion.analysis import Analysis
from hloscope.indexing import Access, Precision
from hloscope.indexing.analysis import input_to_output, number_of_outputs, output_to_input
from hloscope.indexing.rules.registry import Direction, lookup
from hloscope.ir.graph import Instruction
from hloscope.ops import (
    ELEMENTWISE,
    AllReduce,
    CustomCall,
    DotGeneral,
    RaggedDot,
    Reduce,
    Transpose,
)
from tests.indexing.relations import Values, instruction, is_disjoint, relation

READER = Analysis().bodies
"""Tells what the bodies do."""
GOLDEN = Path(__file__).parent / "golden" / "rules.txt"
CASES = {
    paragraph.partition("\n")[0]: paragraph.rstrip("\n")
    for paragraph in GOLDEN.read_text().split("\n\n")
    if paragraph.strip()
}


def describe(access: Access) -> str:
    text = "unknown" if access.map is None else str(access.map)
    if access.replica is not None:
        text += f" on {str(access.replica).partition(', domain:')[0].partition('-> ')[2]}"
    if access.leaf:
        text += f" of leaf {access.leaf}"
    return text if access.precision is Precision.EXACT else f"{text} [{access.precision}]"


def answers(head: str) -> str:
    """The paragraph of a case, as computed."""
    ins = instruction(head)
    lines = [head]
    for output in range(number_of_outputs(ins)):
        for k, accesses in enumerate(output_to_input(ins, output, reader=READER)):
            lines += [f"  {output} <- {k}  {describe(access)}" for access in accesses]
    for operand in range(len(ins.operands)):
        for k, accesses in enumerate(input_to_output(ins, operand, reader=READER)):
            lines += [f"  {operand} -> {k}  {describe(access)}" for access in accesses]
    return "\n".join(lines)


def test_maps_print_as_written() -> None:
    """All cases in one test, so that each is in the quick run."""
    assert [answers(head) for head in CASES] == [*CASES.values()]


@pytest.mark.parametrize("contracted", ["{1}", "{0,1}"])
def test_what_sparse_operands_of_a_dot_read_is_unknown(contracted: str) -> None:
    """Also where other contracting sizes agree."""
    ins = instruction(
        f"f32[3] dot(f32[4,8], f32[4,16,3], u16[4,2]), lhs_contracting_dims={contracted},"
        f" rhs_contracting_dims={contracted}, sparsity=L.1@2:4"
    )
    found = output_to_input(ins, 0, reader=READER)
    assert [describe(access) for accesses in found for access in accesses] == [
        "unknown [unknown]"
    ] * len(ins.operands)


@pytest.mark.parametrize(
    "head",
    [
        'f32[<=9] custom-call(f32[4], s32[]), custom_call_target="SliceToDynamic"',
        '(f32[4], s32[]) custom-call(f32[<=9]), custom_call_target="PadToStatic"',
    ],
)
def test_what_is_resized_to_other_bounds_is_unknown(head: str) -> None:
    ins = instruction(head)
    for found in (output_to_input(ins, 0, reader=READER), input_to_output(ins, 0, reader=READER)):
        assert all(a.precision is Precision.UNKNOWN for accesses in found for a in accesses)
    same = instruction(head.replace("f32[4]", "f32[9]"))
    assert output_to_input(same, 0, reader=READER)[0][0].precision is not Precision.UNKNOWN
    assert input_to_output(same, 0, reader=READER)[0][0].precision is not Precision.UNKNOWN


@pytest.mark.parametrize("channel", ["", ", channel_id=1"])
def test_what_an_all_to_all_of_parts_that_leave_a_rest_moves_is_unknown(channel: str) -> None:
    ins = instruction(
        f"f32[8,4] all-to-all(f32[8,4]), dimensions={{1}}, replica_groups={{{{0,1,2}}}}{channel}"
    )
    for found in (output_to_input(ins, 0, reader=READER), input_to_output(ins, 0, reader=READER)):
        ((access,),) = found
        assert access.precision is Precision.UNKNOWN
        assert access.reason == "an all-to-all of parts that 3 members cannot share"


def both_ways(ins: Instruction) -> list[tuple[tuple[Access, ...], tuple[Access, ...]]]:
    """For each output, operand and leaf of it: what is read, and what is influenced."""
    found = []
    for output in range(number_of_outputs(ins)):
        for operand, reads in enumerate(output_to_input(ins, output, reader=READER)):
            writes = input_to_output(ins, operand, reader=READER)[output]
            for leaf in {access.leaf for access in (*reads, *writes)}:
                found.append(
                    (
                        tuple(a for a in reads if a.leaf == leaf),
                        tuple(a for a in writes if a.leaf == leaf),
                    )
                )
    return found


@pytest.mark.parametrize("head", CASES)
def test_the_directions_are_inverse(head: str) -> None:
    values = Values(high=4)
    for reads, writes in both_ways(instruction(head)):
        back = {(there, here, replica) for here, there, replica in relation(writes, values)}
        assert relation(reads, values) == back


@pytest.mark.parametrize("head", CASES)
def test_several_maps_of_one_operand_are_disjoint(head: str) -> None:
    values = Values(high=4)
    for pair in both_ways(instruction(head)):
        assert all(is_disjoint(accesses, values) for accesses in pair)


def test_equal_instructions_share_their_maps() -> None:
    head = "f32[2,3,5] dot(f32[2,3,4], f32[2,4,5]), lhs_batch_dims={0}, rhs_batch_dims={0}, "
    head += "lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    first, second = instruction(head), instruction(head)
    assert first is not second
    analysis = Analysis()
    assert analysis.reads(first, 0) is analysis.reads(second, 0)
    assert analysis.writes(first, 1, 0) is analysis.writes(second, 1, 0)


def test_a_runtime_variable_knows_which_operand_it_is_read_from() -> None:
    ins = instruction(
        "f32[6,2,3] gather(f32[7,8,9], s32[6,2]), offset_dims={1,2}, collapsed_slice_dims={0}, "
        "start_index_map={2,0}, index_vector_dim=1, slice_sizes={1,2,3}"
    )
    ((access,), _) = output_to_input(ins)
    assert access.map is not None
    first, second = access.map.runtime
    assert str(access.map.results[0]) == "rt0"  # the operand's dimension 0 is vector element 1
    assert [v.origin for v in (first, second)] == [ins.operands[1]] * 2
    assert [str(e) for e in first.index] == ["d0", "1"]
    assert [str(e) for e in second.index] == ["d0", "0"]


def test_gather_clamps_its_indices_and_scatter_drops_what_does_not_fit() -> None:
    gather = instruction(
        "f32[2] gather(f32[5], s32[2,1]), offset_dims={}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
    )
    scatter = instruction(
        "f32[5] scatter(f32[5], s32[2,1], f32[2]), update_window_dims={}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add"
    )
    ((read,), _), ((written,),) = output_to_input(gather), input_to_output(scatter, 2)
    assert read.map is not None
    assert written.map is not None
    assert str(read.map) == "(d0){rt0} -> (rt0), domain: d0 in [0, 1], rt0 in [0, 4]"
    assert str(written.map) == f"{read.map} clamped to [-2147483648, 2147483647]"
    assert not read.map.runtime[0].is_condition
    assert written.map.runtime[0].is_condition


@pytest.mark.parametrize("size", [0, 1, 4])
@pytest.mark.parametrize("mapped", [0, 1])
def test_slices_without_elements_read_nothing(size: int, mapped: int) -> None:
    ins = instruction(
        f"f32[3,2] gather(f32[{size},2], s32[3]), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{{mapped}}}, index_vector_dim=1, slice_sizes={{0,2}}"
    )
    ((read,), _), ((reached,),) = output_to_input(ins), input_to_output(ins, 0)
    assert read.map is not None
    assert read.map.is_known_empty
    assert reached.map is not None
    assert reached.map.is_known_empty


def test_a_gap_alone_is_padding() -> None:
    ins = instruction("f32[1] pad(f32[2], f32[]), padding=-1_-1_1")
    array, padding = (str(a.map) for (a,) in output_to_input(ins))
    assert array == "(d0) -> ((d0 + 1) / 2), domain: d0 in [0, 0], (d0 + 1) mod 2 in [0, 0]"
    assert padding == "(d0) -> (), domain: d0 in [0, 0], (d0 + 1) mod 2 in [1, 1]"
    ((reached,),) = input_to_output(ins, 1)
    assert reached.map is not None
    assert reached.map.points(()) == {(0,)}


def test_a_scan_of_no_steps_returns_what_it_begins_with() -> None:
    ins = instruction(
        "(f32[0,3], f32[3]) scan(f32[0,3], f32[3]), dimensions={0}, num_carries=1,"
        " to_apply=add_rows"
    )
    for find in (output_to_input, input_to_output):
        found = [[str(a.map) for a in accesses] for accesses in find(ins, 1)]
        assert found == [[], ["(d0) -> (d0), domain: d0 in [0, 2]"]]


def test_what_a_comparator_surely_looks_at_is_read_exactly() -> None:
    """It orders by the second operand; the first one is carried along."""
    ins = instruction("(f32[5], f32[5]) sort(f32[5], f32[5]), dimensions={0}, to_apply=ge_second")
    for reads in output_to_input(ins, 0, reader=READER):
        assert [access.precision for access in reads] == [Precision.EXACT]


if __name__ == "__main__":
    GOLDEN.write_text("\n\n".join(answers(head) for head in CASES) + "\n")


@pytest.mark.parametrize("direction", Direction)
def test_equal_instructions_share_what_depends_on_op_and_types_alone(direction: Direction) -> None:
    for op in (ELEMENTWISE["add"], Transpose, Reduce, DotGeneral):
        assert (entry := lookup(direction, op)) is not None
        assert entry.is_shared
    for op in (AllReduce, CustomCall, RaggedDot):  # on replicas, settings, values as well
        assert (entry := lookup(direction, op)) is not None
        assert not entry.is_shared
