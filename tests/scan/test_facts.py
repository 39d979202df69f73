"""What is said of a kernel follows from its structure, whichever program it is in."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope.api.facts import Facts
from hloscope.scan import Digests, Store, encoded

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.hlo"), *(ROOT / "examples").glob("*.mlir")])


def value(random: random.Random, depth: int = 3) -> object:
    """Nested tuples of small things, of which many are nearly equal."""
    if depth and random.random() < 0.6:
        return tuple(value(random, depth - 1) for _ in range(random.randrange(4)))
    return random.choice([None, True, False, 0, 1, 10, "", "a", "1", "a1", b"", b"a", b"1"])


def test_values_are_equal_as_bytes_if_they_are_equal() -> None:
    draw = random.Random(5)
    values = [value(draw) for _ in range(3000)]
    forms = {encoded(one): repr(one) for one in values}
    assert len(forms) == len(set(map(repr, values))) > 500
    assert all(forms[encoded(one)] == repr(one) for one in values)


def test_what_has_no_digest_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(self: Digests, *asked: object) -> str:
        raise TypeError("a value of Something has no digest")

    monkeypatch.setattr(Digests, "of_kernel", unknown)
    text = "ENTRY e { p = f32[4] parameter(0) q = f32[4] negate(p) ROOT n = f32[4] negate(q) }"
    row, kernels = Facts(hloscope.read(text), "h100", Store(None)).rows()
    assert [kernel["structure"] for kernel in kernels] == [None, None]
    assert row["structures"] == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_equal_structure_means_equal_facts_whatever_the_names(path: Path) -> None:
    """As if the facts of a kernel came from a program in which all is called otherwise."""
    text = path.read_text()
    if path.suffix == ".mlir":
        other = re.sub(r"%(\w+)", r"%v\1", text)
    else:
        program = hloscope.read(text)
        names = {ins.name for ins in program} | {c.name for c in program.module}
        pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        other = re.sub(rf"(?<![\w.\"])({pattern})(?![\w.(\"])(?!=)", r"\1_x", program.text())
    both = [Facts(hloscope.read(t), "h100", Store(None)).rows()[1] for t in (text, other)]
    before, after = ({row["name"] for row in one} for one in both)
    assert before - after, "ops without results keep what they are called"
    known: dict[str, Any] = {}
    own = {"name", "computation", "module", "op_name", "source", "line", "times"}
    for row in [row for one in both for row in one]:
        facts = {key: value for key, value in row.items() if key not in own}
        assert known.setdefault(row["structure"], facts) == facts
    assert [row["structure"] for row in both[0]] == [row["structure"] for row in both[1]]


def test_problems_of_a_kernel_are_told_without_its_name() -> None:
    text = """ENTRY e { p = f32[4] parameter(0)
      mine = f32[4] custom-call(p), custom_call_target="theirs"
      ROOT n = f32[4] negate(mine) }"""
    kernels = Facts(hloscope.read(text), "h100", Store(None)).rows()[1]
    problems = {row["name"]: row["problems"] for row in kernels}
    assert "`_` is a custom call" in problems["mine"]
    assert "mine" not in problems["mine"]
