"""Detection of MLIR text by its beginning, without loading other modules of MLIR."""

from __future__ import annotations

from typing import Final

from hloscope.support.lazy import pattern

BLANK: Final = r"(?:[ \t\r\n]++|//[^\n]*+)*+"
_MLIR: Final = pattern(
    BLANK + r'(?:"?builtin\.module\b|module\s*(?:@|\{|attributes\b)|"?func\.func\b'
    r'|"?(?:stablehlo|chlo|sdy)\.\w|%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+)*\s*=\s*"?[a-z_]+\.\w+"?'
    r"(?:\s+[%@\[{d#]|\()|[#!][A-Za-z_][\w$.-]*\s*=)"
)


def is_mlir(text: str) -> bool:
    """Does the text look like MLIR?

    >>> is_mlir("module @jit_f {}"), is_mlir("HloModule f")
    (True, False)
    """
    return _MLIR.match(text) is not None
