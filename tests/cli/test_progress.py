"""Long runs show a bar with the time left on a terminal, and short ones nothing."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest

from hloscope.cli import streams as progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    streams = SimpleNamespace(stderr=terminal, stdout=io.StringIO())
    monkeypatch.setattr(progress, "sys", streams)
    monkeypatch.setattr(progress, "styled_errors", lambda: terminal)
    return terminal


def test_a_long_run_shows_its_position_and_the_time_left(
    errors: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 2.0)
    now = iter(range(100))
    monkeypatch.setattr(progress, "monotonic", lambda: float(next(now)))
    assert list(progress.with_progress(range(5), "kernels")) == [0, 1, 2, 3, 4]
    shown = errors.getvalue()
    assert shown.count("kernels  [") >= 2
    assert "5/5" in shown
    assert "1/5" not in shown  # the first item ended before the delay


def test_the_time_left_is_estimated(errors: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("click._termui_impl.time.time", lambda: float(next(clock)))
    list(progress.with_progress(range(6), "kernels"))
    assert re.search(r"3/6 .*\d\d:\d\d:\d\d", errors.getvalue())


def test_a_short_run_shows_nothing(errors: Terminal) -> None:
    assert list(progress.with_progress(range(1000), "kernels")) == list(range(1000))
    assert errors.getvalue() == ""


def test_results_on_the_terminal_are_the_progress(
    errors: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=errors, stdout=Terminal()))
    list(progress.with_progress(range(3), "indexing"))
    assert errors.getvalue() == ""
    list(progress.with_progress(range(3), "kernels", printed=False))
    assert "3/3" in errors.getvalue()


def test_an_error_in_a_run_ends_the_bar(errors: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)

    def run() -> None:
        for item in progress.with_progress(range(3), "kernels"):
            if item == 1:
                raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        run()
    assert "1/3" in errors.getvalue()
