"""Structural comparison of modules, and the texts of the corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from hloscope.ir.graph import Instruction, Module


def difference(left: Module, right: Module) -> str:
    """Return the first difference of two modules, `""` if they are the same graph."""
    if (left.name, left.extras, left.preamble.split()) != (
        right.name,
        right.extras,
        right.preamble.split(),
    ):
        return f"headers: {left.name} {left.extras} / {right.name} {right.extras}"
    if list(left.computations) != list(right.computations):
        return f"computations: {list(left.computations)} / {list(right.computations)}"
    if left.entry.name != right.entry.name:
        return f"entry: {left.entry.name} / {right.entry.name}"
    for a, b in zip(left, right, strict=True):
        if a.extras != b.extras or a.root.name != b.root.name or len(a) != len(b):
            return f"computation {a.name}: {a.extras}, {len(a)} / {b.extras}, {len(b)}"
        if [p.name for p in a.parameters] != [p.name for p in b.parameters]:
            return f"parameters of {a.name}"
        for x, y in zip(a, b, strict=True):
            if facts(x) != facts(y):
                return f"{a.name}: {facts(x)} / {facts(y)}"
    return ""


def facts(ins: Instruction) -> tuple[object, ...]:
    """Everything an instruction says, with names in place of references."""
    return (
        ins.name,
        ins.type,
        ins.op,
        [o.name for o in ins.operands],
        [c.name for c in ins.calls],
        ins.extras,
        [p.name for p in ins.control_predecessors],
    )


def corpus(shared: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of every HLO text of the corpus that XLA accepts, the largest last."""
    for path in sorted((shared / "conformance" / "xla").glob("*.json")):
        seen: set[str] = set()
        for text in _hlo_of(json.loads(path.read_text())):
            if text not in seen:
                seen.add(text)
                if not _is_fragment(text):
                    yield f"{path.stem}:{len(seen)}", text
    real = shared / "real"
    rows = json.loads((real / "modules" / "manifest.json").read_text())["modules"]
    for row in rows:
        path = real / "modules" / row["file"]
        if row["parses"] and path.exists():
            text = path.read_text()
            if row["parses"] == "$N := f32":
                text = re.sub(r"\$\d+", "f32", text)
            elif row["parses"] == "comment lines stripped":
                text = re.sub(r"(?m)^\s*//.*$", "", text)
            yield row["file"], text
    for folder, pattern in (("models", "*hlo*.txt"), ("pass_dumps", "*.hlo")):
        for path in sorted((real / folder).rglob(pattern)):
            yield str(path.relative_to(real)), path.read_text()
    for path in sorted((real / "big").glob("*.hlo.txt")):
        yield f"big/{path.name}", path.read_text()


def _is_fragment(text: str) -> bool:
    """Is it a line out of a module, with operands or parameters before it?  XLA refuses these."""
    return "\n" not in text.strip() and re.search(r"\w\((%|[1-9]\d*\))", text) is not None


def _hlo_of(data: object) -> Iterator[str]:
    """Yield the texts of all `hlo` entries."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key == "hlo" and isinstance(value, str):
                yield value
            else:
                yield from _hlo_of(value)
    elif isinstance(data, list):
        for value in data:
            yield from _hlo_of(value)
