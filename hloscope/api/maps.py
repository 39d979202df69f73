"""Simplified maps as text, and as lines of JSON."""

from __future__ import annotations

from typing import Any, Final

from hloscope.errors import ParseError, did_you_mean
from hloscope.indexing import IndexingMap
from hloscope.support.limits import read_json

MAP_SCHEMA: Final = "hloscope.map/1"
LINE_KEYS: Final = ("map", "point_dimensions")
"""Keys that `simplify --lines` reads; it returns other keys unchanged."""
POINT_DIMENSIONS: Final = {"replace": True, "preserve": False, True: True, False: False}
"""Values of the key `point_dimensions`.

True means that a variable with only one value is replaced by it.
"""


def simplified(given: str, after: IndexingMap) -> dict[str, Any]:
    """Return the object that `simplify --json` prints.

    A difference in white space does not count as a change.

    Args:
        given: The text of the map before simplification.
        after: The simplified map.
    """
    text = str(after)
    changed = "".join(given.split()) != "".join(text.split())
    return {"schema": MAP_SCHEMA, "map": text, "changed": changed}


def simplified_line(line: str, *, keep_points: bool = False, exact: bool = False) -> dict[str, Any]:
    """Simplify the map in one line of JSON, `{"map": …}`; other keys are returned unchanged.

    Args:
        line: The line.
        keep_points: Keep variables that have only one value. The line's `point_dimensions` takes
            precedence.
        exact: Also search for shorter forms, which are proved equal.

    Raises:
        ParseError: The line is not such an object, or its map cannot be parsed.

    >>> simplified_line('{"map": "(d0) -> (d0 * 8 / 4), domain: d0 in [0, 9]", "id": 7}')["map"]
    '(d0) -> (d0 * 2), domain: d0 in [0, 9]'
    """
    try:
        given = read_json(line)
    except ValueError as error:
        raise ParseError(f"not JSON: {error}") from None
    if not isinstance(given, dict) or "map" not in given:
        raise ParseError('expected an object with "map"')
    for key in given:
        if key not in LINE_KEYS and (hint := did_you_mean(key, LINE_KEYS)):
            raise ParseError(f"unknown key `{key}`{hint}")
    if not isinstance(given["map"], str):
        raise ParseError(f"`map` must be a text, not {given['map']!r}")
    points = given.get("point_dimensions", not keep_points)
    if not isinstance(points, str | bool) or points not in POINT_DIMENSIONS:
        raise ParseError(f'`point_dimensions` must be "replace" or "preserve", not {points!r}')
    before = IndexingMap.parse(given["map"])
    after = before.simplify(replace_points=POINT_DIMENSIONS[points], exact=exact)
    answer = simplified(given["map"], after)
    return answer | {k: v for k, v in given.items() if k not in answer and k not in LINE_KEYS}
