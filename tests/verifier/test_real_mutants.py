"""`verify` against jaxlib on real programs with one thing changed: each difference has its reason.

120 programs of each language by default, 2,500 with `--full`.  jaxlib runs in a process of its own:
that of the tests if jaxlib is installed, else the interpreter that $HLOSCOPE_ORACLE_PYTHON names.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo
from hloscope.verifier import first_errors, verify_hlo
from tests.conftest import SHARED
from tests.verifier.real_mutants import Mutant, mutants

_PYTHON = os.environ.get("HLOSCOPE_ORACLE_PYTHON", sys.executable if find_spec("jaxlib") else "")
needs_jaxlib = pytest.mark.skipif(
    not _PYTHON or not (SHARED / "oracle").is_dir(),
    reason="needs jaxlib (the `oracle` extra, or $HLOSCOPE_ORACLE_PYTHON) and the conformance data",
)
_SECONDS = 60
"""Time that jaxlib has for one program."""


class Difference(NamedTuple):
    """Programs on which hloscope and jaxlib differ, and why hloscope is right to.

    Attributes:
        language: `hlo` or `stablehlo`.
        refused_by: `hloscope` or `jaxlib`.
        message: Regular expression of the message of the one that refuses.
        reason: Why.
    """

    language: str
    refused_by: str
    message: str
    reason: str


DIFFERENCES = (
    Difference(
        "hlo", "hloscope",
        r"`(fusion|call|while|conditional)` is declared|returns .*, `\w+` needs",
        "lowering takes the type of a call's result from what is called; XLA's HLO verifier"
        " (`HandleFusion`, `HandleCall`) compares it with the declared one",
    ),
    Difference(
        "hlo", "hloscope", r"`get-tuple-element` is declared",
        "lowering takes the type from the tuple; XLA's `HandleGetTupleElement` compares",
    ),
    Difference(
        "hlo", "hloscope", r"entry_computation_layout",
        "lowering drops the layouts of the entry; XLA checks them when it compiles",
    ),
    Difference(
        "hlo", "jaxlib", r"requires compatible (element )?types|incompatible with return type",
        "HLO lets floats differ in precision, StableHLO, in which jaxlib lowers, does not",
    ),
    Difference(
        "stablehlo", "jaxlib", r"undefined symbol alias id 'loc\d*'",
        "an alias of a location that nothing defines; locations do not change what is checked",
    ),
)  # fmt: skip
"""Every kind of difference among 2,500 programs a language, jaxlib 0.10.2."""


def hloscope_says(language: str, text: str) -> str:
    """The first message about a program, empty if it is fine."""
    try:
        if language == "hlo":
            found = verify_hlo(parse_hlo(text, strict=True))
        else:
            found = first_errors(text)
    except HloscopeError as error:
        return error.message
    return found[0].message if found else ""


class Referee:
    """jaxlib in a child process, started again when a program ends it or takes too long."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def says(self, language: str, text: str) -> str | None:
        """The first message about a program, empty if it is fine; `None` if the process ended."""
        if self._child is None:
            script = Path(__file__).with_name("referee_child.py")
            self._child = subprocess.Popen(
                [_PYTHON, "-W", "ignore", str(script), str(SHARED / "oracle")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        clock = Timer(_SECONDS, child.kill)
        clock.start()
        try:
            child.stdin.write(json.dumps([language, text]) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except OSError:
            line = ""
        finally:
            clock.cancel()
        if not line:
            self.close()
            return None
        verdict, message = json.loads(line)
        return str(message) if verdict == "refuses" else ""

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def reason_of(language: str, ours: str, theirs: str) -> str | None:
    """Why the two differ; `None` if no row of the table says so."""
    refused_by, message = ("hloscope", ours) if ours else ("jaxlib", theirs)
    for row in DIFFERENCES:
        is_of_row = (row.language, row.refused_by) == (language, refused_by)
        if is_of_row and re.search(row.message, message):
            return row.reason
    return None


@needs_jaxlib
@pytest.mark.parametrize("language", ["hlo", "stablehlo"])
def test_jaxlib_has_the_same_verdict_or_the_difference_has_a_reason(
    shared: Path, full: bool, language: str
) -> None:
    referee, unexplained, verdicts = Referee(), [], Counter[str]()
    for mutant in mutants(shared / "real" / "models", language, 2500 if full else 120):
        ours, theirs = hloscope_says(language, mutant.text), referee.says(language, mutant.text)
        if theirs is None:
            verdicts["ended jaxlib"] += 1
        elif bool(ours) == bool(theirs):
            verdicts["refused by both" if ours else "accepted by both"] += 1
        elif reason_of(language, ours, theirs) is None:
            unexplained.append((mutant[:3], ours, theirs))
        else:
            verdicts["different, with a reason"] += 1
    referee.close()
    print(language, dict(verdicts))
    assert unexplained == []
    assert min(verdicts["refused by both"], verdicts["accepted by both"]) > 0


@pytest.mark.parametrize("language", ["hlo", "stablehlo"])
def test_mutants_are_one_change_away_and_the_same_each_time(shared: Path, language: str) -> None:
    folder = shared / "real" / "models"
    first, second = (list(mutants(folder, language, 40)) for _ in range(2))
    assert first == second
    for mutant in first:
        assert isinstance(mutant, Mutant)
        before = (folder / mutant.name).read_text().split("\n")
        after = mutant.text.split("\n")
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_a_difference_without_a_reason_is_told() -> None:
    assert reason_of("hlo", "`fusion` is declared f32[2], but its operands make it f32[3]", "")
    assert reason_of("hlo", "`add` is declared f32[2], but its operands make it f32[3]", "") is None
    assert reason_of("stablehlo", "", "undefined symbol alias id 'loc3'")
    assert reason_of("stablehlo", "", "something else") is None
