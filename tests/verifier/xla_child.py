"""A child process that says whether XLA takes an HLO text: reads it, lowers it to StableHLO.

Reads JSON lines `text`; writes `started`, then `accepts` or `refuses`.  XLA ends the process on
some inputs: then the second line is missing.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    import hlo_oracle  # type: ignore[import-not-found, unused-ignore]

    for line in sys.stdin:
        print("started", flush=True)
        try:
            hlo_oracle.to_stablehlo(json.loads(line))
            print("accepts", flush=True)
        except Exception:
            print("refuses", flush=True)


if __name__ == "__main__":
    main()
