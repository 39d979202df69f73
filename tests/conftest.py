"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.selection import MOST_EXAMPLES, draw_few_examples, quick

settings.register_profile("no clocks", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clocks")  # no test measures time: a busy machine fails none
settings.register_profile("quick", settings.get_profile("no clocks"), max_examples=MOST_EXAMPLES)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so are a shell's jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt their children

SHARED = Path(os.environ.get("HLOSCOPE_SHARED", Path(__file__).parents[2] / "shared"))
"""Conformance data and real programs; beside the checkout, not part of it."""

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the conformance data beside the checkout (../shared)"
)


LEFT_OUT = pytest.StashKey[int]()
"""How many tests `--quick` left out."""
STARTED = time.monotonic()
"""When this process began, for the time that is printed at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the tests marked as slow")
    parser.addoption("--full", action="store_true", help="more cases in tests that take a sample")


def pytest_configure(config: pytest.Config) -> None:
    """The quick run tries few examples of each hypothesis test, the others try 100."""
    if config.getoption("--quick"):
        settings.load_profile("quick")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector.

    Modules and tests are needed until the end, and to search them again and again for garbage is a
    third of the processor time of the collection: 14.6 s with it, 9.6 s without.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, if `--quick` was given."""
    if config.getoption("--quick"):
        kept = quick(items)
        config.stash[LEFT_OUT] = len(items) - len(kept)
        items[:] = kept
        for item in kept:
            draw_few_examples(getattr(item, "obj", None))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist sends the number to the process that prints it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number of one worker: each collects all tests and leaves out the same ones."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT_OUT] = output.get("left out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how long a quick run took, and how many tests it left out."""
    config = terminalreporter.config
    if config.getoption("--quick"):
        minutes, seconds = divmod(round(time.monotonic() - STARTED), 60)
        terminalreporter.section("quick run")
        terminalreporter.write_line(
            f"{minutes} min {seconds} s; "
            f"{config.stash.get(LEFT_OUT, 0):,} tests are left to `make test-full`"
        )


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Was `--full` given: all cases instead of a sample?"""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of conformance data; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("needs the conformance data beside the checkout (../shared)")
    return SHARED
