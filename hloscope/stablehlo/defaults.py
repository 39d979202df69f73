"""Attributes that an op has though nobody wrote them; the generic form prints them.

Source: `DefaultValuedAttr` in the definitions of the dialects; what jaxlib prints of each op.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hloscope.mlir.attributes import Attribute, StringAttr, VerbatimAttr

_OVERFLOW: Final = {"overflowFlags": VerbatimAttr("#arith.overflow<none>")}
_FAST: Final = {"fastmath": VerbatimAttr("#arith.fastmath<none>")}

_DEFAULTS: Final[dict[str, Mapping[str, Attribute]]] = {
    "stablehlo.infeed": {"infeed_config": StringAttr(b"")},
    "stablehlo.outfeed": {"outfeed_config": StringAttr(b"")},
    **{f"arith.{name}": _OVERFLOW for name in "addi muli shli subi trunci".split()},
    **{
        f"arith.{name}": _FAST
        for name in "addf cmpf divf maximumf maxnumf minimumf minnumf mulf negf remf subf".split()
    },
}


def defaults(dialect: str) -> Mapping[str, Mapping[str, Attribute]]:
    """Attributes by name that the dialect's ops have anyway, by the op's full name.

    >>> defaults("stablehlo")["stablehlo.infeed"]
    {'infeed_config': StringAttr(value=b'', type=None)}
    """
    prefix = f"{dialect}."
    return {name: found for name, found in _DEFAULTS.items() if name.startswith(prefix)}
