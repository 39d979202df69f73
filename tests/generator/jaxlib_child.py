"""Asks jaxlib whether it takes programs: a JSON text a line in, why it does not a line out."""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import hlo_oracle  # type: ignore[import-not-found, unused-ignore]
    import stablehlo_oracle  # type: ignore[import-not-found, unused-ignore]

    for line in sys.stdin:
        text, why = json.loads(line), ""
        if sys.argv[2] == "hlo":
            try:
                hlo_oracle.parse(text)
            except Exception as error:
                why = str(error)[:500] or "refused"
        else:
            answer = stablehlo_oracle.parse_verify(text)
            wrong = [d["message"] for d in answer["diagnostics"] if d["severity"] == "error"]
            why = "; ".join(wrong)
        print(json.dumps(why), file=replies, flush=True)


if __name__ == "__main__":
    main()
