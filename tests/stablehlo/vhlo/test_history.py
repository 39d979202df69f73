"""The history of VHLO is only ever added to, and is that of StableHLO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hloscope.errors import UnknownNameError
from hloscope.stablehlo.vhlo import (
    ATTRIBUTES,
    FOREVER,
    OPS,
    RELEASES,
    TYPES,
    CodeRow,
    bytecode_version,
    target_of,
    version_of,
    version_text,
)
from hloscope.stablehlo.vhlo.versions import CHANGES

HISTORY = Path(__file__).parent / "history.txt"
"""Every row that there has ever been.  Lines are added to it and never changed."""


def rows() -> list[str]:
    found = [f"release {version_text(r.version)} bytecode {r.bytecode}" for r in RELEASES]
    for op in OPS.values():
        last = "" if op.last == FOREVER else version_text(op.last)
        parts = [" ".join(p) for p in (op.operands, op.attributes, op.results, op.regions)]
        found.append(f"op {op.name} {version_text(op.first)} {last} | {' | '.join(parts)}".strip())
    for kind, codes in (("attribute", ATTRIBUTES), ("type", TYPES)):
        found += [f"{kind} {code(row)}" for row in codes]
    for change in CHANGES.values():
        added = " ".join(f"{name}={value}" for name, value in change.added)
        found.append(f"change {change.base} {version_text(change.first)} {added}".strip())
    return [" ".join(row.split()) for row in found]


def code(row: CodeRow) -> str:
    fields = " ".join(f"{name}:{kind}" for name, kind in row.fields)
    return f"{row.code} {row.name} {version_text(row.since)} {fields}"


def test_rows_are_added_and_never_changed() -> None:
    now = set(rows())
    assert [line for line in HISTORY.read_text().splitlines() if line not in now] == []


def test_every_row_is_written_down() -> None:
    assert set(rows()) == set(HISTORY.read_text().splitlines())


def test_eras_of_an_op_follow_each_other_without_gap() -> None:
    versions = [release.version for release in RELEASES]
    for op in OPS.values():
        if op.last != FOREVER:
            base, _, number = op.name.rpartition("_v")
            following = OPS[f"{base}_v{int(number) + 1}"]
            assert versions.index(following.first) == versions.index(op.last) + 1
            assert CHANGES[base].first == following.first


def test_a_change_adds_what_the_new_op_has_besides() -> None:
    for base, change in CHANGES.items():
        old, new = OPS[f"{base}_v1"], OPS[f"{base}_v2"]
        added = {name for name, _ in change.added}
        assert set(new.attributes) == set(old.attributes) - {"padding"} | added or (
            change.condition != "padding_attribute"
            and set(new.attributes) == set(old.attributes) | added
        )


def test_targets_have_names() -> None:
    assert target_of("week_4", (1, 17, 0)) == "1.15.0"
    assert target_of("week_12", (1, 17, 0)) == "1.13.7"
    assert target_of("MAX") == target_of("min") == "0.9.0"
    assert target_of("none", (1, 18, 0)) == "1.18.0"
    assert target_of("01.16.0") == "01.16.0"
    assert bytecode_version((0, 9, 7)) == 0
    for wrong in ("0.8.0", "1.20.1", "99.0.0", "1.0", "latest", ""):
        with pytest.raises(UnknownNameError):
            target_of(wrong)


def reference(shared: Path, name: str) -> Any:
    return json.loads((shared / "reference" / name).read_text())


def test_ops_are_those_of_the_reference(shared: Path) -> None:
    found = reference(shared, "vhlo_versions.json")
    assert set(OPS) == set(found["ops"])
    for name, row in found["ops"].items():
        op = OPS[name]
        assert version_text(op.first) == row["min"]
        assert op.last == (FOREVER if row["max"] == "current" else version_of(row["max"]))
        assert list(op.attributes) == row["property_order"]
        for kind in ("operands", "results", "regions"):
            names = [one["name"] + "*" * one["variadic"] for one in row[kind]]
            assert list(getattr(op, kind)) == names
    history = [(row["version"], row["bytecode_version"]) for row in found["history"]]
    assert history == [(version_text(r.version), r.bytecode) for r in RELEASES]


def test_changes_are_those_of_the_reference(shared: Path) -> None:
    found = reference(shared, "vhlo_versions.json")["conversions"]
    ups = {row["from_op"]: row for row in found if row["direction"] == "upgrade"}
    assert set(ups) == {f"{base}_v1" for base in CHANGES}
    for base, change in CHANGES.items():
        row = ups[f"{base}_v1"]
        assert row["applies_when_target_at_least"] == version_text(change.first)
        assert set(row["add_attributes"]) == {name for name, _ in change.added}


def test_codes_are_those_of_the_reference(shared: Path) -> None:
    found = reference(shared, "vhlo_encoding.json")
    for key, rows in (("attributes", ATTRIBUTES), ("types", TYPES)):
        expected = [(row["code"], row["name"], row["min_version"]) for row in found[key]]
        assert expected == [(row.code, row.name, version_text(row.since)) for row in rows]
        for row, told in zip(rows, found[key], strict=True):
            names = [name for name, _ in row.fields]
            assert names == [f["name"] for f in told["fields"] if not f["name"].startswith("has_")]
