"""Values of frontend attributes with a known grammar; both languages have them as texts.

Source: Shardy's export to `xla.sdy.*`; XLA's `_xla_send_recv_source_target_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hloscope.dialects.attributes.shardings import meshes_in, shardy_value
from hloscope.errors import UnsupportedError
from hloscope.lazy import pattern

_PAIRS: Final = pattern(r"\s*\{((?:\s*\{\s*\d{1,18}\s*,\s*\d{1,18}\s*\}\s*,?)*)\s*\}\s*")
_PAIR: Final = pattern(r"(\d+)\s*,\s*(\d+)")


def _pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Pairs of devices, `{{0,1},{1,2}}`."""
    found = _PAIRS.fullmatch(text)
    if found is None:
        raise UnsupportedError(f"`{text[:100]}` lists no pairs of devices")
    return tuple((int(source), int(target)) for source, target in _PAIR.findall(found[1]))


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "xla.sdy.meshes": meshes_in,
    "xla.sdy.in_shardings": shardy_value,
    "xla.sdy.out_shardings": shardy_value,
    "xla.sdy.manual_axes": shardy_value,
    "_xla_send_recv_source_target_pairs": _pairs,
}


def frontend_values(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return frontend attributes with texts of known grammar replaced by their values.

    >>> frontend_values({"_xla_send_recv_source_target_pairs": "{{0,1},{1,2}}", "note": "{}"})
    {'_xla_send_recv_source_target_pairs': ((0, 1), (1, 2)), 'note': '{}'}
    """
    return {name: _value(name, text) for name, text in texts.items()}


def _value(name: str, text: Any) -> Any:
    """Value of an attribute; the text itself if it is not understood."""
    read = _READERS.get(name)
    if read is None or not isinstance(text, str):
        return text
    try:
        return read(text)
    except UnsupportedError:
        return text
