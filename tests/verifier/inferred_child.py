"""A child process that says what XLA infers of HLO texts: a JSON text a line in, an answer out.

An answer is `["reads", the module as XLA prints it]` or `["refuses", why]`.  XLA ends the process
on some inputs: then the answer is missing.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from jax._src.lib import hlo  # type: ignore[import-not-found, unused-ignore]

    options = hlo.HloPrintOptions()
    options.print_percent = False
    for line in sys.stdin:
        try:
            answer = ["reads", hlo.hlo_module_from_text(json.loads(line)).to_string(options)]
        except Exception as error:
            answer = ["refuses", str(error)]
        print(json.dumps(answer), file=replies, flush=True)


if __name__ == "__main__":
    main()
