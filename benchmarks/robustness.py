"""Broken programs: is every answer one of our own errors, soon, and without much memory?

    python benchmarks/robustness.py [--count N] [--seed S] [--commands] [--keep DIR] [--json]

Takes HLO and StableHLO texts of the conformance data, breaks each in one of several ways, and
reads, verifies and prints it.  With --commands each is given to one command with options of its
own, maps to `simplify` among them.  Reports what is not an answer or a `HloscopeError`, what takes
more than 2 s of the processor, the slowest text, and the most memory the process held; --keep
writes such texts to files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from click.testing import CliRunner  # noqa: E402

import hloscope  # noqa: E402
from hloscope.cli.app import app  # noqa: E402
from hloscope.errors import HloscopeError  # noqa: E402
from tests.conftest import SHARED  # noqa: E402
from tests.mutations import mutations, originals  # noqa: E402

SOON = 2.0
"""Seconds within which everything has an answer."""
ENDLESS = 30
COMMANDS = """
    verify -
    print -
    print - --generic
    ls - --all
    ls - --json
    show -
    show - --json
    infer -
    infer - --json
    run - --random 1 --max-steps 20000
    run - --random 2 --max-steps 20000 --json
    opt - --fold
    index -
    index - --json
    index - --all
    index - --all --to-parameters
    index - --all --verify
    index - --to-parameters --format print_indexing
    index - --from-operand 0
    index - --all --from-operand 0 --verify
    index - --physical
    index - --linear
    index - --all --linear --verify
    index - --format svg
    index - --format html
    index - --format latex
"""
EVERY = [line.split() for line in COMMANDS.strip().splitlines()]


class TooLongError(BaseException):
    """Nothing was answered in `ENDLESS` seconds; nobody else catches it."""


def _too_long(_: int, __: FrameType | None) -> None:
    raise TooLongError


def cpu_seconds() -> float:
    """What this process and those it waited for have used."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


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


def command_answer(arguments: list[str], text: str) -> str:
    """What a command ends with that is given the text."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, ENDLESS)
    try:
        done = CliRunner().invoke(app, arguments, input=text.encode("utf-8", "surrogateescape"))
    except TooLongError:
        return "no end"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{type(done.exception).__name__}: {done.exception}"[:200]
    if done.exit_code == 5:
        return f"exit 5: {done.stderr.strip().splitlines()[:1]}"[:200]
    return "fine" if done.exit_code == 0 else f"refused ({done.exit_code})"


def cases(count: int, seed: int, commands: bool) -> Iterator[tuple[str, list[str], str]]:
    """Yield how each text was broken, the command it is for, and the text."""
    rng = random.Random(seed)
    maps = [line.rstrip("\n") for line in MAPS]
    programs = mutations(originals(SHARED), count, seed)
    broken_maps = mutations(maps, count, seed)
    for kind, text in programs:
        if commands and rng.random() < 0.1:
            kind, text = next(broken_maps)
            yield f"map: {kind}", ["simplify", "-"], text
        else:
            yield kind, rng.choice(EVERY) if commands else [], text


MAPS = """\
(d0, d1)[s0] -> (d0 * 2 + s0, d1 / 3), domain: d0 in [0, 9], d1 in [0, 11], s0 in [0, 1]
(d0)[s0, s1]{rt0} -> ((d0 + rt0) mod 8, s0 * 4 + s1), domain: d0 in [0, 63], s0 in [0, 3], \
s1 in [0, 3], rt0 in [0, 7], d0 + s0 in [2, 60]
(d0 floordiv 128, d0 mod 128), domain: d0 in [0, 16383]
(th_x, bl_x)[s0] -> ((bl_x * 128 + th_x) / 100, (bl_x * 128 + th_x) mod 100 + s0 * 0), domain: \
th_x in [0, 127], bl_x in [0, 99], s0 in [0, 3], bl_x * 128 + th_x in [0, 9999]
""".splitlines()


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit("the conformance data (`../shared`) is absent")
    counts: Counter[str] = Counter()
    slowest, slow_kind, slow = 0.0, "", 0
    for number, (kind, command, text) in enumerate(
        cases(options.count, options.seed, options.commands)
    ):
        start = cpu_seconds()
        found = command_answer(command, text) if command else answer(text)
        taken = cpu_seconds() - start
        counts[found] += 1
        slow += taken > SOON
        if taken > slowest:
            slowest, slow_kind = taken, f"{' '.join(command)} {kind}, {len(text):,} characters"
        if options.keep and (taken > SOON or not found.startswith(("fine", "refused"))):
            options.keep.mkdir(parents=True, exist_ok=True)
            name = options.keep / f"{options.seed}_{number}.txt"
            name.write_bytes(text.encode("utf-8", "surrogateescape"))
            print(f"{name}: {' '.join(command)}: {found} ({taken:.1f} s)", flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        row = {
            "counts": counts, "slowest": slowest, "kind": slow_kind, "slow": slow,
            "megabytes": memory,
        }  # fmt: skip
        print(json.dumps(row))
        return
    for name, count in counts.most_common():
        print(f"{count:7,}  {name}")
    print(f"over {SOON:g} s: {slow}; slowest {slowest:.2f} s ({slow_kind})")
    print(f"most memory {memory:.0f} MB")


if __name__ == "__main__":
    main()
