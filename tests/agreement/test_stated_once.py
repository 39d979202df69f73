"""What is declared of an op stands in its row; other tables follow from it, or agree with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import hloscope
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.stablehlo.vhlo.tables import OPS as VHLO
from hloscope.stablehlo.vhlo.versions import Version, version_of

PACKAGE: Final = Path(hloscope.__file__).parent
DECLARED: Final = {
    "hlo_parser/opcodes.py": "HLO's own names of attributes, and which fields they fill",
    "stablehlo/vhlo/tables.py": "history: what each released version of an op had",
    "stablehlo/vhlo/versions.py": "history: what a version added",
}
"""Tables that name attributes of ops, and why that is another fact."""


TABLE: Final = re.compile(r'^\w+(?:: Final)? = """(.*?)"""', re.DOTALL | re.MULTILINE)


def restated(path: Path) -> list[str]:
    """Rows of tables in a file that begin with an op's name and name several of its attributes."""
    found = []
    for text in TABLE.findall(path.read_text()):
        for row in text.replace("\n        ", " ").splitlines():
            words = re.findall(r"[\w-]+", row)
            for dialect in ("stablehlo", "chlo"):
                known = DEFINITIONS.get(f"{dialect}.{words[0]}") if words else None
                names = {slot.name for slot in known.attributes} if known else set()
                if len(names & {*words[1:]}) > 1:
                    found.append(row.strip())
    return found


def test_no_other_table_states_the_attributes_of_an_op() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file != "mlir/dialects/stablehlo.py" and file not in DECLARED:
            assert restated(path) == [], file


def test_a_row_that_is_stated_again_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text('ROWS = """\n    pad | edge_padding_low\n        interior_padding\n"""\n')
    assert len(restated(path)) == 1


def test_each_attribute_of_a_row_is_one_field() -> None:
    for name, definition in DEFINITIONS.items():
        fields = [slot.field for slot in definition.attributes]
        assert len(fields) == len({*fields}), name


def test_the_version_that_brought_an_op_is_the_first_of_its_history() -> None:
    first: dict[str, Version] = {}
    for row in VHLO.values():
        base = row.name.rpartition("_v")[0]
        first[base] = min(row.first, first.get(base, row.first))
    for name, definition in DEFINITIONS.items():
        dialect, _, short = name.partition(".")
        if dialect == "stablehlo" and short in first:
            assert version_of(definition.since) == first[short], name
