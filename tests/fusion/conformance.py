"""The cases of XLA's indexing tests: questions to this package, answers as lists of accesses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from hloscope.fusion.analysis import Analysis, physical
from hloscope.fusion.region import Region, epilogue, grouped
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, Accesses, IndexingMap
from hloscope.ir.graph import Computation, Instruction, Module
from hloscope.ops.shape import Constant
from tests.conftest import SHARED

KINDS = (
    "output_to_input", "input_to_output", "grouped_by_producers", "grouped_output_to_input",
    "epilogue_input_to_output", "docs_example", "print_indexing",
)  # fmt: skip


class Pair(NamedTuple):
    """What XLA expects for one operand (or output, or instruction) and what we answer."""

    where: str
    expected: list[dict[str, Any]]
    found: Accesses
    computation: Computation


@lru_cache
def load() -> list[dict[str, Any]]:
    cases = []
    for name in ("indexing_analysis_test", "docs_indexing", "hlo_files"):
        path = SHARED / "conformance/xla" / f"{name}.json"
        if path.exists():
            cases += json.loads(path.read_text())["cases"]
    return [case for case in cases if case["kind"] in KINDS and case.get("hlo")]


def ask(case: dict[str, Any]) -> Iterator[Pair]:
    """Every expected list of maps of a case, beside our answer."""
    module = parse_hlo(case["hlo"], name=case["id"])
    yield from globals()[f"_{case['kind']}"](case, module, Analysis(convention="xla"))


def _inside(ins: Instruction, module: Module) -> Computation:
    return ins.calls[0] if ins.op.name == "fusion" else module.entry


def _output_to_input(case: dict[str, Any], module: Module, analysis: Analysis) -> Iterator[Pair]:
    root, query = module.entry.root, case["query"]
    output = query["output_id"]
    found = analysis.output_to_input(root, output)
    expected = case["expected"].get("operands")
    if expected is None:  # the documentation shows one operand
        expected = {query["operand"]: [case["expected"]]}
    for k, maps in dict(expected if isinstance(expected, dict) else enumerate(expected)).items():
        mine = tuple([a for (place, _), some in found.items() if place == k for a in some])
        if query.get("physical_layout"):
            here = analysis.tensors(root.type)[output]
            mine = physical(mine, here, root.operands[k].type)
        yield Pair(f"operand {k}", maps, mine, _inside(root, module))


def _input_to_output(case: dict[str, Any], module: Module, analysis: Analysis) -> Iterator[Pair]:
    root, query = module.entry.root, case["query"]
    k = query["input_id"]
    found = analysis.input_to_output(root, k)
    expected = case["expected"].get("operands")
    if expected is None:
        if "map" not in case["expected"]:
            return
        expected = [[case["expected"]]]
    for output, maps in enumerate(expected):
        mine = found.get(output, ())
        if query.get("physical_layout"):
            mine = physical(mine, root.operands[k].type, analysis.tensors(root.type)[output])
        yield Pair(f"output {output}", maps, mine, _inside(root, module))


def _docs_example(case: dict[str, Any], module: Module, analysis: Analysis) -> Iterator[Pair]:
    ask_it = globals()[f"_{case['query']['direction']}"]
    yield from ask_it(case, module, analysis)


def _print_indexing(case: dict[str, Any], module: Module, analysis: Analysis) -> Iterator[Pair]:
    root = module.entry.root
    for line in case["expected"]:
        found = analysis.output_to_input(root, line["output_id"])
        mine = found.get((line["operand_id"], 0), ())
        where = f"output {line['output_id']} operand {line['operand_id']}"
        yield Pair(where, [line], mine, _inside(root, module))


def _grouped_by_producers(
    case: dict[str, Any], module: Module, analysis: Analysis
) -> Iterator[Pair]:
    root = module.entry.root
    found = grouped(analysis, Region.of_instruction(root))
    yield from _groups(case, module, {i: leaves[0] for i, leaves in found.items() if i is not root})


def _grouped_output_to_input(
    case: dict[str, Any], module: Module, analysis: Analysis
) -> Iterator[Pair]:
    query = case["query"]
    kind, arguments = re.match(r"(\w+)\((.*)\)$", query["fusion_adaptor"]).groups()  # type: ignore[union-attr]
    nodes = [_resolve(path, module) for path in arguments.split(", ")]
    make = {
        "ForInstruction": Region.of_instruction,
        "ForProducerConsumer": Region.of_producer_consumer,
    }[kind]
    region = make(*nodes)
    found = grouped(analysis, region, _resolve(query["target"], module))
    yield from _groups(case, module, {i: leaves[0] for i, leaves in found.items()})


def _groups(
    case: dict[str, Any], module: Module, found: Mapping[Instruction, Accesses]
) -> Iterator[Pair]:
    groups = case["expected"]["groups"]
    for path, maps in groups.items():
        yield Pair(path, maps, found.get(_resolve(path, module), ()), module.entry)
    if case["expected"]["complete"]:
        named = {_resolve(path, module) for path in groups}
        for ins in found:
            is_twin = ins.op.name == "parameter" or ins.op.name == "fusion"
            assert ins in named or is_twin, f"{ins} is not expected"


def _resolve(path: str, module: Module) -> Instruction:
    """An instruction by path: `root`, `fusion_root`, `entry:name`, then `.operand(k)` …"""
    base, *steps = path.split(".operand(")
    root = module.entry.root
    if base == "root":
        ins = root
    elif base == "fusion_root":
        ins = root.calls[0].root if root.op.name == "fusion" else root
    else:
        ins = module.entry[base.removeprefix("entry:")]
    for step in steps:
        ins = ins.operands[int(step.rstrip(")"))]
    return ins


def _epilogue_input_to_output(
    case: dict[str, Any], module: Module, analysis: Analysis
) -> Iterator[Pair]:
    query = case["query"]
    computation = module.computations[query["fusion_computation"]]
    parent, root = (computation[query[k]] for k in ("epilogue_parent", "epilogue_root"))
    yield Pair("", [case["expected"]], epilogue(analysis, computation, parent, root), computation)


def expected_maps(pair: Pair) -> list[Access]:
    """What XLA expects, with the origins of runtime variables looked up."""
    accesses = []
    for entry in pair.expected:
        if entry.get("known_empty"):
            continue
        map = IndexingMap.parse(entry["map"])
        replica = entry.get("replica_id_map")
        described = entry.get("runtime_variables", [])
        if described:
            runtime = [
                replace(
                    v,
                    origin=origin_of(row["origin"], pair.computation),
                    index=IndexingMap.parse(row["map"]).results,
                )
                for v, row in zip(map.runtime, described, strict=True)
            ]
            map = map.with_(runtime=runtime)
        accesses.append(Access(map, replica=IndexingMap.parse(replica) if replica else None))
    return accesses


def origin_of(text: str, computation: Computation) -> Instruction:
    """The instruction that XLA prints without its name, or by its name."""
    if found := re.match(r"parameter\((\d+)\)", text):
        return computation.parameters[int(found.group(1))]
    if found := re.match(r"constant\((.*)\)", text):
        return next(
            i
            for i in computation
            if isinstance(i.op, Constant) and str(i.op.literal) == found.group(1)
        )
    return computation[text]


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text.replace("floordiv", "/"))
