"""Numbers of bytes as option values."""

from __future__ import annotations

from re import IGNORECASE
from typing import Any, Final

import click

from hloscope.lazy import pattern

_BYTES: Final = pattern(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)(?:i?B)?", IGNORECASE)


class Bytes(click.ParamType[int]):
    """A number of bytes, `4G` or `500 MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        found = _BYTES.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"`{value}` is not a size such as 4G or 500M", param, ctx)
        unit = 1 << 10 * " KMGT".index(found[2].upper() or " ")
        whole, _, part = found[1].partition(".")
        scale: int = 10 ** len(part)
        return int(whole) * unit + int(part or 0) * unit // scale
