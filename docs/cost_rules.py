"""The rules of work as a table, read off the code; docs/cost_rules.md shows it."""

from __future__ import annotations

from hloscope.cost import RULES

_MOST_NAMED = 8


def table() -> str:
    """The rules as Markdown."""
    lines = ["| rule | ops | operations | unit | XLA counts |", "|---|---|---|---|---|"]
    for rule in RULES:
        named = ", ".join([f"`{name}`" for name in rule.ops[:_MOST_NAMED]])
        more = f" and {len(rule.ops) - _MOST_NAMED} more" if len(rule.ops) > _MOST_NAMED else ""
        row = rule.name, f"{named}{more}", rule.figure, rule.unit, rule.xla or "the same"
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"
