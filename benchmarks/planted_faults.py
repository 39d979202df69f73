"""Planted faults: does the test suite notice a wrong rule, law, typing or evaluation?

    python benchmarks/planted_faults.py --coverage FILE [--count N] [--seed S] [--tree DIR] [--json]

Takes functions of the rooms below at random, changes one thing in each (a comparison, a sign, a
constant, a condition ...), and runs the tests that enter the changed line.  Reports how many
faults a test failed for, and lists those that none did: each is read by a person, who writes the
test that is missing, or finds that the change changes nothing.

FILE says which test enters which line; it is written by one run of the suite,

    COVERAGE_FILE=FILE python -m pytest -n auto --cov=hloscope --cov-context=test --cov-report=

with pytest-cov.  DIR is a checkout that nothing else uses: faults are written into its files.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOMS: Final = (
    "affine",
    "simplifier",
    "ops",
    "indexing",
    "fusion",
    "verifier",
    "interpreter/ops",
    "interpreter/numbers",
)
AT_ONCE: Final = 40
"""Tests of one run; the first run is of those that enter few lines, as they say most."""
MOST: Final = 400
"""Tests that are tried for one fault."""
ENDLESS: Final = 240
"""Seconds after which a run counts as failed: a fault may make a loop endless."""

COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
CALLED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change: `what` in line `line` of `path`; `text` is the whole file with it."""

    path: str
    line: int
    function: str
    what: str
    text: str


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in a node's place, with a word for it."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in COMPARED:
            other = COMPARED[type(op)]
            yield ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators), other.__name__
        case ast.BinOp(op=op) if type(op) in COMPUTED:
            other_op = COMPUTED[type(op)]
            yield ast.BinOp(node.left, other_op(), node.right), other_op.__name__
        case ast.BoolOp(op=ast.And()):
            yield ast.BoolOp(ast.Or(), node.values), "Or"
        case ast.BoolOp(op=ast.Or()):
            yield ast.BoolOp(ast.And(), node.values), "And"
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand, "without not"
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value), str(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1), str(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            called = ast.Name(CALLED[name], ast.Load())
            yield ast.Call(called, node.args, node.keywords), CALLED[name]
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body), "branches exchanged"


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(("__repr", "__str")):
            yield node


def _bodies(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Nodes of a function that are run: neither annotations nor texts of errors."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.FunctionDef | ast.Assert):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":
            continue  # of lists that have one length, `zip` makes the same either way
        yield node
        todo.extend(ast.iter_child_nodes(node))


def planted(tree: Path, count: int, seed: int) -> list[Fault]:
    """`count` faults, no two in one function, every function as likely as another."""
    rng = random.Random(seed)
    functions = [
        (path, function.name, function.lineno)
        for room in ROOMS
        for path in sorted((tree / "hloscope" / room).rglob("*.py"))
        for function in _functions(ast.parse(path.read_text()))
    ]
    rng.shuffle(functions)
    faults: list[Fault] = []
    for path, name, line in functions:
        text = path.read_text()
        function = next(f for f in _functions(ast.parse(text)) if f.lineno == line)
        changes = [(n, *change) for n in _bodies(function) for change in _changes(n)]
        if not changes:
            continue
        node, other, what = rng.choice(changes)
        fault = Fault(
            str(path.relative_to(tree)),
            node.lineno,  # type: ignore[attr-defined]
            name,
            f"{ast.unparse(node)}  ->  {what}",
            _replaced(text, node, ast.unparse(ast.fix_missing_locations(other))),
        )
        faults.append(fault)
        if len(faults) == count:
            break
    return faults


def _replaced(text: str, node: ast.AST, other: str) -> str:
    """The file's text with one expression in another's place, all other lines as they are."""
    lines = text.splitlines(keepends=True)
    data = [line.encode() for line in lines]  # columns of the tree count bytes
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    head = data[first][: node.col_offset]  # type: ignore[attr-defined]
    tail = data[last][node.end_col_offset :]  # type: ignore[attr-defined]
    return b"".join(
        [*data[:first], head + f"({other})".encode() + tail, *data[last + 1 :]]
    ).decode()


class Coverage:
    """Which tests enter a line, from the file that coverage.py writes."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._tests = {
            number: context.split("|")[0]
            for number, context in self._db.execute("select id, context from context")
        }
        self._files = {
            name: number for number, name in self._db.execute("select id, path from file")
        }
        self._width = Counter(
            number for (number,) in self._db.execute("select context_id from line_bits")
        )

    def tests(self, path: str, line: int) -> list[str]:
        """Tests that enter a line, those first that enter few files."""
        number = next((n for name, n in self._files.items() if name.endswith("/" + path)), None)
        byte, bit = divmod(line, 8)
        found = [
            context
            for context, bits in self._db.execute(
                "select context_id, numbits from line_bits where file_id = ?", (number,)
            )
            if byte < len(bits) and bits[byte] >> bit & 1 and self._tests[context]
        ]
        found.sort(key=lambda context: (self._width[context], self._tests[context]))
        return [self._tests[context] for context in found]


def noticed(fault: Fault, tests: list[str], tree: Path) -> str | None:
    """The first test that fails for a fault, `import` where nothing can be imported, or None."""
    path = tree / fault.path
    original = path.read_text()
    path.write_text(fault.text)
    try:
        for start in range(0, min(len(tests), MOST), AT_ONCE):
            failed = _failing(tests[start : start + AT_ONCE], tree)
            if failed:
                return failed
        return None
    finally:
        path.write_text(original)


def _failing(tests: list[str], tree: Path) -> str | None:
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-q",
        "-x",
        "--no-header",
        "-p",
        "no:cacheprovider",
    ]
    try:
        run = subprocess.run(
            [*command, *tests],
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=ENDLESS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end in {ENDLESS} s: {tests[0]} ..."
    if run.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (.*)$", run.stdout, re.MULTILINE)
    return named[1] if named else f"pytest ends with {run.returncode}: {run.stdout[-300:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coverage", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--part", default="0/1", help="only faults I of N: 0/2")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    coverage = Coverage(args.coverage)
    part, parts = map(int, args.part.split("/"))
    ends: Counter[str] = Counter()
    for number, fault in enumerate(planted(args.tree, args.count, args.seed)):
        if number % parts != part:
            continue
        tests = coverage.tests(fault.path, fault.line)
        by = noticed(fault, tests, args.tree) if tests else None
        end = "caught" if by else "survived" if tests else "never entered"
        ends[end] += 1
        if args.json:
            told = {k: v for k, v in asdict(fault).items() if k != "text"}
            print(json.dumps({**told, "end": end, "by": by, "tests": len(tests)}), flush=True)
        else:
            print(f"{end:14}{fault.path}:{fault.line} {fault.function}: {fault.what}", flush=True)
            print(f"{'':14}{by or f'{len(tests)} tests'}", flush=True)
    print(f"{ends['caught']} of {ends.total()} caught; {dict(ends)}", file=sys.stderr)


if __name__ == "__main__":
    main()
