"""Measure the explorer in a headless Chromium: size, first paint, clicks and their truth.

    python benchmarks/explorer.py [--clicks 200] [--json] [PROGRAM ...]

For each program: the bytes of its page beside 400 kB + 1.5 × the compressed text; the time to the
first paint and to the first instruction shown; for every click on a random element of a random
instruction whether what lights up is what the maps say, the time until it is lit (from the event
to the frame), and of that the processor time of the page's main thread.  Without PROGRAM, the GPU
dumps of GPT-2 and ResNet-152 and the StableHLO of both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import hloscope  # noqa: E402
from tests.browser import CHROMIUM, Browser  # noqa: E402
from tests.conftest import SHARED  # noqa: E402
from tests.display.explorer.clicking import clicks, press_anywhere, select  # noqa: E402

BIG: Final = SHARED / "real" / "big"
PROGRAMS: Final = (
    "gpt48_train_step.gpu.opt.hlo.txt",
    "resnet152_train_step.gpu.opt.hlo.txt",
    "gpt48_train_step.stablehlo.mlir",
    "resnet152_train_step.stablehlo.mlir",
)
TIMES: Final = """(() => {
  window.lit = [];
  addEventListener("click", (event) => {
    const after = () => lit.push(performance.now() - event.timeStamp);
    requestAnimationFrame(() => setTimeout(after, 0));
  }, true);
})()"""
TOLD: Final = """H.painted !== undefined && (H.state.k < 0 || H.view.elements.k === H.state.k)
  && performance.getEntriesByName("first-contentful-paint").length > 0"""
"""The page is drawn, and the browser has told when: it does so some time after."""
PAINTED: Final = """[performance.getEntriesByName("first-contentful-paint")[0].startTime,
  H.painted, document.getElementsByTagName("*").length]"""


def measured(program: Path, count: int, seed: int) -> dict[str, Any]:
    """What one program's page shows."""
    text = program.read_bytes()
    read = hloscope.read(program)
    start = time.process_time()
    page = read.explore().to_html().encode("utf-8", "replace")
    told: dict[str, Any] = {
        "program": program.name,
        "instructions": sum(len(c) for c in read.module),
        "made_cpu_seconds": round(time.process_time() - start, 1),
        "page_bytes": len(page),
        "most_bytes": int(400_000 + 1.5 * len(gzip.compress(text, 9))),
    }
    with tempfile.TemporaryDirectory() as folder, Browser(Path(folder)) as browser:
        file = Path(folder) / "page.html"
        file.write_bytes(page)
        browser.open(file)  # the browser itself is warm then
        browser.open(file)
        browser.until(TOLD)
        first, shown, elements = browser.value(PAINTED)
        told |= {"first_paint_ms": round(first), "shown_ms": round(shown), "dom": elements}
        told |= timed(browser, read, count, random.Random(seed))
        told["compared"] = dict(compared(browser, read, count, random.Random(seed)))
        told["errors"] = browser.said
    return told


def timed(
    browser: Browser, program: hloscope.Program, count: int, rng: random.Random
) -> dict[str, Any]:
    """Clicks on a page that stands still: the time of each, and the work of the main thread."""
    browser.call("Performance.enable", {"timeDomain": "threadTicks"})
    browser.value(TIMES)
    every = [k for k, view in enumerate(program) if view.ir.operands]
    work = []
    for done in range(count):
        select(browser, rng.choice(every))
        browser.value("new Promise((then) => requestIdleCallback(then, { timeout: 5000 }))")
        before = main_thread(browser)
        press_anywhere(browser, rng)
        browser.until(f"lit.length > {done}")
        work.append(1000 * (main_thread(browser) - before))
    lit = sorted(browser.value("lit"))
    return {
        "lit_ms": {"median": round(median(lit)), "95 %": round(lit[int(0.95 * len(lit))]),
                   "most": round(lit[-1]), "over 100": sum(ms > 100 for ms in lit)},
        "main_thread_cpu_ms": {"median": round(median(work)), "most": round(max(work))},
    }  # fmt: skip


def main_thread(browser: Browser) -> float:
    """Processor seconds that the page's main thread took."""
    metrics = browser.call("Performance.getMetrics")["metrics"]
    return next(float(m["value"]) for m in metrics if m["name"] == "TaskDuration")


def compared(
    browser: Browser, program: hloscope.Program, count: int, rng: random.Random
) -> Counter[str]:
    """How the sets of `count` clicks were compared; one that differs is counted, and said."""
    found: Counter[str] = Counter(clicks=0, equal=0)
    for _ in range(count):
        found["clicks"] += 1
        try:
            found += clicks(browser, program, 1, rng)
            found["equal"] += 1
        except AssertionError as error:
            print(f"differs: {error}", file=sys.stderr)
    return found


def said(row: dict[str, Any]) -> str:
    """A row as a person reads it."""
    times, work = row["lit_ms"], row["main_thread_cpu_ms"]
    how = ", ".join(f"{n:,} {what}" for what, n in row["compared"].items())
    made = f"{row['instructions']:,} instructions, made in {row['made_cpu_seconds']} CPU s"
    size = f"{row['page_bytes']:,} bytes of {row['most_bytes']:,}"
    paint = f"first paint {row['first_paint_ms']} ms, {row['dom']:,} elements"
    lit = f"median {times['median']} ms, 95 % {times['95 %']} ms, most {times['most']} ms"
    cpu = f"{times['over 100']} over 100 ms, main thread at most {work['most']} CPU ms"
    return (
        f"{row['program']}: {made}, {size}; {paint}; click to lit: {lit}, {cpu}; {how}; "
        f"{len(row['errors'])} errors"
    )


def main() -> None:
    """Print one line for each program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not CHROMIUM:
        sys.exit("there is no Chromium here")
    for program in options.programs or [BIG / name for name in PROGRAMS]:
        row = measured(program, options.clicks, options.seed)
        print(json.dumps(row) if options.json else said(row), flush=True)


if __name__ == "__main__":
    main()
