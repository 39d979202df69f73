"""What is said to be saved is saved: by a program that exists, each instruction counted once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

import hloscope
from hloscope.api import Movement
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter import call
from hloscope.ir import Body, Computation, Instruction, Module
from hloscope.movement import Figures, Plan, bytes_of, is_view, rewrite
from hloscope.movement.drafts import numbered, same_values
from hloscope.movement.flow import COPY, moves
from hloscope.ops import Parameter

K = 32 * 64 * 4
"""Bytes of f32[32,64]."""


def movement(text: str) -> Movement:
    return Movement(hloscope.read(text).module)


def totals(text: str) -> tuple[int, int]:
    """Bytes that are moved, and bytes that could be saved."""
    savings = movement(text).savings
    return savings.moved, savings.saved


def ways(text: str) -> list[tuple[str, str]]:
    return [(f.value.name, f"{f.how} {f.like}".strip()) for f in movement(text).savings.figures]


def entry(*lines: str) -> str:
    *rest, last = lines
    return "ENTRY e {\n" + "\n".join([*rest, f"ROOT {last}"]) + "\n}"


P = "p = f32[32,64] parameter(0)"


# ------------------------------------------------------------------------------ recorded programs


@pytest.mark.parametrize(
    ("name", "moved", "saved"),
    [
        ("decisions/cancel_shared.hlo", 123_264, 0),
        ("decisions/u01_three_transposes.hlo", 8 << 20, 4 << 20),
        ("decisions/while_trips.hlo", 1000 * (2 << 18), 1000 * (2 << 18)),
        ("compare/cancel_5_writes.hlo", 4 << 16, 4 << 16),
        ("compare/cancel_3_writes.mlir", 4 << 16, 4 << 16),
    ],
)
def test_recorded_programs(shared: Path, name: str, moved: int, saved: int) -> None:
    found = Movement(hloscope.read(shared / "regressions/round3" / name).module).savings
    assert (found.moved, found.saved) == (moved, saved)


def test_a_copy_that_a_branch_returns_is_wanted(shared: Path) -> None:
    file = shared / "regressions/round3/decisions/g07_loop_copy.hlo"
    (found,) = Movement(hloscope.read(file).module).savings.figures
    assert (found.moved, found.saved) == (2 * 65_536 * found.runs, 0)


# ------------------------------------------------------------------------------------ small cases


def test_a_broadcast_that_several_chains_share_counts_once() -> None:
    lines = [
        P,
        "b = f32[64] parameter(1)",
        "bb = f32[32,64] broadcast(b), dimensions={1}",
        "y = f32[32,64] add(p, bb)",
        "s = f32[16,64] slice(y), slice={[0:16],[0:64]}",
        "t = f32[16,64] slice(y), slice={[16:32],[0:64]}",
    ]
    moved, saved = totals(entry(*lines, "o = (f32[16,64], f32[16,64]) tuple(s, t)"))
    assert (moved, saved) == (K + 64 * 4 + 2 * K, 0)


def test_a_pair_that_cancels_around_an_op_saves_both_kernels() -> None:
    text = entry(
        P,
        "t = f32[64,32] transpose(p), dimensions={1,0}",
        "n = f32[64,32] negate(t)",
        "u = f32[32,64] transpose(n), dimensions={1,0}",
    )
    assert totals(text) == (4 * K, 4 * K)


def test_a_chain_that_also_reads_a_scalar_continues_through_a_sum() -> None:
    """The sum of two transposed arrays, scaled and transposed back."""
    text = entry(
        P,
        "q = f32[32,64] parameter(1)",
        "z = f32[] parameter(2)",
        "tp = f32[64,32] transpose(p), dimensions={1,0}",
        "tq = f32[64,32] transpose(q), dimensions={1,0}",
        "s = f32[64,32] add(tp, tq)",
        "b = f32[64,32] broadcast(z), dimensions={}",
        "m = f32[64,32] multiply(s, b)",
        "c = f32[32,64] transpose(m), dimensions={1,0}",
    )
    assert totals(text) == (7 * K + 4, 6 * K)


def test_an_intermediate_that_is_read_elsewhere_stays() -> None:
    text = entry(
        P,
        "t = f32[64,32] transpose(p), dimensions={1,0}",
        "n = f32[64,32] negate(t)",
        "u = f32[32,64] transpose(n), dimensions={1,0}",
        "o = (f32[32,64], f32[64,32]) tuple(u, t)",
    )
    assert totals(text) == (4 * K, 2 * K)


def test_an_argument_that_is_returned_is_copied() -> None:
    assert totals(entry(P, "c = f32[32,64] copy(p)")) == (2 * K, 0)
    pair = (P, "t = f32[64,32] transpose(p), dimensions={1,0}")
    assert totals(entry(*pair, "u = f32[32,64] transpose(t), dimensions={1,0}")) == (4 * K, 2 * K)


def test_a_constant_that_is_returned_is_copied() -> None:
    lines = ("k = f32[2,2] constant({{1,2},{3,4}})", "c = f32[2,2] copy(k)")
    assert totals(entry(*lines)) == (2 * 16, 0)


def test_a_copy_of_what_a_loop_writes_anew_is_wanted() -> None:
    copied = LOOP.format(given="m").replace("m = f32[32,64] negate(p)", COPIED)
    assert totals(copied) == (40 * K, 0)
    same = LOOP.format(given="p").replace("m = f32[32,64] negate(p)", COPIED)
    assert totals(same) == (40 * K, 38 * K)


@pytest.mark.parametrize(
    "copy",
    [
        "c = f32[32,64]{1,0:S(1)} copy(n)",
        "c = f32[32,64]{1,0} copy(n), sharding={devices=[2,1]0,1}",
    ],
)
def test_a_copy_to_another_memory_or_to_other_devices_is_wanted(copy: str) -> None:
    given = "p = f32[32,64]{1,0} parameter(0)", "n = f32[32,64]{1,0} negate(p)"
    lines = (*given, "m = f32[32,64]{1,0} exponential(c)", "o = f32[32,64]{1,0} add(m, n)")
    assert totals(entry(*lines[:2], copy, *lines[2:])) == (2 * K, 0)
    plain = "c = f32[32,64]{1,0} copy(n)"
    assert totals(entry(*lines[:2], plain, *lines[2:])) == (2 * K, 2 * K)


def test_packed_elements_have_less_than_a_byte() -> None:
    text = entry("p = s4[32,64]{1,0:E(4)} parameter(0)", "c = s4[32,64]{0,1:E(4)} copy(p)")
    assert totals(text) == (2 * 32 * 64 // 2, 0)


def test_no_row_saves_more_than_it_moves() -> None:
    text = entry(
        "q = f32[32,64] parameter(0)",
        "p = f32[32,64] exponential(q)",
        "c = f32[32,64] copy(p)",
        "s = f32[16,64] slice(c), slice={[0:16],[0:64]}",
        "n = f32[32,64] negate(c)",
        "o = (f32[16,64], f32[32,64]) tuple(s, n)",
    )
    found = movement(text).savings.figures
    assert sum([f.saved for f in found]) == 2 * K
    assert all([f.saved <= f.moved for f in found])


def test_a_copy_that_is_written_to_is_wanted() -> None:
    given = (P, "v = f32[1,64] parameter(1)", "z = s32[] parameter(2)", "n = f32[32,64] negate(p)")
    update = "u = f32[32,64] dynamic-update-slice(c, v, z, z)"
    both = "o = (f32[32,64], f32[32,64]) tuple(u, a)"
    alone = entry(*given, "c = f32[32,64] copy(n)", update)
    assert totals(alone) == (2 * K, 2 * K)
    other = entry(*given, "c = f32[32,64] copy(n)", "a = f32[32,64] exponential(n)", update, both)
    assert totals(other) == (2 * K, 0)


@pytest.mark.parametrize("op", ["transpose(p), dimensions={1,0}", "copy(p)"])
def test_equal_movement_is_done_once(op: str) -> None:
    shape = "64,32" if "transpose" in op else "32,64"
    layout = "{1,0}" if "transpose" in op else "{0,1}"
    type_ = f"f32[{shape}]{layout}"
    lines = [P.replace("]", "]{1,0}")]
    for k in range(3):
        lines += [f"t{k} = {type_} {op}", f"n{k} = {type_} exponential(t{k})"]
    lines += [f"s = {type_} add(n0, n1)", f"r = {type_} add(s, n2)"]
    assert totals(entry(*lines)) == (6 * K, 4 * K)
    assert [how for _, how in ways(entry(*lines))] == ["", "the same as t0", "the same as t0"]


def test_equal_movement_of_a_computed_value_through_other_ops_is_done_once() -> None:
    text = entry(
        P,
        "e = f32[32,64] exponential(p)",
        "t = f32[64,32] transpose(e), dimensions={1,0}",
        "a = f32[32,32] dot(e, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "r = f32[32,4,16] reshape(e)",
        "u = f32[4,16,32] transpose(r), dimensions={1,2,0}",
        "v = f32[64,32] reshape(u)",
        "b = f32[32,32] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "o = f32[32,32] add(a, b)",
    )
    assert totals(text) == (4 * K, 2 * K)


def test_different_layouts_or_elements_are_no_duplicates() -> None:
    for op in ("f32[64,32]{0,1} transpose(p), dimensions={1,0}", "f32[64,32]{1,0} reshape(p)"):
        lines = [
            P.replace("]", "]{1,0}"),
            "t = f32[64,32]{1,0} transpose(p), dimensions={1,0}",
            f"u = {op}",
            "a = f32[64,32]{1,0} exponential(t)",
            "b = f32[64,32]{1,0} exponential(u)",
            "r = f32[64,32]{1,0} add(a, b)",
        ]
        assert totals(entry(*lines)) == (2 * K, 0)


def fusions(*calls: str) -> str:
    """Fusions that transpose what they read, each with a computation of its own."""
    bodies = [
        f"f{k} {{ x = f32[32,64] parameter(0) t = f32[64,32] transpose(x), dimensions={{1,0}} "
        f"ROOT n = f32[64,32] exponential(t) }}"
        for k in range(len(calls))
    ]
    lines = [
        f"w{k} = f32[64,32] fusion({value}), kind=kLoop, calls=f{k}"
        for k, value in enumerate(calls)
    ]
    types = ", ".join(["f32[64,32]"] * len(calls))
    names = ", ".join([f"w{k}" for k in range(len(calls))])
    back = "back = f32[32,64] reshape(w0)"
    return "\n".join(
        [*bodies, entry(P, lines[0], back, *lines[1:], f"o = ({types}) tuple({names})")]
    )


def test_kernels_that_transpose_one_array_may_read_it_once() -> None:
    text = fusions("p", "p", "p")
    assert totals(text) == (3 * K, 2 * K)
    assert [how for _, how in ways(text)][:1] == [""]


def test_kernels_that_wait_for_each_other_are_not_joined() -> None:
    text = fusions("p", "back").replace("(x), dimensions", "(x), dimensions")
    assert totals(text)[1] == 0
    lines = text.replace("fusion(back)", "fusion(p, back)").replace(
        "f1 { x = f32[32,64] parameter(0)",
        "f1 { x = f32[32,64] parameter(0) y = f32[32,64] parameter(1)",
    )
    assert totals(lines)[1] == 0


def test_fusions_of_one_computation_on_one_array_are_duplicates() -> None:
    body = "f { x = f32[32,64] parameter(0) ROOT t = f32[64,32] transpose(x), dimensions={1,0} }\n"
    lines = [P]
    for k in range(3):
        lines += [f"w{k} = f32[64,32] fusion(p), kind=kLoop, calls=f"]
        lines += [f"n{k} = f32[64,32] exponential(w{k})"]
    lines += ["s = f32[64,32] add(n0, n1)", "r = f32[64,32] add(s, n2)"]
    assert totals(body + entry(*lines)) == (6 * K, 4 * K)


COPIED = "c = f32[32,64] copy(p)\n  m = f32[32,64] negate(c)"
LOOP = """
body {{
  s = (s32[], f32[32,64], f32[64,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  p = f32[32,64] get-tuple-element(s), index=1
  a = f32[64,32] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[64,32] transpose(p), dimensions={{1,0}}
  b = f32[64,32] add(a, t)
  m = f32[32,64] negate(p)
  ROOT r = (s32[], f32[32,64], f32[64,32]) tuple(j, {given}, b)
}}
cond {{
  s = (s32[], f32[32,64], f32[64,32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT lt = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  p = f32[32,64] parameter(0)
  a = f32[64,32] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[32,64], f32[64,32]) tuple(z, p, a)
  w = (s32[], f32[32,64], f32[64,32]) while(s), condition=cond, body=body,
    backend_config={{"known_trip_count":{{"n":"10"}}}}
  ROOT r = f32[64,32] get-tuple-element(w), index=2
}}
"""


def test_a_value_that_a_loop_does_not_change_is_moved_once() -> None:
    assert totals(LOOP.format(given="p")) == (20 * K, 18 * K)
    assert totals(LOOP.format(given="m")) == (20 * K, 0)


def test_text_without_layouts_and_with_them_say_why_they_differ(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from hloscope.cli.app import app

    file = tmp_path / "a.hlo"
    said = []
    for layout in ("", "{1,0}"):
        file.write_text(entry(P.replace("]", f"]{layout}"), f"n = f32[32,64]{layout} copy(p)"))
        said.append(CliRunner().invoke(app, ["cancel", str(file)]).output)
    assert "the text has no layouts" in said[0]
    assert "the text has no layouts" not in said[1]


# -------------------------------------------------------------------------------- random programs


def random_program(seed: int) -> str:
    """Arrays that are moved, computed on and shared, some of them returned."""
    random = Random(seed)
    shapes = [(4, 6), (6, 4), (24,), (2, 2, 6)]
    lines = ["z = s32[] constant(0)"]
    values: list[tuple[str, tuple[int, ...]]] = []
    for k in range(2):
        values.append((f"p{k}", shapes[0]))
        lines.append(f"p{k} = {_type(shapes[0])} parameter({k})")
    for k in range(random.randint(2, 14)):
        value, shape = random.choice(values[-6:])
        name, what = f"v{k}", random.random()
        if what < 0.35 and len(shape) > 1:
            order = [*range(len(shape))]
            while order == sorted(order):
                random.shuffle(order)
            new = tuple([shape[d] for d in order])
            op = f"transpose({value}), dimensions={{{','.join(map(str, order))}}}"
        elif what < 0.55:
            new = random.choice(shapes)
            op = f"reshape({value})"
        elif what < 0.65:
            new, op = shape, f"copy({value})"
        elif what < 0.75:
            new, op = shape, f"negate({value})"
        elif what < 0.85:
            same = [v for v, other in values if other == shape]
            new, op = shape, f"multiply({value}, {random.choice(same)})"
        elif what < 0.92:
            new = shape
            sides = ",".join([f"[0:{n}]" for n in shape])
            lines.append(f"w{k} = {_type((*shape, 2))} broadcast({value}), dimensions="
                         f"{{{','.join(map(str, range(len(shape))))}}}")  # fmt: skip
            lines.append(f"x{k} = {_type((*shape, 1))} slice(w{k}), slice={{{sides},[0:1]}}")
            op = f"reshape(x{k})"
        else:
            new, op = shape, f"dynamic-update-slice({value}, p0, z, z)"
            if shape != shapes[0]:
                op = f"popcnt({value})"
        values.append((name, new))
        lines.append(f"{name} = {_type(new)} {op}")
    made = values[2:]
    out = [made[-1], *random.sample(made, min(len(made), random.randint(0, 2)))]
    out = [*dict.fromkeys(out)]
    types = ", ".join([_type(shape) for _, shape in out])
    return entry(*lines, f"o = ({types}) tuple({', '.join([v for v, _ in out])})")


def _type(shape: tuple[int, ...]) -> str:
    return f"s32[{','.join(map(str, shape))}]"


def movement_of_program(module: Module) -> int:
    """Bytes that each instruction that moves elements reads and writes, by looking at all."""
    total = 0
    for ins in module.entry:
        if moves(ins) and not is_view(ins):
            size = bytes_of(ins)
            total += size + sum([min(size, bytes_of(o)) for o in dict.fromkeys(ins.operands)])
    return total


def carried_out(found: Movement) -> Module:
    """The program with all plans carried out, without what nothing needs any more."""
    plans: dict[Instruction, Plan] = {plan.steps[-1]: plan for plan in found.savings.plans}
    root = found.module.entry.root
    made: dict[Instruction, Instruction] = {p: p for p in found.module.entry.parameters}
    todo = [root]
    opened: set[Instruction] = set()
    while todo:
        value = todo[-1]
        if value in made:
            todo.pop()
            continue
        plan = plans.get(value)
        needs = value.operands if plan is None else plan.needs
        waiting = [v for v in needs if v not in made]
        if waiting:
            assert value not in opened, "a value waits for itself"
            opened.add(value)
            todo += waiting
            continue
        if plan is None:
            made[value] = Instruction(
                value.name, value.type, value.op, tuple([made[v] for v in needs]), value.calls
            )
        elif plan.how == "the same as":
            made[value] = made[plan.needs[0]]
        else:
            new = inlined(plan, made)
            assert plan.program is not None
            is_copied = plan.added and plan.program.kind.is_free
            made[value] = Instruction("c", value.type, COPY(), (new,)) if is_copied else new
    return closed(made[root], found.module)


def inlined(plan: Plan, made: dict[Instruction, Instruction]) -> Instruction:
    """The result of the shorter program of a chain, of the values that it needs."""
    assert plan.program is not None
    shorter = parse_hlo(rewrite(plan.program).text).entry
    by_name = {value.name: made[value] for value in plan.needs}
    here: dict[Instruction, Instruction] = {}
    for ins in shorter:
        here[ins] = (
            by_name[ins.name]
            if isinstance(ins.op, Parameter)
            else Instruction(ins.name, ins.type, ins.op, tuple([here[o] for o in ins.operands]))
        )
    return here[shorter.root]


def closed(root: Instruction, old: Module) -> Module:
    """The program of what a value needs, with the arguments of another."""
    order: dict[Instruction, None] = dict.fromkeys(old.entry.parameters)

    def visit(value: Instruction) -> None:
        for operand in value.operands:
            if operand not in order:
                visit(operand)
        order[value] = None

    visit(root)
    body = Body(tuple(order), tuple(old.entry.parameters), root)
    computation = Computation("e", body)
    return Module("carried_out", {"e": computation}, computation)


def buffers(module: Module) -> list[Instruction]:
    """The values that are returned, views looked through."""
    found = []
    for value in module.entry.root.operands:
        while is_view(value):
            (value,) = value.operands
        found.append(value)
    return found


def assert_saved(text: str) -> int:
    """Carry out what is planned, compare bytes and values; the bytes saved."""
    found = movement(text)
    savings = found.savings
    assert savings.moved == movement_of_program(found.module), text
    once = sum([f.saved for f in savings.figures if f.how == "one kernel with"])
    new = carried_out(found)
    assert movement_of_program(new) <= savings.moved - savings.saved + once, text
    assert 0 <= savings.saved <= savings.moved
    assert all([0 <= f.saved <= f.moved for f in savings.figures]), text
    arguments = [numbered(p.type) for p in found.module.entry.parameters]
    for one, other in zip(call(found.module, arguments), call(new, arguments), strict=True):
        assert same_values(one, other), text
    before, after = buffers(found.module), buffers(new)
    if len(set(before)) == len(before) and not any([isinstance(v.op, Parameter) for v in before]):
        assert len(set(after)) == len(after), text
        assert not any([isinstance(v.op, Parameter) for v in after]), text
    return savings.saved


@given(st.integers(0, 1 << 30))
def test_the_program_that_saves_the_bytes_exists_and_computes_the_same(seed: int) -> None:
    assert_saved(random_program(seed))


@pytest.mark.slow
def test_many_random_programs_save_something(full: bool) -> None:
    saved = [assert_saved(random_program(seed)) for seed in range(2000 if full else 150)]
    assert sum(map(bool, saved)) > len(saved) // 4


def figures(found: Movement) -> Iterator[Figures]:
    return iter(found.savings.figures)


def test_programs_without_movement_save_nothing() -> None:
    assert totals(entry(P, "n = f32[32,64] negate(p)")) == (0, 0)
    assert not [*figures(movement(entry(P, "n = f32[32,64] negate(p)")))]
