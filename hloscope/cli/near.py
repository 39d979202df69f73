"""Names that were probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near_names(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names most like `name`; names that contain it, or it contains, come first.

    >>> near_names("fusion", ["fusion.12", "add.3", "wrapped_fusion"])
    ['fusion.12', 'wrapped_fusion']
    >>> near_names("indxe", ["index", "ls"])
    ['index']
    """
    names = list(dict.fromkeys(known))
    containing = [n for n in names if n and (name in n or (len(n) > 2 and n in name))]
    containing.sort(key=len)
    alike = get_close_matches(name, names[:20_000], n=count)
    return list(dict.fromkeys([*containing[:count], *alike]))[:count]


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing where no known name is near.

    >>> suggestion("indxe", ["index", "ls"])
    '; did you mean `index`?'
    """
    names = [f"`{n}`" for n in near_names(name, known)]
    if not names:
        return ""
    *most, last = names
    return f"; did you mean {', '.join(most)} or {last}?" if most else f"; did you mean {last}?"
