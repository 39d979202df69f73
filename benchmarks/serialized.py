"""Programs written as artifacts of every version, beside jaxlib's bytes of the same programs.

    python benchmarks/serialized.py --oracle PYTHON [--locations] [--mixed] [--json] [FILE …]

`PYTHON` is an interpreter that has jaxlib; this one by default.  Without files: StableHLO's own
test data, the programs of JAX and of models.  A module that jaxlib has written keeps its uses in
another order and may be written otherwise from then on, so it is read anew for every target.
`--locations` compares programs with the places of their text, `--mixed` keeps attributes of other
dialects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.errors import HloscopeError  # noqa: E402
from hloscope.mlir import parse_mlir, print_mlir, split_input  # noqa: E402
from hloscope.mlir.dialects import DIALECTS  # noqa: E402
from hloscope.passes import find_pass  # noqa: E402
from hloscope.stablehlo.bytecode import in_version, write_bytecode  # noqa: E402
from hloscope.stablehlo.vhlo import (  # noqa: E402
    RELEASES,
    bytecode_version,
    to_vhlo,
    version_of,
    version_text,
)
from tests.conftest import SHARED  # noqa: E402
from tests.oracle import Child  # noqa: E402

FOLDERS: Final = (
    *(f"conformance/stablehlo/{name}" for name in ("jax_samples", "interpret", "testdata", "vhlo")),
    "real",
)
LIBRARY: Final = "1.17.0"
TARGETS: Final = tuple(
    version_text(one.version) for one in RELEASES if one.version <= version_of(LIBRARY)
)
REFUSED: Final = "refused"

_ORACLE: Final = """
import hashlib, json, os, sys
sys.path.insert(0, sys.argv[1])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import stablehlo_oracle as oracle
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import stablehlo
context = oracle.context(False)

def read(text, located):
    module = ir.Module.parse(text, context)
    if not located:
        passmanager.PassManager.parse(
            "builtin.module(strip-debuginfo)", context).run(module.operation)
    return module

def written(text, targets, located, mixed):
    found = {}
    for target in targets:
        module = read(text, located)
        try:
            data = stablehlo.serialize_portable_artifact(module, target, mixed)
            found[target] = hashlib.sha1(data).hexdigest()
        except ValueError:
            found[target] = "refused"
    return found

for line in sys.stdin:
    text, targets, located, mixed = json.loads(line)
    reply = {}
    with context, oracle._collect(context):
        try:
            if located:
                module = ir.Module.parse(text, context)
                reply["text"] = text = module.operation.get_asm(
                    enable_debug_info=True, print_generic_op_form=True)
            reply["written"] = written(text, targets, located, mixed)
        except Exception as error:
            reply = {"error": str(error)[:200]}
    print(json.dumps(reply), file=replies, flush=True)
"""


class Reference(Child):
    """jaxlib in a process of its own; a new one after it died."""

    def __init__(self, python: str) -> None:
        super().__init__(python, "-c", _ORACLE, str(SHARED / "oracle"))

    def answer(self, *question: Any) -> dict[str, Any]:
        """What it answers to text, targets, whether with locations, whether mixed."""
        found: dict[str, Any] = json.loads(self.ask(question) or '{"error": "the process died"}')
        return found


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """The programs of a file; ops that only check values are left out."""
    for line, text in split_input(path.read_text()):
        if "check." in text:
            try:
                tree = parse_mlir(text, path.name, dialects=DIALECTS)
            except HloscopeError:
                continue
            for op in tree.walk():
                for region in op.regions:
                    for block in region.blocks:
                        kept = [
                            one for one in block.operations if not one.name.startswith("check.")
                        ]
                        block.operations = tuple(kept)
            text = print_mlir(tree, dialects=DIALECTS)
        yield line, text


def ours(text: str, located: bool, mixed: bool) -> dict[str, str]:
    """What this package writes at every target."""
    tree = parse_mlir(text, "-", dialects=DIALECTS)
    if not located:
        tree, _ = find_pass("strip-debuginfo").apply(tree)
    library = version_of(LIBRARY)
    try:
        if not mixed and not any(op.name.startswith("vhlo.") for op in tree.walk()):
            tree = to_vhlo(tree, library)
    except HloscopeError:
        return dict.fromkeys(TARGETS, REFUSED)
    found = {}
    for target in TARGETS:
        version = version_of(target)
        try:
            made = in_version(tree, version, library, allow_other_dialects=mixed)
            data = write_bytecode(
                made.module,
                producer=f"StableHLO_v{target}",
                version=bytecode_version(version),
                orders=made.orders,
            )
            found[target] = hashlib.sha1(data).hexdigest()
        except HloscopeError:
            found[target] = REFUSED
    return found


class Comparison:
    """Counts of what is the same and what is not."""

    def __init__(self, python: str, located: bool, mixed: bool) -> None:
        self.located, self.mixed = located, mixed
        self.reference = Reference(python)
        self.counts: Counter[str] = Counter()

    def piece(self, name: str, text: str) -> None:
        """Compare one program at every target."""
        reply = self.reference.answer(text, TARGETS, self.located, self.mixed)
        if "error" in reply:
            self.counts["programs that jaxlib does not read"] += 1
            return
        try:
            mine = ours(reply.get("text", text), self.located, self.mixed)
        except HloscopeError as error:
            self.counts["programs that we do not read"] += 1
            print(f"{name}: not read: {str(error)[:200]}", flush=True)
            return
        self.counts["programs"] += 1
        for target, theirs in reply["written"].items():
            what = self._verdict(mine[target], theirs)
            self.counts[what] += 1
            if what not in ("same", "both refuse"):
                print(f"{name} {target}: {what}", flush=True)

    @staticmethod
    def _verdict(mine: str, theirs: str) -> str:
        if mine == theirs:
            return "both refuse" if mine == REFUSED else "same"
        if mine == REFUSED:
            return "we refuse"
        return "jaxlib refuses" if theirs == REFUSED else "different"


def files() -> Iterator[Path]:
    """The texts that are compared without files given."""
    for folder in FOLDERS:
        yield from sorted((SHARED / folder).glob("**/*.mlir"))


def main() -> None:
    """Print every difference and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", default=sys.executable)
    parser.add_argument("--locations", action="store_true")
    parser.add_argument("--mixed", action="store_true")
    parser.add_argument("--part", default="0/1", help="only every n-th file: k/n")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    comparison = Comparison(options.oracle, options.locations, options.mixed)
    which, of = map(int, options.part.split("/"))
    for number, path in enumerate(options.files or list(files())):
        if number % of == which:
            for line, text in pieces(path):
                comparison.piece(f"{path.name}:{line}", text)
    comparison.reference.close()
    if options.json:
        print(json.dumps(comparison.counts))
        return
    for what, count in sorted(comparison.counts.items()):
        print(f"{count:8} {what}")


if __name__ == "__main__":
    main()
