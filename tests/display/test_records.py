"""Answers as tables: one statement of rows and columns for all libraries."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hloscope as hs

EXAMPLES = Path(__file__).parents[2] / "examples"
ANSWERS: dict[str, Callable[[], Any]] = {
    "cost": lambda: hs.read(EXAMPLES / "training_step.hlo").cost(),
    "memory": lambda: hs.read(EXAMPLES / "layers.hlo").memory(),
    "indexing": lambda: hs.read(EXAMPLES / "softmax.hlo").root.indexing(),
    "coalescing": lambda: hs.read(EXAMPLES / "training_step.hlo")["residual_fusion"].coalescing(),
    "tile costs": lambda: hs.read(EXAMPLES / "split_heads.hlo").root.tiles().costs(),
}
PYTHON = {"string": str, "int64": int, "double": float, "bool": bool}


@pytest.fixture(params=ANSWERS)
def answer(request: pytest.FixtureRequest) -> Any:
    return ANSWERS[request.param]()


def test_records_have_the_columns_and_types_that_are_stated(answer: Any) -> None:
    rows = [*answer.records()]
    assert rows
    filled = {name for row in rows for name in answer.columns if row.get(name) is not None}
    for row in rows:
        for name in filled & row.keys():
            value = row[name]
            assert value is None or type(value) is PYTHON[answer.columns[name]], name
    # Only these have no value in the examples.
    assert answer.columns.keys() - filled <= {"op_name", "source", "spoiler", "unused_bytes"}


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_every_library_gets_the_same_rows(answer: Any, library: str) -> None:
    pandas = pytest.importorskip(library, reason=f"{library} is not installed")
    expected = [{name: row.get(name) for name in answer.columns} for row in answer.records()]
    if library == "pandas":
        frame = answer.to_pandas()
        got = [
            {k: None if v is pandas.NA else v for k, v in row.items()}
            for row in frame.astype(object).to_dict("records")
        ]
    else:
        got = (
            answer.to_arrow().to_pylist() if library == "pyarrow" else answer.to_polars().to_dicts()
        )
    assert got == expected


def test_types_do_not_depend_on_values() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    empty = hs.read("ENTRY e { ROOT p = f32[8] parameter(0) }").cost().to_arrow()
    some = ANSWERS["cost"]().to_arrow()
    assert empty.num_rows == 0
    assert empty.schema == some.schema
    assert str(some.schema.field("unused_bytes").type) == "int64"


def test_a_number_past_64_bits_is_refused() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    answer = ANSWERS["tile costs"]()
    answer.records = lambda: [{"d0": 1 << 70}]
    with pytest.raises(hs.UnsupportedError, match="does not fit into 64 bits"):
        answer.to_arrow()


@pytest.mark.parametrize("method", ["to_pandas", "to_arrow", "to_polars"])
def test_without_the_library_the_message_says_what_to_install(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("hloscope.support.system.import_module", missing)
    with pytest.raises(hs.InputError, match=re.escape("pip install 'hloscope[tables]'")):
        getattr(ANSWERS["cost"](), method)()
