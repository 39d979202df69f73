"""HLO modules: what is refused and where, that real dumps are accepted, that faults are found."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.stablehlo import parse_stablehlo
from hloscope.verifier.hlo import verify_hlo
from hloscope.verifier.hlo.types import check_attributes
from tests.conftest import SHARED
from tests.hlo_parser.compare import corpus
from tests.oracle import Child
from tests.verifier.faults import faults

SUM = "s { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"

REFUSED = [
    ("ENTRY e { a = f32[2] parameter(0) ROOT b = f32[3] abs(a) }", "`abs` is declared f32[3]"),
    ("ENTRY e { a = f32[2] parameter(0) ROOT b = s32[2] negate(a) }", "make it f32[2]"),
    (
        "ENTRY e { a = f32[1] parameter(0) ROOT b = f32[3] broadcast(a), dimensions={0} }",
        "dimension 0 of the operand has size 1, dimension 0 of the result 3",
    ),
    (
        "ENTRY e { a = f32[4]{0} parameter(0) ROOT b = s32[3]{0} bitcast(a) }",
        "the operand has 128 bits, the result 96",
    ),
    ("ENTRY e { ROOT a = s32[2] constant({1, 2, 3}) }", "`constant`: "),
    ("ENTRY e { ROOT a = s32[2] iota(), iota_dimension=1 }", "dimension 1 is not in [0, 1)"),
    ("ENTRY e { ROOT a = f32[2,3]{1,1} parameter(0) }", "permutation"),
    (
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { a = bf16[2] parameter(0) ROOT c = f32[2] fusion(a), kind=kLoop, calls=f }",
        "`fusion` gives f bf16[2] as parameter 0, it takes f32[2]",
    ),
    (
        "ENTRY e { a = bf16[2] parameter(0) ROOT t = (f32[2]) tuple(a) }",
        "`tuple` is declared (f32[2]), but its operands make it (bf16[2])",
    ),
    (
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { a = f32[3] parameter(0) ROOT c = f32[2] fusion(a), kind=kLoop, calls=f }",
        "`fusion` gives f f32[3] as parameter 0, it takes f32[2]",
    ),
    (
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT c = f32[3] call(a), to_apply=f }",
        "f returns f32[2], `call` needs f32[3]",
    ),
    (
        "f { a = f32[4,3] parameter(0) ROOT b = f32[4,3]{0,1} copy(a) }\n"
        "ENTRY e { a = f32[4,3] parameter(0) ROOT c = f32[3,4]{0,1} call(a), to_apply=f }",
        "f returns f32[4,3], `call` needs f32[3,4]",
    ),
    (
        "ENTRY e { a = f32[<=4,3] parameter(0) ROOT b = f32[<=3,3] copy(a) }",
        "`copy` is declared f32[<=3,3], but its operands make it f32[<=4,3]",
    ),
    (
        "ENTRY e { a = (f32[<=4], token[]) parameter(0)\n"
        " ROOT b = (f32[<=3], token[]) opt-barrier(a) }",
        "`opt-barrier` is declared (f32[<=3], token[]), but",
    ),
    (
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT c = f32[2] call(a, a), to_apply=f }",
        "`call` gives f 2 operands, it takes 1",
    ),
    (
        "c { a = s32[] parameter(0) ROOT b = s32[] negate(a) }\n"
        "b { a = s32[] parameter(0) ROOT b = s32[] negate(a) }\n"
        "ENTRY e { a = s32[] parameter(0) ROOT w = s32[] while(a), condition=c, body=b }",
        "c returns s32[], `while` needs pred[]",
    ),
    (
        "t { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { p = pred[] parameter(0) a = f32[2] parameter(1) b = f32[3] parameter(2)\n"
        " ROOT c = f32[2] conditional(p, a, b), true_computation=t, false_computation=f }",
        "`conditional` gives f f32[3] as parameter 0",
    ),
    (
        SUM + "ENTRY e { a = f32[4] parameter(0) ROOT r = f32[4] all-reduce(a),"
        " replica_groups={{0,1},{1,2}}, to_apply=s }",
        "device 1 is among the replica groups twice",
    ),
    (
        "HloModule m, num_partitions=2\n" + SUM + "ENTRY e { a = f32[4] parameter(0) ROOT r ="
        " f32[4] all-reduce(a), replica_groups={{0,2}}, to_apply=s }",
        "the replica groups name device 2, there are 2",
    ),
    (
        "ENTRY e { a = f32[4] parameter(0)\n"
        " ROOT p = f32[4] collective-permute(a), source_target_pairs={{0,1},{0,2}} }",
        "device 0 is among the sources twice",
    ),
    (
        "ENTRY e { a = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(a)\n"
        " ROOT d = f32[5] copy-done(s) }",
        "`copy-done` is declared f32[5]",
    ),
    (
        "ENTRY e { a = f32[4] parameter(0) b = f32[4] abs(a) ROOT d = f32[4] copy-done(b) }",
        "the operand of `copy-done` is `abs`, needs `copy-start`",
    ),
    (
        "ENTRY e { a = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(a)\n"
        " d = f32[4] copy-done(s) f = f32[4] copy-done(s) ROOT t = f32[4] add(d, f) }",
        "`s` is ended 2 times, by d, f",
    ),
    (
        "HloModule m, entry_computation_layout={(f32[3]{0})->f32[2]{0}}\n"
        "ENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }",
        "parameter 0 of the entry is f32[2], entry_computation_layout says f32[3]",
    ),
    (
        "f { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }\n"
        "ENTRY e { a = f32[2] parameter(0) b = f32[2] fusion(a), kind=kLoop, calls=f\n"
        " ROOT c = f32[2] fusion(b), kind=kLoop, calls=f }",
        "f is fused twice, by b and c",
    ),
    (
        "ENTRY e { a = f32[4] parameter(0) ROOT s = f32[2] slice(a), slice={[2:5]} }",
        "limit",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_wrong_modules_are_refused(text: str, message: str) -> None:
    try:
        found = [d.message for d in verify_hlo(parse_hlo(text, strict=True))]
    except HloscopeError as error:
        found = [error.message]
    assert any(message in m for m in found), found


ACCEPTED = [
    "ENTRY e { a = bf16[2,3] parameter(0) b = bf16[3,4] parameter(1)\n"
    " ROOT d = f32[2,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "ENTRY e { a = f32[2] parameter(0) b = bf16[2] parameter(1) ROOT t = (f32[2], bf16[2])"
    " tuple(a, b) }",
    SUM + "ENTRY e { a = f32[4,2] parameter(0) z = f32[] constant(0)\n"
    " ROOT r = f32[2] reduce(a, z), dimensions={0}, to_apply=s }",
    "ENTRY e { a = f32[4] parameter(0) s = (f32[4], f32[4], u32[]) copy-start(a)\n"
    " ROOT d = f32[4] copy-done(s) }",
    "HloModule m, entry_computation_layout={(f32[2]{0}, /*index=1*/s32[])->(f32[2]{0}, s32[])}\n"
    "ENTRY e { a = f32[2] parameter(0) b = s32[] parameter(1) ROOT t = (f32[2], s32[])"
    " tuple(a, b) }",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_right_modules_are_accepted(text: str) -> None:
    assert verify_hlo(parse_hlo(text, strict=True)) == []


def test_all_findings_are_reported_in_order() -> None:
    text = "ENTRY e {\n a = f32[2] parameter(0)\n b = f32[3] abs(a)\n ROOT c = f32[4] abs(b)\n}"
    found = verify_hlo(parse_hlo(text))
    assert [d.span.line_col[0] for d in found if d.span] == [3, 4]


INCONSISTENT = {
    "inline/simplifiers__algebraic_simplifier_test_9820.hlo": "a gather whose index vectors name a"
    " batching dimension, which StableHLO refuses: what it reads is not defined",
    "hlo_files:37": "a fusion gives s32[1024] to a parameter s32[]",
    "files/tools__print_indexing_test.hlo": "the same module",
    "files/hlo__tools__tests__generate_hlo_test_checks_test_input.part4.hlo": "f32[4] for f32[]",
    "files/hlo__tools__tests__generate_hlo_test_checks_test_output.part4.hlo": "f32[4] for f32[]",
    "files/hlo__builder__tests__math_next_after.part1.hlo": "its header says f8e5m2 of a fnuz",
    "files/hlo__translate__hlo_to_mhlo__tests__layouts_and_names.part1.hlo": "its header says f32"
    " of an f16",
    "files/hlo__translate__hlo_to_mhlo__tests__while.part4.hlo": "a broadcast stretches size 1",
    "files/hlo__translate__hlo_to_mhlo__tests__while.whole.hlo": "a broadcast stretches size 1",
    "files/hlo__translate__hlo_to_mhlo__tests__import.hlo": "window 3 for a kernel of 2, a map that"
    " returns a tuple, an initial value of rank 1",
    "files/hlo__translate__hlo_to_mhlo__tests__import_async.part1.hlo": "a start of an array",
    "files/hlo__translate__hlo_to_mhlo__tests__import_async.part3.hlo": "a start of an array",
    "files/hlo__translate__hlo_to_mhlo__tests__import_async.part14.hlo": "recv, recv-done differ",
    "files/hlo__transforms__tests__operand_upcaster.hlo": "a dot without contraction is f32[8]",
    "files/hlo__transforms__tests__rewrite_bf16_conv_to_onednn.part1.hlo": "convolution sizes",
    "files/tools__tests__data__invalid_concat.hlo": "written to be invalid",
    "inline/analysis__hlo_liveness_analysis_test_0410.hlo": "an outfeed returns a tuple",
    "inline/analysis__hlo_liveness_analysis_test_0443.hlo": "an outfeed returns a tuple",
    "inline/parser__hlo_parser_test_5255.hlo": "a loop whose parts do not fit, to test the syntax",
    "inline/parser__hlo_parser_test_7272.hlo": "a dot without contraction is f32[128,128]",
    "inline/simplifiers__hlo_memory_scheduler_test_0255.hlo": "a send without its context",
    "inline/ir__hlo_instruction_test_0750.hlo": "an async computation returns a tuple",
    "inline/utils__hlo_query_test_0105.hlo": "calls with 3 of 4 operands",
    "inline/expanders__stochastic_convert_decomposer_test_0085.hlo": "written to be wrong",
    "inline/tests__fusion_emitter_deviceless_test_0350.hlo": "an `and` of f32",
    "inline/triton__support_test_1927.hlo": "c128 of two f32",
    "inline/triton__support_test_3375.hlo": "random bits that are floats",
    "inline/triton__support_test_3108.hlo": "an inverse fft of real numbers",
    "inline/tests__fusion_emitter_device_test_1790.hlo": "a bitcast to fewer bits",
    "inline/parser__hlo_parser_test_1144.hlo": "an async computation of two ops",
    "inline/parser__hlo_parser_test_6361.hlo": "an async computation of two ops",
    "inline/analysis__alias_info_test_0248.hlo": "an async computation of two ops",
    "inline/parser__hlo_parser_test_5580.hlo": "a start without a done, to test the syntax",
    "inline/parser__hlo_parser_test_7592.hlo": "a start without a done, to test the syntax",
    "inline/parser__hlo_parser_test_7648.hlo": "a start without a done, to test the syntax",
    "inline/ir__hlo_instruction_utils_test_0172.hlo": "a start without a done",
    "inline/ir__hlo_instruction_utils_test_0410.hlo": "a start without a done",
    "inline/collectives__async_collective_replacer_test_0472.hlo": "a custom call ends a start",
    "inline/codegen__ir_emission_utils_test_0247.hlo": "an alias of another size",
}
"""Texts of XLA's tests that XLA reads but that break its own rules: these are refused."""

EVERY = 6


def test_the_corpus_is_accepted(shared: Path, full: bool) -> None:
    refused: dict[str, str] = {}
    checked = 0
    for number, (name, text) in enumerate(corpus(shared)):
        if name not in INCONSISTENT and not full and (number % EVERY or len(text) > 500_000):
            continue
        checked += 1
        found = verify_hlo(parse_hlo(text, name=name))
        if found:
            refused[name] = str(found[0])
    assert checked > 500
    assert {n: v for n, v in refused.items() if n not in INCONSISTENT} == {}
    assert refused.keys() == INCONSISTENT.keys()


class Xla(Child):
    """XLA in a child process, started again when it dies of a text."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("xla_child.py")
        super().__init__(sys.executable, "-W", "ignore", str(script), str(SHARED / "oracle"))

    def verdict(self, text: str) -> str:
        """`accepts`, `refuses` or `dies`."""
        return self.ask(text, lambda line: line in ("accepts", "refuses")) or "dies"


def planted(shared: Path, count: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield kind, name, line and text of single faults in real dumps."""
    models = shared / "real" / "models"
    paths = sorted([*models.glob("*.hlo.txt"), *models.glob("*.opt.hlo.txt")])
    paths = [p for p in paths if ".gpu." not in p.name and p.stat().st_size < 200_000]
    each = -(-count // len(paths))
    for seed, path in enumerate(paths):
        for fault in islice(faults(path.read_text(), seed), each):
            yield fault.kind, path.name, fault.line, fault.text


def refused(text: str) -> bool:
    try:
        return bool(verify_hlo(parse_hlo(text, strict=True)))
    except HloscopeError:
        return True


@pytest.mark.slow
def test_planted_faults_are_refused(shared: Path, full: bool) -> None:
    """Of single faults in real dumps, nearly all are found; some change nothing that is checked."""
    verdicts = Counter(refused(text) for _, _, _, text in planted(shared, 600 if full else 130))
    assert verdicts[True] >= 0.95 * verdicts.total()


@pytest.mark.skipif(importlib.util.find_spec("jaxlib") is None, reason="needs jaxlib")
def test_what_xla_refuses_is_refused(shared: Path, full: bool) -> None:
    xla = Xla()
    missed, both = [], 0
    for kind, name, line, text in planted(shared, 400 if full else 130):
        if xla.verdict(text) == "refuses":
            both += 1
            if not refused(text):
                missed.append((kind, name, line))
    xla.close()
    assert both >= (80 if full else 20)
    assert len(missed) <= 0.05 * both, missed


BEGUN = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}
body {{ p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), replica_groups={{{{0,1}}}}, to_apply=add }}
ENTRY e {{
  p = f32[2] parameter(0)
  start = ((f32[2]), f32[2], u32[]) async-start(p), calls=body
  ROOT done = {result} async-done(start)
}}
"""  # noqa: E501


def test_instructions_that_were_not_read_from_hlo_have_their_attributes_checked() -> None:
    text = "func.func @main(%a: tensor<f32>) -> tensor<f32> { %0 = stablehlo.abs %a {ATTRIBUTES}"
    for attribute, count in (("", 0), ("mine = 1 : i32", 1)):
        function = f"{text.replace('ATTRIBUTES', attribute)} : tensor<f32>\n"
        module = parse_stablehlo(f"{function} return %0 : tensor<f32> }}")
        (value,) = module.entry.root.operands
        assert len([*check_attributes(value)]) == count


def test_a_begun_computation_has_a_place_for_its_result_whatever_its_root_is() -> None:
    assert not verify_hlo(parse_hlo(BEGUN.format(result="f32[2]")))
    assert verify_hlo(parse_hlo(BEGUN.format(result="f32[3]")))


@pytest.mark.parametrize("ids", ["", ", channel_id=1, use_global_device_ids=true"])
def test_groups_tell_how_much_is_gathered(ids: str) -> None:
    """With a channel and without global ids they list replicas only, of all partitions."""

    def fits(size: int, more: str) -> bool:
        groups = "replica_groups={{0,1},{2,3}}, dimensions={0}"
        return not verify_hlo(
            parse_hlo(
                "HloModule m, replica_count=4, num_partitions=2\n"
                f"ENTRY e {{ a = f32[2] parameter(0) "
                f"ROOT b = f32[{size}] all-gather(a), {groups}{more} }}"
            )
        )

    assert fits(4, ids)
    assert not fits(6, ids)
    assert fits(8, ", channel_id=1")
