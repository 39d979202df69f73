"""The pytest plugin: pages for programs that fail, and a fixture that reads programs.

pytest finds it by its entry point; hloscope itself is loaded when a test uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.testing as testing
    from hloscope.api import Program
else:
    testing = lazy("hloscope.testing")

_OPTION: Final = "--hloscope-pages"
_FAILED: Final = "CheckFailedError"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--hloscope-pages DIR`."""
    parser.getgroup("hloscope").addoption(
        _OPTION,
        metavar="DIR",
        default=None,
        help="write a page to look at for each program that breaks a rule of hloscope.testing",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the page of a program that breaks a rule, and add its path to the report."""
    report = yield
    folder = item.config.getoption(_OPTION)
    failed = call.excinfo.value if call.excinfo is not None else None
    if folder is None or type(failed).__name__ != _FAILED:
        return report
    if isinstance(failed, testing.CheckFailedError):
        report.sections.append(("hloscope", _written(Path(folder), item.nodeid, failed)))
    return report


def _written(folder: Path, test: str, failed: testing.CheckFailedError) -> str:
    """Write the page of a failed check to `folder`; return a line with its path.

    `test` names the test. The line has the reason instead if the page cannot be written.
    """
    name = re.sub(r"[^\w.\[\]-]+", "_", test)[-150:]
    try:
        text, ending = testing.picture_of(failed)
        path = folder / f"{name}{ending}"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    except Exception as error:  # the test has failed already, and its report must appear
        return f"no page: {type(error).__name__}: {error}"
    return f"the program: {path}"


@pytest.fixture
def hloscope_program() -> Callable[..., Program]:
    """A function: the program of a text, path, `Lowered`, or function with arguments."""

    def program(subject: Any, *arguments: Any) -> Program:
        return testing.program_of(subject, *arguments)

    return program
