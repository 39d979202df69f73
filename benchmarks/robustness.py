"""Broken programs: is every answer one of our own errors, soon, and without much memory?

    python benchmarks/robustness.py [--count N] [--seed S] [--json]

Takes HLO and StableHLO texts of the conformance data, breaks each in one of several ways, and
reads, verifies and prints it.  Reports what is not an answer or a `HloscopeError`, the slowest
text, and the most memory the process held.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hloscope  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from tests.conftest import SHARED  # noqa: E402
from tests.mutations import mutations, originals  # noqa: E402


def answer(text: str) -> str:
    """What reading, verifying and printing end with."""
    try:
        found = hloscope.verify(text)
        if found:
            return "refused"
        str(hloscope.read(text))
        return "fine"
    except HloscopeError as error:
        return "refused" if str(error) else "an error without words"
    except RecursionError:
        return "RecursionError"
    except Exception as error:  # what must not happen is counted, not raised
        return f"{type(error).__name__}: {error}"[:200]


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the conformance data (`../shared`) is absent")
    counts: Counter[str] = Counter()
    slowest, slow_kind = 0.0, ""
    for kind, text in mutations(originals(SHARED), options.count, options.seed):
        start = time.perf_counter()
        counts[answer(text)] += 1
        taken = time.perf_counter() - start
        if taken > slowest:
            slowest, slow_kind = taken, f"{kind}, {len(text):,} characters"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        row = {"counts": counts, "slowest": slowest, "kind": slow_kind, "megabytes": memory}
        print(json.dumps(row))
        return
    for name, count in counts.most_common():
        print(f"{count:7,}  {name}")
    print(f"slowest {slowest:.2f} s ({slow_kind}); most memory {memory:.0f} MB")


if __name__ == "__main__":
    main()
