"""What is wrong ends with a message and an exit code; what kills the reference has a result."""

from __future__ import annotations

import sys

import pytest

from tests.interpreter.faults import DEFINED, FAULTS, run, wrong

SAMPLE = 4
"""Without `--full`, every fourth: each is a process of its own."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_message_and_exit_code(name: str, full: bool) -> None:
    if not full and list(FAULTS).index(name) % SAMPLE:
        pytest.skip("with --full only: a process for each")
    assert not wrong(name)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", DEFINED)
def test_what_kills_the_reference_has_a_result(name: str, full: bool) -> None:
    if not full and list(DEFINED).index(name) % SAMPLE:
        pytest.skip("with --full only: a process for each")
    text, expected = DEFINED[name]
    ending = run(text, "--dense")
    assert ending.exit_code == 0
    assert ending.out.startswith(f"dense<{expected}>")
