"""Pretty forms and messages against jaxlib, in a child process."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.conftest import SHARED
from tests.mlir.test_forms import CASES, ERRORS, TEXTS, around, generic, in_module
from tests.mlir.test_forms_attributes import REFUSED
from tests.oracle import needs_jaxlib

_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import stablehlo_oracle as oracle
answers = [oracle.parse_verify(text, True, print_module=True) for text in json.load(sys.stdin)]
json.dump([
    {"text": a.get("text"), "generic": a.get("generic"),
     "said": [d["message"] for d in a["diagnostics"]]} for a in answers
], sys.stdout)
"""
_MESH = 'sdy.mesh @mesh = <["x"=2]>\n'
_TYPES = "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"


def ask(texts: list[str]) -> list[dict[str, str]]:
    """What jaxlib makes of each text: its two printed forms, and its messages."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(SHARED / "oracle")],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)  # type: ignore[no-any-return]


@needs_jaxlib
def test_jaxlib_prints_the_same_forms() -> None:
    cases = [case for case in CASES if not case[0].startswith("check.")]
    texts = [
        (_MESH if name.startswith("sdy.") else "") + around(generic(name, properties, types), types)
        for name, _, properties, types in cases
    ]
    compared = 0
    for (name, form, properties, types), answer in zip(cases, ask(texts), strict=True):
        if answer["text"] is None:  # refused for what the function around it lacks
            continue
        assert f"{name}{form}\n" in answer["text"]
        assert generic(name, properties, types) in answer["generic"]
        compared += 1
    assert compared > len(cases) - 10


@needs_jaxlib
def test_jaxlib_prints_the_same_regions() -> None:
    texts = [in_module(text) for text in TEXTS]
    same = [answer["text"] == text for text, answer in zip(texts, ask(texts), strict=True)]
    assert same.count(False) <= 1  # a composite has to have a function


@needs_jaxlib
def test_jaxlib_says_the_same_of_what_is_wrong() -> None:
    rows = [(around(f"stablehlo.{text}", _TYPES), text, messages) for text, *messages in ERRORS]
    for (_, text, messages), answer in zip(rows, ask([row[0] for row in rows]), strict=True):
        name = text.partition(" ")[0].partition("(")[0]
        expected = [
            m[1:] if m.startswith("=") else f"custom op 'stablehlo.{name}' {m}" for m in messages
        ]
        assert answer["said"] == expected


@needs_jaxlib
def test_jaxlib_says_the_same_of_wrong_attributes() -> None:
    rows = [row for row in REFUSED if "999999999999" not in row[0]]  # it dies of that one
    texts = [f'"builtin.module"() ({{}}) {{x.x = {text}}} : () -> ()' for text, *_ in rows]
    for (text, *messages), answer in zip(rows, ask(texts), strict=True):
        assert answer["said"] == messages, text
