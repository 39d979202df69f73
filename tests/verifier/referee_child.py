"""jaxlib's verdict on texts: JSON lines `[language, text]` in, `[verdict, message]` out.

HLO is read and lowered; what comes out, or StableHLO as it is given, is read and verified.  The
verdict is `accepts` or `refuses`.
"""

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
        language, text = json.loads(line)
        message = ""
        try:
            program = hlo_oracle.to_stablehlo(text) if language == "hlo" else text
            found = stablehlo_oracle.parse_verify(program)["diagnostics"]
            message = next((d["message"] for d in found if d["severity"] == "error"), "")
        except Exception as error:
            message = str(error) or type(error).__name__
        verdict = "refuses" if message else "accepts"
        print(json.dumps([verdict, message[:300]]), file=replies, flush=True)


if __name__ == "__main__":
    main()
