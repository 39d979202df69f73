"""What tests of tiling spaces share: programs as XLA takes them, synthetic tiles, plain texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hloscope.affine import Const, Dim, Expr, Range
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Instruction, Module
from hloscope.tiling import DimTile, Fused, Roots, Tile, TilingSpace

_DEFINED = re.compile(r"^\s*(?:ROOT\s+)?%?([\w.-]+)\s*=\s", re.MULTILINE)
_TYPE = re.compile(r"\b(pred|bf16|[fsu]\d+)\[([\d, ]*)\](\s*\{[\d, ]*\})?")
_BODY = re.compile(r"^[^\n{]*\{\s*$.*?^\s*\}", re.MULTILINE | re.DOTALL)


def with_unique_names(text: str) -> str:
    """The program with instruction names made unique in the module, as XLA makes them.

    >>> body = "{{\\n  p = f32[] parameter(0)\\n}}"
    >>> print(with_unique_names(f"a {body.format()}\\nb {body.format()}"))
    a {
      p = f32[] parameter(0)
    }
    b {
      p.1 = f32[] parameter(0)
    }
    """
    seen: Counter[str] = Counter()

    def renamed(found: re.Match[str]) -> str:
        body = found[0]
        for name in _DEFINED.findall(body):
            if seen[name]:
                pattern = rf"(?<![\w.=%-])(%?){re.escape(name)}(?![\w.-])(?=\s*[=,)])"
                body = re.sub(pattern, rf"\g<1>{name}.{seen[name]}", body)
            seen[name] += 1
        return body

    return _BODY.sub(renamed, text)


def with_layouts(text: str) -> str:
    """The program with row-major layouts where none are written, as XLA takes it.

    >>> with_layouts("(f32[2,3], f32[]) f(f32[2, 3] {0,1} x)")
    '(f32[2,3]{1,0}, f32[]) f(f32[2, 3] {0,1} x)'
    """

    def laid_out(found: re.Match[str]) -> str:
        rank = len(found[2].split(",")) if found[2].strip() else 0
        if found[3] or not rank:
            return found[0]
        return f"{found[0]}{{{','.join(str(d) for d in reversed(range(rank)))}}}"

    return _TYPE.sub(laid_out, text)


def read(text: str) -> Module:
    """The program of a test of XLA."""
    return parse_hlo(with_layouts(with_unique_names(text)))


def space_of(ins: Instruction, roots: Roots = Roots.REFUSED) -> TilingSpace:
    """The tiling space of an instruction or fusion, which has one."""
    found = TilingSpace.of(Fused.of(ins), roots)
    assert isinstance(found, TilingSpace), found
    return found


def synthetic(shape: Sequence[int], bounds: Iterable[Expr] = ()) -> Tile:
    """Offset `tid_i * ts_i`, size `ts_i`, stride `i + 1`, the given bounds or the sizes."""
    upper = [*bounds] or [Const(n) for n in shape]
    return Tile(
        tuple(
            [
                DimTile(Dim(i) * Range(i), Range(i), Const(i + 1), bound)
                for i, bound in enumerate(upper)
            ]
        )
    )


def squeezed(text: str) -> str:
    """A text without what only lays it out."""
    return re.sub(r"\s+", " ", text).strip()
