"""Pages for tests: of a program's text, and what is stored in them."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

import hloscope
from tests.browser import CHROMIUM

browser: Final = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here")
EXAMPLES: Final = Path(__file__).parents[3] / "examples"


def page_of(program: str | Path, **options: Any) -> str:
    """The page of a program."""
    return hloscope.read(program).explore(**options).to_html()


def chunk(page: str, name: str) -> Any:
    """A part of the data of a page."""
    found = re.search(f'<script type="text/plain" id="data-{name}">([^<]*)</script>', page)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def names_of(page: str) -> list[str]:
    """The names of all instructions, in the order of their numbers."""
    return out_of_sequence(chunk(page, "rows")["name"])


def out_of_sequence(names: Iterable[str | int]) -> list[str]:
    """The names that `in_sequence` compressed, restored as the page's script does."""
    stems: dict[str, int] = {}
    texts: list[str] = []
    ends: list[int] = []
    found = []
    for name in names:
        if isinstance(name, int):
            ends[name] += 1
            name = f"{texts[name]}{ends[name]}"
        else:
            stem = name.rstrip("0123456789")
            digits = name[len(stem) :]
            if 0 < len(digits) <= 9 and (digits[0] != "0" or len(digits) == 1):
                k = stems.setdefault(stem, len(stems))
                if k == len(texts):
                    texts.append(stem)
                    ends.append(0)
                ends[k] = int(digits)
        found.append(name)
    return found


def saved(folder: Path, page: str, name: str = "page.html") -> Path:
    """The page in a file."""
    path = folder / name
    path.write_text(page, "utf-8")
    return path
