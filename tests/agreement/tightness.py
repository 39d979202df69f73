"""How tight are the answers about `while`, `scatter` and `select-and-scatter`?

    python -m tests.agreement.tightness [--count N] [--show N] [OP ...]

Random programs of one such op are answered from outputs to inputs and run by the interpreter: which
inputs change an output, if only one element of them changes, beside many choices of the others?
An answer (one output, one tensor of an operand) is

- `exact`: claimed, and every dependence of it was seen;
- `not seen`: claimed exact, but not every dependence was seen in the runs that there were;
- `tight`: claimed as `over`, though execution shows exactly that;
- `over`: claimed as `over`, and some of it was never seen;
- `wrong`: a dependence was seen that is not claimed.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import hloscope
from hloscope.fusion import Analysis, leaf_types
from hloscope.indexing import Precision
from hloscope.interpreter import EvaluationError
from hloscope.ir import Instruction, TensorType
from hloscope.ops import Constant
from tests.agreement.claims import claim

CONFIGURATIONS, TRIALS = 4, 24
"""Choices of the indices, and of the data for each of them."""
Arrays = list[NDArray[Any]]


class Case(NamedTuple):
    """A program of one op, whose operands are its parameters.

    Attributes:
        text: The program.
        kind: The variant, for tables.
        fixed: Leaves that are chosen once for all data: indices, whose values maps may name.
    """

    text: str
    kind: str
    fixed: tuple[int, ...] = ()


# ------------------------------------------------------------------------------------ programs

BODIES = {
    "add": "ROOT r = f32[] add(a, b)",
    "add, swapped": "ROOT r = f32[] add(b, a)",
    "new": "ROOT r = f32[] copy(b)",
    "old": "ROOT r = f32[] copy(a)",
    "maximum": "ROOT r = f32[] maximum(a, b)",
    "constant": "ROOT r = f32[] constant(7)",
    "negated new": "ROOT r = f32[] negate(b)",
    "double old": "ROOT r = f32[] add(a, a)",
}
SELECTS = {
    "GE": "ROOT r = pred[] compare(a, b), direction=GE",
    "LE, swapped": "ROOT r = pred[] compare(b, a), direction=LE",
    "EQ": "ROOT r = pred[] compare(a, b), direction=EQ",
    "NE": "ROOT r = pred[] compare(a, b), direction=NE",
    "always": "ROOT r = pred[] constant(true)",
    "never": "ROOT r = pred[] constant(false)",
    "of negated": "n = f32[] negate(a) m = f32[] negate(b)"
    " ROOT r = pred[] compare(n, m), direction=GT",
    "of the first": "z = f32[] constant(5) ROOT r = pred[] compare(a, z), direction=GT",
}


def _function(name: str, body: str) -> str:
    return f"{name} {{ a = f32[] parameter(0) b = f32[] parameter(1) {body} }}\n"


def scatter(random: Random) -> Case:
    """A scatter of rows or of elements, with indices that are constant or not."""
    name = random.choice(list(BODIES))
    rank = random.choice([1, 1, 2])
    shape = [random.randint(1, 4) for _ in range(rank)]
    rows = random.randint(1, 3)
    window = [random.randint(1, n) for n in shape] if random.random() < 0.5 else [1] * rank
    keeps = window != [1] * rank
    updates = [rows, *window] if keeps else [rows]
    attributes = (
        f"update_window_dims={{{','.join(map(str, range(1, rank + 1))) if keeps else ''}}}, "
        f"inserted_window_dims={{{'' if keeps else ','.join(map(str, range(rank)))}}}, "
        f"scatter_dims_to_operand_dims={{{','.join(map(str, range(rank)))}}}, index_vector_dim=1"
    )
    places = [[random.randint(0, n - 1) for n in shape] for _ in range(rows)]
    constant = random.random() < 0.4
    unique = random.random() < 0.3 and not keeps and len({*map(tuple, places)}) == rows
    literal = ", ".join("{" + ", ".join(map(str, row)) + "}" for row in places)
    index = f"s32[{rows},{rank}]"
    given = f"constant({{ {literal} }})" if constant else "parameter(2)"
    whole = f"f32[{','.join(map(str, shape))}]"
    text = _function("f", BODIES[name]) + (
        f"ENTRY e {{ p = {whole} parameter(0) u = f32[{','.join(map(str, updates))}] parameter(1)\n"
        f"  i = {index} {given}\n  ROOT r = {whole} scatter(p, i, u), {attributes}, to_apply=f"
        f"{', unique_indices=true' if unique and constant else ''} }}"
    )
    kind = f"{name}, {'constant' if constant else 'run-time'} indices"
    return Case(text, kind, () if constant else (2,))


def select_and_scatter(random: Random) -> Case:
    """Windows of any size and step, whose choice and sum are of several kinds."""
    select, body = random.choice(list(SELECTS)), random.choice(list(BODIES))
    rank = random.choice([1, 1, 2])
    shape = [random.randint(1, 5) for _ in range(rank)]
    window = [random.randint(1, min(n, 3)) for n in shape]
    steps = [random.randint(1, 3) for _ in shape]
    source = [(n - w) // s + 1 for n, w, s in zip(shape, window, steps, strict=True)]
    joined = {"size": window, "stride": steps}
    said = " ".join(f"{k}={'x'.join(map(str, v))}" for k, v in joined.items())
    whole, part = (f"f32[{','.join(map(str, s))}]" for s in (shape, source))
    text = _function("s", SELECTS[select]) + _function("f", BODIES[body])
    text += (
        f"ENTRY e {{ p = {whole} parameter(0) u = {part} parameter(1) z = f32[] parameter(2)\n"
        f"  ROOT r = {whole} select-and-scatter(p, u, z), window={{{said}}}, select=s, scatter=f }}"
    )
    return Case(text, f"{select}; {body}")


TURNS = {
    "negate": "{n} = f32[4] negate({a})",
    "reverse": "{n} = f32[4] reverse({a}), dimensions={{0}}",
    "add": "{n} = f32[4] add({a}, {b})",
    "other": "{n} = f32[4] copy({b})",
    "rotate": "{n}.x = f32[3] slice({a}), slice={{[1:4]}} {n}.y = f32[1] slice({a}),"
    " slice={{[0:1]}} {n} = f32[4] concatenate({n}.x, {n}.y), dimensions={{0}}",
    "shift in": "{n}.x = f32[3] slice({a}), slice={{[1:4]}} {n}.y = f32[1] slice({b}),"
    " slice={{[0:1]}} {n} = f32[4] concatenate({n}.x, {n}.y), dimensions={{0}}",
    "write at i": "{n}.x = f32[1] slice({b}), slice={{[1:2]}}"
    " {n} = f32[4] dynamic-update-slice({a}, {n}.x, i)",
    "read at i": "{n}.x = f32[1] dynamic-slice({b}, i), dynamic_slice_sizes={{1}}"
    " {n}.r = f32[] reshape({n}.x) {n} = f32[4] broadcast({n}.r), dimensions={{}}",
    "keep": "{n} = f32[4] copy({a})",
    "copy i to i": "{n}.x = f32[1] dynamic-slice({b}, i), dynamic_slice_sizes={{1}}"
    " {n} = f32[4] dynamic-update-slice({a}, {n}.x, i)",
}


def loop(random: Random) -> Case:
    """A loop that counts to a constant or to an argument, over two arrays."""
    chosen = [random.choice(list(TURNS)) for _ in range(2)]
    names = [("a", "b"), ("b", "a")]
    lines = [
        TURNS[turn].format(n=f"n{k}", a=a, b=b)
        for k, (turn, (a, b)) in enumerate(zip(chosen, names, strict=True))
    ]
    counted = random.random() < 0.6
    limit = f"constant({random.randint(0, 5)})" if counted else "get-tuple-element(s), index=3"
    start = random.choice(["z", "i"]) if counted else "i"
    state = "(s32[], f32[4], f32[4], s32[])"
    parts = (
        f"s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0"
        " a = f32[4] get-tuple-element(s), index=1 b = f32[4] get-tuple-element(s), index=2"
        " m = s32[] get-tuple-element(s), index=3"
    )
    text = f"""c {{ {parts} n = s32[] {limit}
  ROOT l = pred[] compare(i, n), direction=LT }}
t {{ {parts} one = s32[] constant(1) j = s32[] add(i, one)
  {lines[0]}
  {lines[1]}
  ROOT o = {state} tuple(j, n0, n1, m) }}
"""
    if start == "z":  # a known number of turns: the counter is no argument
        text += f"""ENTRY e {{ x = f32[4] parameter(0) y = f32[4] parameter(1)
  k = s32[] parameter(2) z = s32[] constant(0) q = {state} tuple(z, x, y, k)
  ROOT w = {state} while(q), condition=c, body=t }}"""
    else:
        text += (
            f"ENTRY e {{ q = {state} parameter(0) ROOT w = {state} while(q), condition=c, body=t }}"
        )
    turns = "known" if start == "z" else "run-time"
    return Case(text, f"{turns} turns, {'; '.join(sorted(chosen))}")


MAKERS: Mapping[str, Callable[[Random], Case]] = {
    "while": loop,
    "scatter": scatter,
    "select-and-scatter": select_and_scatter,
}


# ------------------------------------------------------------------------------------ answers


class Answer(NamedTuple):
    """One output and one tensor of an operand."""

    verdict: str
    kind: str
    reason: str
    text: str


def answers(case: Case, random: Random) -> Iterator[Answer]:
    """Yield what is claimed of a program beside what its runs show."""
    program = hloscope.read(case.text)
    entry = program.module.entry
    root = entry.root
    parameters = list(entry.parameters)
    leaves = [(p, k, t) for p in parameters for k, t in enumerate(leaf_types(p.type))]
    outputs = leaf_types(root.type)
    reads = [_reads(root, parameters, k) for k in range(len(outputs))]
    seen: defaultdict[tuple[int, int], NDArray[np.bool_]]
    said = defaultdict[tuple[int, int], list[str]](list)
    for _ in range(CONFIGURATIONS if case.fixed else 1):
        fixed = {k: _array(leaves[k][2], random) for k in case.fixed}
        seen = _seen(program, leaves, outputs, fixed, random)
        values = {leaves[k][0]: [array] for k, array in fixed.items()} | _constants(program)
        for o, type_ in enumerate(outputs):
            for k, (parameter, leaf, source) in enumerate(leaves):
                if k in case.fixed:
                    continue
                accesses = reads[o].get((parameter, leaf), ())
                found = claim(accesses, _sizes(type_), _sizes(source), values)
                claimed = found.touched[:, 0]
                said[o, k].append(_verdict(found.precision, claimed, seen[o, k]))
    for (o, k), verdicts in said.items():
        parameter, leaf, _ = leaves[k]
        accesses = reads[o].get((parameter, leaf), ())
        order = ("wrong", "unknown", "not seen", "over", "tight", "exact")
        reason = next((a.reason for a in accesses if a.reason), "")
        verdict = next(v for v in order if v in verdicts)
        yield Answer(
            verdict, case.kind, reason, f"{case.text}\n# output {o}, {parameter.name}{{{leaf}}}"
        )


def _constants(program: hloscope.Program) -> dict[Instruction, list[NDArray[Any]]]:
    """The values of integer constants, which maps may name."""
    found = {}
    for ins in program.module.entry:
        if isinstance(ins.op, Constant) and isinstance(ins.type, TensorType):
            numbers = ins.op.literal.integers(ins.type)
            if numbers is not None:
                flat = np.array(list(numbers), np.int64)
                found[ins] = [
                    np.broadcast_to(flat, (prod(_sizes(ins.type)),)).reshape(_sizes(ins.type))
                ]
    return found


def _reads(root: Instruction, parameters: Sequence[Instruction], output: int) -> dict[Any, Any]:
    """The accesses of the op itself by parameter and leaf, through a tuple that is its operand."""
    found: dict[Any, Any] = {}
    for (operand, leaf), some in Analysis().output_to_input(root, output).items():
        value = root.operands[operand] if isinstance(operand, int) else operand
        if value in parameters:
            found[value, leaf] = some
        elif value.op.name == "tuple" and value.operands[leaf] in parameters:
            found[value.operands[leaf], 0] = some
    return found


def _sizes(type_: object) -> tuple[int, ...]:
    assert isinstance(type_, TensorType)
    return tuple(type_.sizes)  # type: ignore[arg-type]


def _verdict(precision: Precision, claimed: NDArray[np.bool_], seen: NDArray[np.bool_]) -> str:
    if (seen & ~claimed).any():
        return "wrong"
    if precision is Precision.UNKNOWN:
        return "unknown"
    same = bool((seen == claimed).all())
    if precision is Precision.EXACT:
        return "exact" if same else "not seen"
    return "tight" if same else "over"


def _array(type_: object, random: Random) -> NDArray[Any]:
    assert isinstance(type_, TensorType)
    sizes = _sizes(type_)
    if str(type_.element) in ("s32", "u8"):
        low, kind = (-1, np.int32) if str(type_.element) == "s32" else (0, np.uint8)
        return np.array([random.randint(low, 5) for _ in range(prod(sizes))], kind).reshape(sizes)
    flat = [
        random.choice([-3, -2, -1, 0, 1, 2, 3, 9.5, random.uniform(-9, 9)])
        for _ in range(prod(sizes))
    ]
    return np.array(flat, np.float32).reshape(sizes)


def _seen(
    program: hloscope.Program,
    leaves: Sequence[tuple[Instruction, int, Any]],
    outputs: Sequence[Any],
    fixed: Mapping[int, NDArray[Any]],
    random: Random,
) -> defaultdict[tuple[int, int], NDArray[np.bool_]]:
    """Which elements of each output changed with which of each leaf, in any run."""
    shapes = {
        (o, k): (prod(_sizes(type_)), prod(_sizes(leaf[2])))
        for o, type_ in enumerate(outputs)
        for k, leaf in enumerate(leaves)
    }
    found = {key: np.zeros(shape, bool) for key, shape in shapes.items()}
    for _ in range(TRIALS):
        given = [
            fixed[k] if k in fixed else _array(t, random) for k, (_, _, t) in enumerate(leaves)
        ]
        before = _run(program, leaves, given)
        for k, array in enumerate(given):
            if k in fixed:
                continue
            for i in range(array.size):
                other = array.copy()
                values = [*range(-1, 6)] if array.dtype == np.int32 else [77.0, -50.5, float("nan")]
                for value in random.sample(values, 2):
                    other.reshape(-1)[i] = value
                    after = _run(program, leaves, [*given[:k], other, *given[k + 1 :]])
                    for o, (a, b) in enumerate(zip(before, after, strict=True)):
                        changed = (a != b) & ~((a != a) & (b != b))
                        found[o, k][:, i] |= np.asarray(changed).reshape(-1)
    return defaultdict(lambda: np.zeros((0, 0), bool), found)


def _run(
    program: hloscope.Program, leaves: Sequence[tuple[Instruction, int, Any]], given: Arrays
) -> Arrays:
    arguments: dict[Instruction, list[Any]] = {}
    for (parameter, _, _), array in zip(leaves, given, strict=True):
        arguments.setdefault(parameter, []).append(array)
    entry = program.module.entry
    whole = [
        tuple(arguments[p]) if len(leaf_types(p.type)) > 1 else arguments[p][0]
        for p in entry.parameters
    ]
    result = program.evaluate(*whole, max_steps=100_000)
    return [np.asarray(one) for one in (result if isinstance(result, tuple) else (result,))]


def sweep(op: str, count: int, seed: int = 0) -> Iterator[Answer]:
    """Yield the answers about `count` random programs of an op."""
    for number in range(count):
        random = Random(f"{op} {seed} {number}")
        case = MAKERS[op](random)
        try:
            yield from answers(case, random)
        except EvaluationError as error:
            raise AssertionError(f"{error}\n{case.text}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", default=[*MAKERS], metavar="OP")
    parser.add_argument("--count", type=int, default=100, help="programs of each op")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=2, help="programs of each reason")
    given = parser.parse_args()
    for op in given.ops:
        found = list(sweep(op, given.count, given.seed))
        print(op, dict(Counter(answer.verdict for answer in found)))
        for verdict in ("wrong", "tight", "not seen"):
            some = [answer for answer in found if answer.verdict == verdict]
            for (kind, reason), times in Counter((a.kind, a.reason) for a in some).most_common(12):
                print(f"  {verdict} {times}: {kind}: {reason}")
            for answer in some[: given.show]:
                print(answer.text)


if __name__ == "__main__":
    main()
