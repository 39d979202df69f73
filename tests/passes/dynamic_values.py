"""Values of refined programs beside those that upstream's interpreter returned.

    python -m tests.passes.dynamic_values

The programs are those of `dynamic_corpus`, refined by `remove-dynamism`, run with the arguments of
the recorded run.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hloscope.errors import HloscopeError
from hloscope.interpreter import evaluate
from hloscope.stablehlo import to_graph
from tests.interpreter.test_dynamic_corpus import argument, differs, is_off
from tests.passes import dynamic_corpus

EQUAL, CLOSE = "equal bits", "close"
FINE: Final = (EQUAL, CLOSE)


def verdict(record: dict[str, Any]) -> str:
    """How the results of our refined program compare with the recorded ones."""
    given = [argument(k, text, record["dims"]) for k, text in enumerate(record["types"])]
    try:
        found = evaluate(to_graph(dynamic_corpus.refined(record)), given)
    except HloscopeError as error:
        return f"refused: {error.message}"
    pairs = list(zip(found, record["results"], strict=True))
    if not any(is_off(array, expected) for array, expected in pairs):
        return EQUAL
    if any(is_off(array, expected) and "hex" not in expected for array, expected in pairs):
        return "other bits than the recorded hash"
    why = [differs(array, expected, array) for array, expected in pairs]
    return next(filter(None, why), CLOSE)


def verdicts(step: int = 1) -> dict[str, str]:
    """Of every program, or every so many of them, by file."""
    ran = [record for record in dynamic_corpus.records() if "results" in record]
    return {record["file"]: verdict(record) for record in ran[::step]}


def main() -> None:
    """Count, and print what is neither equal nor close."""
    found = verdicts()
    for file, what in found.items():
        if what not in FINE:
            print(f"{file}: {what}")
    print(", ".join(f"{n} {what}" for what, n in Counter(found.values()).most_common()))


if __name__ == "__main__":
    main()
