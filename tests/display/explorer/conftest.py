"""One browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Browser


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser: to start one takes more than a second of processor time."""
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(started: Browser) -> Browser:
    """The page of the browser, which has said nothing and tried to load nothing yet."""
    started.said.clear()
    started.asked.clear()
    return started
