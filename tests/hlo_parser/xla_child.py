"""A child process that asks XLA whether pairs of HLO texts are the same module.

XLA ends the process on some inputs, so it never runs inside the tests.  Reads JSON lines
`[number, text, text]` from standard input, writes a line `number verdict` for each; the verdict is
`same`, `original` (XLA rejects the first text), or what differs.
"""

from __future__ import annotations

import json
import sys

from jax._src.lib import hlo  # type: ignore[import-not-found, unused-ignore]


def canonical(text: str) -> str:
    options = hlo.HloPrintOptions.canonical()
    options.print_metadata = True
    options.print_backend_config = True
    options.print_control_dependencies = True
    return str(hlo.hlo_module_from_text(text).to_string(options))


def verdict(original: str, printed: str) -> str:
    try:
        want = canonical(original)
    except Exception:
        return "original"
    try:
        have = canonical(printed)
    except Exception as error:
        return "rejected: " + " ".join(str(error).split())[:400]
    if want == have:
        return "same"
    lines = zip(want.splitlines(), have.splitlines(), strict=False)
    return "differs: " + next((f"{a} / {b}" for a, b in lines if a != b), "lengths")


def main() -> None:
    for line in sys.stdin:
        number, original, printed = json.loads(line)
        print(number, "started", flush=True)
        print(number, verdict(original, printed).replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
