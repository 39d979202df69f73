"""Printed JSON: in UTF-8 for all names, indented or on one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloscope.lazy import lazy

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")


def json_text(value: Any, **options: Any) -> str:
    """JSON in UTF-8; bytes of names that are not UTF-8 are escaped as JSON does."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def json_line(value: Any) -> str:
    """JSON on one line without spaces; the line end is not included.

    >>> json_line({"maps": [1, 2]})
    '{"maps":[1,2]}'
    """
    return json_text(value, separators=(",", ":"))
