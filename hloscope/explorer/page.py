"""The page: style, script and data in one file.

No text of a program becomes markup.  Names and texts are JSON, compressed and in base64; the page
decodes them when it shows them, as text nodes only.  The title is escaped.  The content security
policy allows only the page's own script and style, by their hashes, and forbids loading anything.
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
"""Files of the page's script, in the order in which they run."""
LIBRARY: Final = "dagre.min.js"
"""The library that lays out graphs, unchanged; its licence is in the same folder."""
FRAME_HEIGHT: Final = 720
_LEVEL: Final = 6
"""Level of compression: the highest one takes four times as long and saves another 3 %."""
_SHELL: Final = (
    '<div id="app"><noscript>This page needs JavaScript; it loads nothing from elsewhere.'
    "</noscript></div>"
)


class Contents(Struct, frozen=True):
    """The contents of a page.

    Attributes:
        title: The program's name.
        file: The file of the program.
        language: HLO or StableHLO.
        instructions: Number of instructions.
        computations: Number of computations.
        device: The GPU that kernels are judged for.
        parts: The optional parts that the page has.
        chunks: Data by name; each is compressed and decoded separately.
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
    """A value as JSON, compressed, in base64; equal values have equal texts.

    >>> import base64, gzip
    >>> gzip.decompress(base64.b64decode(packed({"name": "</script>"})))
    b'{"name":"</script>"}'
    """
    text = value if isinstance(value, Written) else written(value)
    return base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode()


def embedded(value: Any) -> str:
    r"""A value as JSON for a script element, escaped so that it cannot end the element.

    >>> embedded("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    return written(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache  # each page has it twice, in the policy's hash and in the body
def _script() -> str:
    """The page's script: each file in a function, so that files share only `H`."""
    folder = files("hloscope.explorer").joinpath("app")
    parts = [folder.joinpath(name).read_text("utf-8") for name in SCRIPTS]
    inside = "\n".join(f"(() => {{\n{part}}})();" for part in parts)
    return f'"use strict";\n{_library()}const H = {{}};\n{inside}\n'


def _library() -> str:
    """The graph library after its licence, without its source map comment.

    Two zero-width characters in its strings are written as escapes, which does not change the
    strings.
    """
    folder = files("hloscope.explorer").joinpath("app", "vendor")
    licence = folder.joinpath(f"{LIBRARY}.LEGAL.txt").read_text("utf-8")
    code, _, _ = folder.joinpath(LIBRARY).read_text("utf-8").partition("//# sourceMappingURL=")
    return licence + visible(code)


@cache  # as for `_script`
def _style() -> str:
    return files("hloscope.explorer").joinpath("app", "style.css").read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy() -> str:
    """The page's content security policy: its own script, its own style, nothing else."""
    return (
        f"default-src 'none'; script-src {_hash(_script())}; style-src {_hash(_style())}; "
        "base-uri 'none'; form-action 'none'"
    )


def page_of(contents: Contents) -> str:
    """The complete page."""
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
    """The page in a sandboxed frame for notebooks: it may run scripts and nothing else."""
    return (
        f'<iframe srcdoc="{html.escape(whole)}" sandbox="allow-scripts" width="100%" '
        f'height="{FRAME_HEIGHT}" style="border:1px solid #8884;border-radius:6px" '
        'title="hloscope explorer"></iframe>'
    )
