"""Instructions of very many operands: answers about each, in time linear in their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hloscope.affine import Dim, evaluate
from hloscope.fusion import Analysis, loops
from hloscope.fusion.analysis import MANY_PARAMETERS, MAX_ENDS
from hloscope.fusion.leaves import Leaves
from hloscope.fusion.parameter_reads import Tables
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing.rules import reduction, shape
from hloscope.indexing.rules.dependence import Dependence, Use, _fold, _uses, fold, use_of
from hloscope.ir import WIDE, Instruction, TokenType

FIRST, SECOND = [
    Dependence((frozenset([k]),), (frozenset([k]),), (frozenset([k]),), (k,)) for k in range(2)
]
SIZES = [1 + k * 7 % 5 for k in range(max(WIDE, MANY_PARAMETERS) + 40)]


def concatenation(sizes: list[int]) -> Instruction:
    """A fusion that puts so many operands together."""
    names = ", ".join(f"p{k}" for k in range(len(sizes)))
    inner = "\n".join(f"p{k} = f32[{size}] parameter({k})" for k, size in enumerate(sizes))
    text = (
        f"HloModule m\nf {{\n{inner}\nROOT c = f32[{sum(sizes)}] concatenate({names}), "
        f"dimensions={{0}}\n}}\nENTRY e {{\n{inner}\n"
        f"ROOT r = f32[{sum(sizes)}] fusion({names}), kind=kLoop, calls=f\n}}"
    )
    return parse_hlo(text).entry.root


def starts(analysis: Analysis, ins: Instruction, operand: int) -> list[int]:
    """Where the first element of an operand comes to lie."""
    accesses = analysis.input_to_output(ins, operand)[0]
    return [evaluate(a.map.results[0], {Dim(0): 0}) for a in accesses if a.map is not None]


@pytest.mark.parametrize("step", [1, -1])
def test_every_operand_comes_to_lie_behind_those_before_it(step: int) -> None:
    """The first questions have walks of their own, all others one together."""
    ins, analysis = concatenation(SIZES), Analysis()
    for operand in range(len(SIZES))[::step]:
        assert starts(analysis, ins, operand) == [sum(SIZES[:operand])]


def test_instructions_asked_in_turn_keep_to_their_own_operands() -> None:
    some, others, analysis = concatenation(SIZES), concatenation([9, *SIZES]), Analysis()
    for operand in range(0, len(SIZES), 41):
        assert starts(analysis, some, operand) == [sum(SIZES[:operand])]
        assert starts(analysis, others, operand + 1) == [9 + sum(SIZES[:operand])]


def test_operands_are_looked_through_once_for_all_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    sizes: Callable[[Any], Any] = shape.sizes
    monkeypatch.setattr(shape, "sizes", lambda type: looked.append(1) or sizes(type))
    ins, analysis = concatenation(SIZES), Analysis()
    for operand in range(len(SIZES)):
        starts(analysis, ins, operand)
    assert len(looked) < 12 * len(SIZES)


COUNT = WIDE + 40


def wide_sort() -> Instruction:
    """A sort of so many operands by the first of them."""
    body = "\n".join(f"x{k} = f32[] parameter({k})" for k in range(2 * COUNT))
    handed = "\n".join(f"p{k} = f32[8] parameter({k})" for k in range(COUNT))
    text = (
        f"HloModule m\nless {{\n{body}\nROOT r = pred[] compare(x0, x1), direction=LT\n}}\n"
        f"ENTRY e {{\n{handed}\nROOT r = ({', '.join(['f32[8]'] * COUNT)}) "
        f"sort({', '.join(f'p{k}' for k in range(COUNT))}), dimensions={{0}}, to_apply=less\n}}"
    )
    return parse_hlo(text).entry.root


def wide_loop(count: int = COUNT) -> Instruction:
    """A loop that carries so many arrays, each of which depends on itself."""
    both = f"(s32[], {', '.join(['f32[8]'] * count)})"
    parts = "\n".join(
        f"x{k} = f32[8] get-tuple-element(t), index={k + 1} y{k} = f32[8] negate(x{k})"
        for k in range(count)
    )
    text = f"""HloModule m
    body {{ t = {both} parameter(0) i = s32[] get-tuple-element(t), index=0
    {parts}
    ROOT r = {both} tuple(i, {", ".join(f"y{k}" for k in range(count))}) }}
    condition {{ t = {both} parameter(0) i = s32[] get-tuple-element(t), index=0
    n = s32[] constant(2) ROOT c = pred[] compare(i, n), direction=LT }}
    ENTRY e {{ t = {both} parameter(0)
    ROOT w = {both} while(t), condition=condition, body=body }}"""
    return parse_hlo(text).entry.root


def test_an_output_of_a_sort_looks_at_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    line: Callable[..., Any] = reduction._sorted_line
    monkeypatch.setattr(
        reduction, "_sorted_line", lambda *a, **k: looked.append(1) or line(*a, **k)
    )
    ins, analysis = wide_sort(), Analysis()
    for output in (0, 1, COUNT - 1):
        read = analysis.output_to_input(ins, output)
        assert sorted(k for k, _ in read if isinstance(k, int)) == sorted({0, output})
        reached = analysis.input_to_output(ins, output)
        assert sorted(reached) == ([output] if output else [*range(COUNT)])
    assert len(looked) < 4 * COUNT


def test_a_part_of_a_loop_looks_at_the_parts_that_it_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    is_handed_on: Callable[..., bool] = loops._is_returned_unchanged
    monkeypatch.setattr(
        loops, "_is_returned_unchanged", lambda *a: looked.append(1) is None and is_handed_on(*a)
    )
    ins, analysis = wide_loop(), Analysis()
    for leaf in (1, 7, COUNT):
        assert sorted(analysis.input_to_output(ins, 0, leaf)) == [leaf]
    assert len(looked) == 3
    assert sorted(analysis.input_to_output(ins, 0, 0)) == [*range(COUNT + 1)]


@pytest.mark.parametrize("count", [MAX_ENDS + 1, 50, 200])
def test_each_part_of_a_loop_is_taken_out_by_its_own_instruction(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    writes, of = Analysis.writes, Leaves.of
    monkeypatch.setattr(Analysis, "writes", lambda *a: looked.append(1) or writes(*a))
    monkeypatch.setattr(Leaves, "of", lambda *a: looked.append(1) or of(*a))
    ins, analysis = wide_loop(count), Analysis()
    for leaf in range(1, count + 1):
        assert sorted(analysis.input_to_output(ins, 0, leaf)) == [leaf]
    assert 3 * count < len(looked) < 40 * count


def test_computations_that_call_others_are_gone_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop whose body calls a computation for all parts at once, asked for each of them."""
    count, seen = 40, list[str]()
    parts = ", ".join(["f32[8]"] * count)

    def through(value: str, name: str) -> str:
        return "\n".join(
            f"{name}{k} = f32[8] get-tuple-element({value}), index={k}"
            f" n{name}{k} = f32[8] negate({name}{k})"
            for k in range(count)
        )

    def packed(name: str) -> str:
        return f"ROOT r = ({parts}) tuple({', '.join(f'n{name}{k}' for k in range(count))})"

    text = f"""HloModule m
    inner {{ t = ({parts}) parameter(0) {through("t", "x")} {packed("x")} }}
    body {{ t = ({parts}) parameter(0) c = ({parts}) call(t), to_apply=inner
    {through("c", "y")} {packed("y")} }}
    condition {{ t = ({parts}) parameter(0) ROOT c = pred[] constant(false) }}
    ENTRY e {{ t = ({parts}) parameter(0)
    ROOT w = ({parts}) while(t), condition=condition, body=body }}"""
    users = Analysis.users
    monkeypatch.setattr(
        Analysis, "users", lambda at, order: seen.append(order[-1].name) or users(at, order)
    )
    ins, analysis = parse_hlo(text).entry.root, Analysis()
    body = ins.calls[1]
    positions = analysis.positions(body)
    for leaf in range(count):
        assert [*analysis.output_to_input(ins, leaf)] == [(0, leaf)]
        assert [*analysis.input_to_output(ins, 0, leaf)] == [leaf]
    assert seen == ["r", "r"]
    assert analysis.positions(body) is positions


def test_parts_of_a_tuple_in_a_tuple_reach_what_reads_them() -> None:
    """Whole and in parts, of a computation of more outputs than are walked back from."""
    pair, names = "(f32[2], f32[3])", ", ".join(["a", "b", "p", "q", "p", "n"])
    types = f"(f32[2], f32[3], {pair}, {pair}, {pair}, f32[3])"
    inside = f"""t = (f32[2], {pair}, {pair}) parameter(0)
    a = f32[2] get-tuple-element(t), index=0
    p = {pair} get-tuple-element(t), index=1 q = {pair} get-tuple-element(t), index=2
    b = f32[3] get-tuple-element(p), index=1 n = f32[3] negate(b)"""
    text = f"""HloModule m
    f {{ {inside} ROOT r = {types} tuple({names}) }}
    ENTRY e {{ t = (f32[2], {pair}, {pair}) parameter(0)
    ROOT r = {types} call(t), to_apply=f }}"""
    ins, analysis = parse_hlo(text).entry.root, Analysis()
    reached = [sorted(analysis.input_to_output(ins, 0, leaf)) for leaf in range(5)]
    assert reached == [[0], [2, 6], [1, 3, 7, 8], [4], [5]]


@given(st.data())
def test_uses_are_what_the_states_say(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    row = st.frozensets(st.integers(0, count - 1))
    states = st.lists(st.tuples(*[row] * count), max_size=4)
    possible, sure = data.draw(states), data.draw(states)
    for k, uses in enumerate(_uses(count, possible, sure)):
        for j in range(count):
            always = bool(sure) and all(j in state[k] for state in sure)
            assert uses[j] is use_of(any(j in state[k] for state in possible), always)
        assert Use.NEVER not in uses.values()


@pytest.mark.parametrize("body", [Dependence.of_everything(1, 2), SECOND, FIRST], ids=str)
def test_folds_of_one_value_are_what_their_applications_say(body: Dependence) -> None:
    for least, most in [(0, 1), (0, 5), (1, 1), (1, 9), (2, 2), (0, 0)]:
        assert fold(body, 1, least, most) == _fold(body, 1, least, most)


def test_tables_know_how_much_they_remember() -> None:
    tables = Tables(lambda type, parts: parts[0][0] or ())
    one = tables.single(3, TokenType(), ())
    alone = tables.size
    tables.joined([((), one), ((), tables.single(5, TokenType(), ()))])
    assert 0 < alone < tables.size
