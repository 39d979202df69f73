"""Tensors with as many elements as 63 bits number: right maps stand, wrong ones fall."""

from __future__ import annotations

from itertools import product

import pytest

import hloscope
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, input_to_output, output_to_input
from hloscope.proof import Outcome, Prover

FAR = {
    "one size": "s8[9223372036854775807]",
    "sizes together": "s8[4294967296,2147483647]",
    "one of two": "s8[3074457345618258602,3]",
    "one less": "s8[9223372036854775806]",
}
ORDERS = ("logical", "physical", "linear")


def program(name: str) -> hloscope.Program:
    type = FAR[name]
    over = ",".join(str(k) for k in range(type.count(",") + 1))
    return hloscope.read(
        f"ENTRY e {{ p = {type} parameter(0) ROOT r = {type} reverse(p), dimensions={{{over}}} }}"
    )


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(("name", "order", "inverse"), [*product(FAR, ORDERS, (False, True))])
def test_right_maps_of_far_sizes_are_not_refuted(name: str, order: str, inverse: bool) -> None:
    root = program(name).root
    flags = {"physical": order == "physical", "linear": order == "linear"}
    found = root.indexing_from(0, **flags) if inverse else root.indexing(**flags)
    outcomes = {check.outcome for check in found.prove().checks}
    allowed = {Outcome.PROVED, Outcome.SAMPLED}
    if order == "linear":  # sums of positions in memory may go past 64 bits
        allowed |= {Outcome.UNCLAIMED, Outcome.UNDECIDED}
    assert outcomes <= allowed


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("name", FAR)
def test_wrong_maps_of_far_sizes_are_refuted(name: str, inverse: bool) -> None:
    root = program(name).root
    found = root.indexing_from(0) if inverse else root.indexing()
    access = found.answer.outputs[0].operands[0].accesses[0]
    assert access.map is not None
    prover = Prover()
    for change in (1, -1):
        m = access.map.with_(results=[e + change for e in access.map.results])
        wrong = (type(access)(m, access.precision),)
        check = prover.check(root.ir, 0, 0, 0, wrong, inverse=inverse)
        assert check.is_refuted, str(check)


@pytest.mark.parametrize("inverse", [False, True])
def test_maps_of_sizes_beyond_64_bits_are_compared(inverse: bool) -> None:
    type = f"s8[{1 << 64}]"
    root = parse_hlo(
        f"ENTRY e {{ p = {type} parameter(0) ROOT r = {type} reverse(p), dimensions={{0}} }}"
    ).entry.root
    accesses = (input_to_output if inverse else output_to_input)(root)[0]
    prover = Prover()
    assert prover.check(root, 0, 0, 0, accesses, inverse=inverse).outcome is Outcome.PROVED
    (access,) = accesses
    assert access.map is not None
    wrong = Access(access.map.with_(results=[access.map.results[0] + 1]), access.precision)
    assert prover.check(root, 0, 0, 0, (wrong,), inverse=inverse).is_refuted
