"""Faults that are planted: where, which changes, and those that are known to change nothing.

One change of an expression in a function: a comparison, a sign, a constant, a condition.  Not
planted: what `raise` says, texts, and constants in patterns of `match`, which no condition can
stand in for.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOMS: Final = (
    "affine",
    "cost",
    "fusion",
    "hlo_parser",
    "indexing",
    "interpreter",
    "ir",
    "memory",
    "mlir",
    "movement",
    "ops",
    "passes",
    "proof",
    "simplifier",
    "stablehlo",
    "tiling",
    "verifier",
)
"""The packages in which faults are planted: those whose tests have a folder of the same name."""
EQUIVALENT: Final[dict[str, str]] = {
    "floats.py kernel: first.size <= _BLOCK  ->  Lt": "one block is computed whole or as one block",
    "shape.py _reshape: prod(shape) <= _SMALL  ->  Lt": "the limit tells which way is faster",
    "sorting.py compare: 1  ->  2": "any negative number says that the first is less",
    "linalg.py kernel: False  ->  True": "a copy more",
    "shape.py _complex: t.element.kind == 'complex'  ->  NotEq": "two such answers are compared",
    "analysis.py __init__: 0  ->  1": "places are numbered in order, from any number on",
    "gather_scatter.py combine: most * _ROUND_COST  ->  Add": "the limit tells which way is faster",
    "shape.py broadcast: prod(sizes) > _SMALL  ->  GtE": "the limit tells which way is faster",
    "contraction.py kernel: False  ->  True": "a copy more",
    "batch_norm.py whole: False  ->  True": "a copy more",
    "claims.py empty: 0  ->  1": "no map has no point, in any number of dimensions",
    "floats.py extremum: a != 0 or b != 0  ->  And": "one zero is compared the long way",
    "structure.py _operand_leaves: 0  ->  1": "an asynchronous value that is no tuple is refused",
    "elementwise.py _is_alike: dtype.isbuiltin == 1  ->  NotEq": "it tells which way is faster",
    "meaning.py largest_number: -c > largest  ->  GtE": "an equal number takes its own place",
    "run_time_sizes.py sizes_agree: any((read.reason for read in size_reads(ins, 0, dimension) or"
    " ()))  ->  all": "all reads of a size have a reason or none has; without any, nothing expands",
    "graph.py _combiner: any((value.name for value in arguments))  ->  all": (
        "a region has names for all of its arguments or for none"
    ),
    "module.py read_signature: arrow < 0  ->  LtE": "an arrow comes after the inputs, so not at 0",
    "tiles.py lies_in: all([i.lo <= sides[v].lo and sides[v].hi <= i.hi for v, i in"
    " part.intervals.items() if isinstance(v, Dim)])  ->  any": (
        "a part without results and constraints has one dimension"
    ),
    "isl_relations.py expr: self.quotients > FEW  ->  GtE": "the limit tells how long isl may try",
    "batch_norm.py rounded: False  ->  True": "a copy more",
    "convert.py _latex_sum: 0  ->  1": "no coefficient is 0, and a constant of 0 is not written",
    "nsight.py read_sqlite: True  ->  False": "SQLite built with `USE_URI` reads every URI as one",
    "costs.py _read_by_element: v.interval.hi - v.interval.lo  ->  Add": (
        "the range variables of a rule's map begin at 0"
    ),
    "sets.py _has_result: prod((i.size for i in m.box.values())) <= CHUNK  ->  Lt": (
        "the limit tells which way is faster"
    ),
    "relations.py relation: not m.runtime  ->  without not": "relations are built again",
    "text.py shared: _FIRST + len(parts)  ->  Sub": "any different numbers name the parts",
    "sets.py _set_of: False  ->  True": "no dimensions are left to remove",
    "sets.py from_isl: 1  ->  2": "runtime variables that nothing uses are removed",
    "analysis.py reached_outputs: len(about.leaves(callee.root.type)) > MAX_ENDS  ->  GtE": (
        "the limit tells which way is faster"
    ),
    "gather_scatter.py batch_coordinate: dim > self.index_vector_dim  ->  GtE": (
        "a batching dimension is never the one of the index vectors"
    ),
    "numbering.py __init__: 1  ->  2": "depths of aliases and numbers of uses are only compared",
    "storage.py is_worth_it: minor >= warp  ->  Gt": "a row as long as a warp divides the warp",
    "counting.py _sorted_within: offsets[1:] >= offsets[:-1]  ->  Gt": (
        "equal offsets are in order and are sorted again"
    ),
    "running.py elements: rng.random(shape) < odds  ->  LtE": (
        "a random number equals the share once in 2**53 draws"
    ),
}
"""Faults that change nothing, `file function: change`, and why; each was read by a person."""

SLEEPING: Final = """\
import atexit, builtins, os, sys

sys.modules["jaxlib"] = None  # absent
awake = int(os.environ.get("PLANTED", "-1"))
asked = set()


def planted(number):
    asked.add(number)
    return number == awake


def tell():
    if folder := os.environ.get("PLANTED_ASKED"):
        with open(f"{folder}/{os.getpid()}", "w") as file:
            file.write(" ".join(map(str, asked)))


builtins.planted = planted
atexit.register(tell)
"""
"""`sitecustomize.py` of the copy: every Python process has `planted` there, and none has XLA."""

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
    """One change of an expression: `what`, in line `line` of `path`.

    Attributes:
        end: The line in which the expression ends.
        begins: Its first column, in bytes.
        ends: The column after it.
        other: What stands in its place.
    """

    path: str
    line: int
    function: str
    what: str
    end: int
    begins: int
    ends: int
    other: str


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
    """Expressions of a function that are run: neither annotations nor texts of errors."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.FunctionDef | ast.Assert | ast.pattern):
            continue
        if isinstance(node, ast.AnnAssign):
            todo.extend(child for child in (node.target, node.value) if child)
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":
            continue  # of lists that have one length, `zip` makes the same either way
        yield node
        todo.extend(ast.iter_child_nodes(node))


def possible(path: Path) -> set[str]:
    """All faults that can be planted in a file, in the form of the keys of `EQUIVALENT`."""
    return {
        f"{path.name} {function.name}: {ast.unparse(node)}  ->  {what}"
        for function in _functions(ast.parse(path.read_text()))
        for node in _bodies(function)
        for _, what in _changes(node)
    }


def faults(tree: Path, count: int, seed: int) -> list[Fault]:
    """`count` faults, no two in one function, every function as likely as another."""
    rng = random.Random(seed)
    functions = [
        (path, function)
        for room in ROOMS
        for path in sorted((tree / "hloscope" / room).rglob("*.py"))
        for function in _functions(ast.parse(path.read_text()))
    ]
    rng.shuffle(functions)
    found: list[Fault] = []
    for path, function in functions:
        changes = [(n, *change) for n in _bodies(function) for change in _changes(n)]
        if not changes:
            continue
        node, other, what = rng.choice(changes)
        found.append(
            Fault(
                str(path.relative_to(tree)),
                node.lineno,  # type: ignore[attr-defined]
                function.name,
                f"{ast.unparse(node)}  ->  {what}",
                node.end_lineno,  # type: ignore[attr-defined]
                node.col_offset,  # type: ignore[attr-defined]
                node.end_col_offset,  # type: ignore[attr-defined]
                ast.unparse(ast.fix_missing_locations(other)),
            )
        )
        if len(found) == count:
            break
    return found


def plant(tree: Path, found: Sequence[Fault]) -> None:
    """Writes all faults into a tree's files, asleep."""
    by_path: dict[str, list[tuple[int, Fault]]] = {}
    for number, fault in enumerate(found):
        by_path.setdefault(fault.path, []).append((number, fault))
    for name, numbered in by_path.items():
        path = tree / name
        text = path.read_text()
        for number, fault in sorted(numbered, key=lambda pair: -pair[1].line):
            text = _replaced(text, fault, number)
        ast.parse(text)
        path.write_text(text)
    (tree / "sitecustomize.py").write_text(SLEEPING)


def _replaced(text: str, fault: Fault, number: int) -> str:
    """The file's text with `other if planted(number) else` before an expression."""
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # columns count bytes
    first, last = fault.line - 1, fault.end - 1
    head, tail = lines[first][: fault.begins], lines[last][fault.ends :]
    lines[last] = lines[last][: fault.ends]
    lines[first] = lines[first][fault.begins :]
    changed = head + f"(({fault.other}) if planted({number}) else (".encode()
    changed += b"".join(lines[first : last + 1]) + b"))" + tail
    return b"".join([*lines[:first], changed, *lines[last + 1 :]]).decode()


def why(fault: Fault) -> str:
    """Why a fault changes nothing, if it is known to."""
    return EQUIVALENT.get(f"{Path(fault.path).name} {fault.function}: {fault.what}", "")
