"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("no clocks", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clocks")  # no test measures time: a busy machine fails none

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so are a shell's jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt their children

SHARED = Path(os.environ.get("HLOSCOPE_SHARED", Path(__file__).parents[2] / "shared"))
"""Conformance data and real programs; beside the checkout, not part of it."""

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the conformance data beside the checkout (../shared)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the heavy cases too, not a sample")


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
