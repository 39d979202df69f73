"""Numbers of bytes as options have them."""

from __future__ import annotations

from re import IGNORECASE
from typing import TYPE_CHECKING, Any, Final

import click

from hloscope.lazy import lazy, pattern

if TYPE_CHECKING:
    import fractions
else:
    fractions = lazy("fractions")

_BYTES: Final = pattern(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)(?:i?B)?", IGNORECASE)


class Bytes(click.ParamType[int]):
    """A number of bytes, `4G` or `500 MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of bytes."""
        found = _BYTES.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"`{value}` is no size such as 4G or 500M", param, ctx)
        return int(fractions.Fraction(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))
