"""Every text of the corpus is printed back: the same graph, a fixpoint, the same module to XLA."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.printer import print_hlo
from tests.hlo_parser.compare import corpus, difference

EVERY = 7
"""Without `--full` every 7th text is tried, and none of the large ones."""

CHILD = Path(__file__).with_name("xla_child.py")

INLINE = "XLA names computations that are written inside an instruction `_`"
DIFFERENT_TO_XLA = {
    "tiled_hlo_test:29": "XLA calls a module of one instruction scheduled",
    "tiling_space_test:21": "XLA calls a module of one instruction scheduled",
    "inline/parser__hlo_parser_test_5255.hlo": "XLA calls a module of one instruction scheduled",
    "files/hlo__translate__hlo_to_mhlo__tests__import_async.part14.hlo": (
        "XLA takes the type of recv-done from recv, whatever is written"
    ),
    "inline/simplifiers__reshape_mover_test_0170.hlo": "XLA fills `{...}` with other numbers",
    "inline/parser__hlo_parser_test_3517.hlo": "XLA aborts when it prints the original",
    "inline/parser__hlo_parser_test_7487.hlo": INLINE,
    "inline/parser__hlo_parser_test_7592.hlo": INLINE,
    "inline/parser__hlo_parser_test_7648.hlo": INLINE,
    "inline/transforms__bfloat16_propagation_test_0448.hlo": INLINE,
    "inline/transforms__bfloat16_propagation_test_0494.hlo": INLINE,
    "inline/simplifiers__float_normalization_test_0237.hlo": INLINE,
    "inline/simplifiers__float_normalization_test_0270.hlo": INLINE,
    "inline/simplifiers__hlo_dce_test_0882.hlo": INLINE,
    "inline/simplifiers__hlo_dce_test_0916.hlo": INLINE,
    "inline/ir__hlo_instruction_test_0460.hlo": INLINE,
    "inline/ir__hlo_instruction_test_0497.hlo": INLINE,
}
"""Texts whose print XLA accepts, but sees differently."""


@pytest.fixture(scope="module")
def texts(shared: Path, full: bool) -> dict[str, str]:
    chosen = corpus(shared)
    if full:
        return dict(chosen)
    return {name: text for name, text in islice(chosen, 0, None, EVERY) if len(text) < 200_000}


@pytest.fixture(scope="module")
def prints(texts: dict[str, str]) -> dict[str, str]:
    return {name: print_hlo(parse_hlo(text, name=name)) for name, text in texts.items()}


def test_the_print_reads_back_as_the_same_graph(
    texts: dict[str, str], prints: dict[str, str]
) -> None:
    differences = {}
    for name, text in texts.items():
        module = parse_hlo(text, name=name, strict=True)
        again = parse_hlo(prints[name], name=name, strict=True)
        if found := difference(module, again):
            differences[name] = found
    assert len(texts) > 100
    assert differences == {}


def test_the_print_is_a_fixpoint(prints: dict[str, str]) -> None:
    changed = [name for name, text in prints.items() if print_hlo(parse_hlo(text)) != text]
    assert changed == []


def test_xla_sees_the_same_module(
    texts: dict[str, str], prints: dict[str, str], full: bool
) -> None:
    names = [name for name in texts if full or "{...}" not in texts[name]]  # slow to fill in
    verdicts = ask_xla("same", [(texts[name], prints[name]) for name in names])
    found = {name: verdict for name, verdict in zip(names, verdicts, strict=True)}
    other = {n: v for n, v in found.items() if v != "same" and n not in DIFFERENT_TO_XLA}
    assert other == {}
    excused = {name for name, verdict in found.items() if verdict != "same"}
    assert excused == DIFFERENT_TO_XLA.keys() & set(names)


LOSSY = {"large_constants.gpu.opt", "large_constants.opt.full", "large_constants"}
"""XLA reads `-0` as 0."""


@pytest.mark.parametrize("style", ["default", "short"])
def test_the_print_is_xlas_own_to_the_letter(style: str, shared: Path, full: bool) -> None:
    paths = sorted((shared / "real" / "models").glob("*.hlo.txt"))
    texts = [p.read_text() for p in (paths if full else paths[::9]) if p.name[:-8] not in LOSSY]
    texts = [text for text in texts if "{...}" not in text]
    answers = ask_xla("styles", [(text, "") for text in texts])
    assert len(answers) >= 15
    for text, answer in zip(texts, answers, strict=True):
        printed = print_hlo(parse_hlo(text), style=style, metadata=False)
        assert isinstance(answer, dict)
        assert in_order(printed) == in_order(answer[style])


def in_order(text: str) -> list[str]:
    """Sort computations: XLA changes their order when it reads them."""
    return sorted(text.split("\n\n"))


def ask_xla(question: str, pairs: list[tuple[str, str]]) -> list[Any]:
    """Return what XLA makes of each (original, print); a child that dies is started again."""
    if importlib.util.find_spec("jaxlib") is None:
        pytest.skip("needs jaxlib (the `oracle` extra)")
    verdicts: dict[int, Any] = {}
    while todo := [i for i in range(len(pairs)) if i not in verdicts]:
        lines = "".join(json.dumps([i, *pairs[i]]) + "\n" for i in todo)
        child = subprocess.run(
            [sys.executable, str(CHILD), question],
            input=lines,
            capture_output=True,
            text=True,
            check=False,
        )
        started = None
        for line in child.stdout.splitlines():
            number, _, verdict = line.partition(" ")
            if verdict == "started":
                started = int(number)
            else:
                verdicts[int(number)] = json.loads(verdict)
                started = None
        if started is None and child.returncode:
            raise AssertionError(child.stderr[-2000:])
        if started is not None:
            verdicts[started] = "aborted"
    return [verdicts[i] for i in range(len(pairs))]
