"""A child process that asks XLA about HLO texts.

XLA ends the process on some inputs, so it never runs inside the tests.  Reads JSON lines
`[number, original, print]` from standard input; writes `number started`, then
`number` and the answer in JSON.  The argument chooses the question: `same`, are the two texts
the same module (`same`, `original` if XLA rejects the first text, or what differs); `styles`, how
does XLA print the original.
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


def styles(text: str) -> dict[str, str]:
    """XLA's own prints; without metadata, as it renumbers stack frames."""
    module = hlo.hlo_module_from_text(text)
    default = hlo.HloPrintOptions()
    default.print_metadata = False
    default.print_large_constants = True
    short = hlo.HloPrintOptions.short_parsable()
    short.print_large_constants = True
    return {"default": module.to_string(default), "short": module.to_string(short)}


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
    ask = {"same": verdict, "styles": lambda original, _: styles(original)}[sys.argv[1]]
    for line in sys.stdin:
        number, original, printed = json.loads(line)
        print(number, "started", flush=True)
        print(number, json.dumps(ask(original, printed)), flush=True)


if __name__ == "__main__":
    main()
