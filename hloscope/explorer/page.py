"""The page: style, program and data in one file.

Nothing of a program is markup.  Its names and texts are JSON, compressed and in base64, which the
page decodes when it shows them, as text nodes only; the title is escaped.  The page's policy lets
only its own script and style run, which it knows by their hashes, and lets it load nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from msgspec import Struct

from hloscope.explorer.tables import Written, written
from hloscope.visible import in_page, visible

SCRIPTS: Final = (
    "data.js", "expressions.js", "program.js", "rows.js", "tensors.js", "grid.js", "graph.js",
    "layout.js", "elements.js", "maps.js", "verdicts.js", "differences.js", "overview.js",
    "help.js", "main.js",
)  # fmt: skip
"""Files of the page's program, in the order in which they are run."""
LIBRARY: Final = "dagre.min.js"
"""The library that lays out graphs, as it is published; its licence stands beside it."""
FRAME_HEIGHT: Final = 720
_LEVEL: Final = 6
"""Of compression: the highest one takes four times as long and leaves out another 3 %."""
_SHELL: Final = (
    '<div id="app"><noscript>This page needs JavaScript; it loads nothing from elsewhere.'
    "</noscript></div>"
)


class Contents(Struct, frozen=True):
    """What a page is made of.

    Attributes:
        title: The program's name.
        file: Where it was read.
        language: HLO or StableHLO.
        instructions: How many there are.
        computations: How many there are.
        device: The GPU that kernels are judged for.
        parts: What is told besides the program.
        chunks: Data by name; each is compressed and decoded on its own.
    """

    title: str
    file: str
    language: str
    instructions: int
    computations: int
    device: str
    parts: tuple[str, ...]
    chunks: Mapping[str, Any]


def packed(value: Any) -> str:
    """A value as JSON, compressed, in base64: the same text for the same value.

    >>> import base64, gzip
    >>> gzip.decompress(base64.b64decode(packed({"name": "</script>"})))
    b'{"name":"</script>"}'
    """
    text = value if isinstance(value, Written) else written(value)
    return base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode()


def embedded(value: Any) -> str:
    r"""A value as JSON for the inside of a script element: it cannot end the element.

    >>> embedded("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    return written(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _script() -> str:
    """The page's program: each file in a function of its own, after names that all share."""
    folder = files("hloscope.explorer").joinpath("app")
    parts = [folder.joinpath(name).read_text("utf-8") for name in SCRIPTS]
    inside = "\n".join(f"(() => {{\n{part}}})();" for part in parts)
    return f'"use strict";\n{_library()}const H = {{}};\n{inside}\n'


def _library() -> str:
    """The library under its licence, without the comment that names a file to debug it by.

    Its strings hold two characters of no width, which stand as escapes: the same strings.
    """
    folder = files("hloscope.explorer").joinpath("app", "vendor")
    licence = folder.joinpath(f"{LIBRARY}.LEGAL.txt").read_text("utf-8")
    code, _, _ = folder.joinpath(LIBRARY).read_text("utf-8").partition("//# sourceMappingURL=")
    return licence + visible(code)


@cache
def _style() -> str:
    return files("hloscope.explorer").joinpath("app", "style.css").read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy() -> str:
    """What the page may do: run its own script, use its own style, and nothing else."""
    return (
        f"default-src 'none'; script-src {_hash(_script())}; style-src {_hash(_style())}; "
        "base-uri 'none'; form-action 'none'"
    )


def page_of(contents: Contents) -> str:
    """A complete page."""
    head = {
        "title": visible(contents.title),
        "file": visible(contents.file),
        "language": contents.language,
        "instructions": contents.instructions,
        "computations": contents.computations,
        "device": contents.device,
        "parts": contents.parts,
    }
    chunks = "".join(
        f'<script type="text/plain" id="data-{name}">{packed(value)}</script>\n'
        for name, value in contents.chunks.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="hloscope">\n'
        f"<title>{in_page(contents.title)} · hloscope</title>\n"
        f"<style>{_style()}</style></head>\n<body>\n{_SHELL}\n"
        f'<script type="application/json" id="head">{embedded(head)}</script>\n'
        f"{chunks}<script>{_script()}</script>\n</body></html>\n"
    )


def frame(whole: str) -> str:
    """The page inside another one, as notebooks show it: it may run scripts and nothing else."""
    return (
        f'<iframe srcdoc="{html.escape(whole)}" sandbox="allow-scripts" width="100%" '
        f'height="{FRAME_HEIGHT}" style="border:1px solid #8884;border-radius:6px" '
        'title="hloscope explorer"></iframe>'
    )
