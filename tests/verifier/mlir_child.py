"""Asks jaxlib's MLIR what is wrong with programs: a JSON text a line in, its errors a line out."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import stablehlo_oracle  # type: ignore[import-not-found, unused-ignore]

    for line in sys.stdin:
        answer = stablehlo_oracle.parse_verify(json.loads(line), allow_unregistered=True)
        found = [d for d in answer["diagnostics"] if d["severity"] == "error"]
        print(json.dumps([(d["line"], d["message"]) for d in found]), file=replies, flush=True)


if __name__ == "__main__":
    main()
