"""Asks jaxlib's MLIR what is wrong with programs: a JSON text a line in, its errors a line out."""

from __future__ import annotations

import json
import os
import sys

sys.path.insert(0, sys.argv[1])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import stablehlo_oracle  # type: ignore[import-not-found]  # noqa: E402

for line in sys.stdin:
    found = stablehlo_oracle.parse_verify(json.loads(line), allow_unregistered=True)["diagnostics"]
    errors = [(d["line"], d["message"]) for d in found if d["severity"] == "error"]
    print(json.dumps(errors), file=replies, flush=True)
