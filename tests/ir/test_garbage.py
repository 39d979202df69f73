"""Programs read one after another do not stay in memory, and reading does not look for garbage."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import hloscope
from hloscope.ir import garbage

MLIR = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


def test_programs_that_nobody_holds_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "MANY", 8000)  # each search takes all objects of the tests
    unseen = garbage._Unseen()
    monkeypatch.setattr(garbage, "_UNSEEN", unseen)
    gc.collect()
    for _ in range(300):
        list(hloscope.read(MLIR))
        unseen._kept = 0  # as if there was nothing else in this process
    assert gc.collect() < 4000  # each leaves more than 40


def test_one_program_is_read_without_a_search_for_garbage() -> None:
    lines = [f"v{k} = f32[2] add(p, p)" for k in range(20_000)]
    text = "ENTRY e { p = f32[2] parameter(0) " + "\n".join(lines) + "ROOT r = f32[2] add(p, p) }"
    gc.collect()
    with garbage.no_collection():
        pass
    searched: list[Any] = []
    gc.callbacks.append(lambda phase, info: searched.append(info["generation"]))
    try:
        assert len(list(hloscope.read(text))) == len(["p", *lines, "r"])
    finally:
        gc.callbacks.pop()
    assert 2 not in searched


def test_what_thousands_of_operands_are_read_for_is_answered_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "_UNSEEN", garbage._Unseen())  # others may have left much
    count = 2000
    handed = "\n".join([f"p{k} = f32[2] parameter({k})" for k in range(count)])
    names = ", ".join([f"p{k}" for k in range(count)])
    joined = f"ROOT r = f32[{2 * count}] concatenate({names}), dimensions={{0}}"
    root = hloscope.read(f"ENTRY e {{ {handed} {joined} }}").root
    searched: list[Any] = []
    gc.callbacks.append(lambda phase, info: searched.append(phase))
    try:
        assert str(root.indexing()).count("operand ") == count
    finally:
        gc.callbacks.pop()
    assert not searched
