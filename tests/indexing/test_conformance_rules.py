"""Single instructions against XLA's own tests and the examples of its indexing document.

Every answer is XLA's text, but for the cases below, each with its reason; where XLA is exact and
the text differs, the relation is proved equal.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Accesses, IndexingMap
from hloscope.indexing.analysis import input_to_output, output_to_input, physical
from hloscope.indexing.rules.registry import Direction
from hloscope.ops.control import Parameter
from tests.conftest import SHARED, needs_shared

FOLDER = SHARED / "conformance" / "xla"
FILES = ("indexing_analysis_test.json", "docs_indexing.json")

_PADDING = "the padding value is read by padded elements only"
_SCAN = "an element of a scan depends on all earlier ones"
_SOLVE = "XLA has no rule"
_UPDATE = "the operand is read outside the update only, the update inside only"
_START = "a start that is clamped to [0, 0] is not read"
_ORDER = "written by hand in the document, with summands in another order"
EXPLAINED = {
    "indexing_analysis_test::ScanOp::0": _SCAN,
    "indexing_analysis_test::ScanOp::1": _SCAN,
    "indexing_analysis_test::PadOp::0": _PADDING,
    "indexing_analysis_test::PadOpNoInterior::0": _PADDING,
    "indexing_analysis_test::PadOpNegativePadding::0": _PADDING,
    "docs_indexing::Pad::1": _PADDING,
    "indexing_analysis_test::ConvolutionOp_BatchGroups::0": "the output feature tells the group",
    "indexing_analysis_test::UnsupportedOps::0": _SOLVE,
    "indexing_analysis_test::UnsupportedOps::1": _SOLVE,
    "indexing_analysis_test::UnsupportedOps::2": _SOLVE,
    "indexing_analysis_test::DynamicSliceOp::0": _START,
    "docs_indexing::DynamicUpdateSlice::0": _UPDATE,
    "docs_indexing::DynamicUpdateSlice::1": _UPDATE,
    "docs_indexing::Dot::3": "a slip of the document: d1 for d2",
    "docs_indexing::Example 1: Linearization-delinearization.::0": _ORDER,
    "docs_indexing::Example 1: Linearization-delinearization.::1": _ORDER,
}


def _cases() -> list[Any]:
    if not FOLDER.is_dir():
        return []
    found = []
    for file in FILES:
        for case in json.loads((FOLDER / file).read_text())["cases"]:
            query = case.get("query") or {}
            entry = case.get("hlo", "").partition("ENTRY")[2]
            if query.get("direction") in list(Direction) and " fusion(" not in entry:
                found.append(pytest.param(case, id=case["id"]))
    return found


CASES = _cases()


def ask(case: dict[str, Any]) -> tuple[Accesses, ...]:
    query = case["query"]
    root = parse_hlo(case["hlo"]).entry.root
    direction = Direction(query["direction"])
    if direction is Direction.OUTPUT_TO_INPUT:
        number = query.get("output_id", 0)
        answer = output_to_input(
            root, number, tight=False
        )  # kernels of convolutions as XLA has them
    else:
        number = query.get("input_id", 0)
        answer = input_to_output(root, number, tight=False)
    if query.get("physical_layout"):
        answer = physical(answer, root, direction, number)
    if "operands" in case["expected"]:
        return answer
    return (answer[query.get("operand", 0) if "operand" in query else query.get("output_id", 0)],)


def expected(case: dict[str, Any]) -> list[list[str]]:
    operands = case["expected"].get("operands", [[case["expected"]]])
    return [[text_of(m) for m in maps] for maps in operands]


def text_of(entry: dict[str, Any]) -> str:
    if entry.get("unknown"):
        return "unknown"
    return "KNOWN EMPTY" if entry.get("known_empty") else str(entry["map"])


def without_space(text: str) -> str:
    return re.sub(r"\s+", "", text.replace("floordiv", "/"))


def same_text(case: dict[str, Any], answer: tuple[Accesses, ...]) -> bool:
    got = [
        sorted("unknown" if a.map is None else without_space(str(a.map)) for a in x) for x in answer
    ]
    return got == [sorted(map(without_space, maps)) for maps in expected(case)]


@needs_shared
@pytest.mark.parametrize("case", CASES)
def test_maps_are_those_of_xla(case: dict[str, Any]) -> None:
    answer = ask(case)
    assert same_text(case, answer) != (case["id"] in EXPLAINED)
    if EXPLAINED.get(case["id"], _START) != _START and case.get("xla_exact"):
        for accesses, texts in zip(answer, expected(case), strict=True):
            (access,), (text,) = accesses, texts
            assert access.map is not None
            assert access.map.equals(IndexingMap.parse(text))


@needs_shared
def test_runtime_variables_are_read_where_xla_reads_them() -> None:
    checked = 0
    for case in (param.values[0] for param in CASES):
        for accesses, entries in zip(ask(case), case["expected"].get("operands", ()), strict=False):
            for access, entry in zip(accesses, entries, strict=False):
                for variable, known in zip(
                    access.map.runtime if access.map else (),
                    entry.get("runtime_variables", ()),
                    strict=False,
                ):
                    index = re.search(r"-> \((.*?)\)(, domain|$)", known["map"])
                    assert index is not None
                    assert ", ".join(map(str, variable.index)) == index[1]
                    assert variable.origin is not None
                    assert isinstance(variable.origin.op, Parameter)
                    assert f"parameter({variable.origin.op.number})" == known["origin"]
                    checked += 1
    assert checked >= 7
