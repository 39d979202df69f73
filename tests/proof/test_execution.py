"""Maps against execution, which uses no rule: right ones stand, wrong ones fall."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import hloscope
from benchmarks.execution import LARGEST, Tally
from hloscope.api import Indexing
from hloscope.indexing import Access, IndexingMap
from hloscope.interpreter import EvaluationError, World, evaluate
from hloscope.ir.types import TensorType
from hloscope.proof import Check, Execution, Outcome, running, write_evidence
from hloscope.proof.allowance import Deadline
from hloscope.proof.execution import Evidence
from hloscope.proof.instance import MOST, instance_of

SHRINKING = {
    "reshape": "p = f32[64,96] parameter(0) ROOT r = f32[8,8,96] reshape(p)",
    "reshapes": """p = f32[9240] parameter(0) a = f32[7,660,2] reshape(p)
      b = f32[2,660,7] transpose(a), dimensions={2,1,0} ROOT r = f32[33,7,40] reshape(b)""",
    "bitcast": """p = f32[128,64]{0,1} parameter(0) ROOT r = f32[64,4,32]{2,1,0} bitcast(p)""",
    "slice": "p = f32[100] parameter(0) ROOT r = f32[30] slice(p), slice={[7:97:3]}",
    "pad": """p = f32[100] parameter(0) z = f32[] parameter(1)
      ROOT r = f32[305] pad(p, z), padding=3_5_2""",
    "pad, cut": """p = f32[100] parameter(0) z = f32[] parameter(1)
      ROOT r = f32[93] pad(p, z), padding=-3_-4""",
    "concatenate": """p = f32[60,7] parameter(0) q = f32[90,7] parameter(1)
      ROOT r = f32[150,7] concatenate(p, q), dimensions={0}""",
    "dynamic-slice": """p = f32[400,6] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)
      ROOT r = f32[100,4] dynamic-slice(p, i, z), dynamic_slice_sizes={100,4}""",
    "dynamic-slice, known": """p = f32[400] parameter(0) i = s32[] constant(250)
      ROOT r = f32[100] dynamic-slice(p, i), dynamic_slice_sizes={100}""",
    "dynamic-update-slice": """p = f32[400] parameter(0) u = f32[30] parameter(1)
      i = s32[] parameter(2) ROOT r = f32[400] dynamic-update-slice(p, u, i)""",
    "gather": """p = f32[100,64] parameter(0) i = s32[20,1] parameter(1)
      ROOT r = f32[20,64] gather(p, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}""",
    "scatter": """p = f32[100,64] parameter(0) i = s32[20,1] parameter(1)
      u = f32[20,64] parameter(2)
      ROOT r = f32[100,64] scatter(p, i, u), update_window_dims={1}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "dot": """p = f32[32,64] parameter(0) q = f32[64,48] parameter(1)
      ROOT r = f32[32,48] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "convolution": """p = f32[8,32,32,16] parameter(0) k = f32[3,3,16,24] parameter(1)
      ROOT r = f32[8,16,16,24] convolution(p, k), window={size=3x3 stride=2x2 pad=0_1x0_1},
        dim_labels=b01f_01io->b01f""",
    "grouped convolution": """p = f32[2,32,32] parameter(0) k = f32[3,4,64] parameter(1)
      ROOT r = f32[2,32,64] convolution(p, k), window={size=3 pad=1_1},
        dim_labels=b0f_0io->b0f, feature_group_count=8""",
    "reduce": """p = f32[32,64] parameter(0) z = f32[] parameter(1)
      ROOT r = f32[32] reduce(p, z), dimensions={1}, to_apply=add""",
    "reduce-window": """p = f32[64,48] parameter(0) z = f32[] constant(0)
      ROOT r = f32[32,46] reduce-window(p, z), window={size=2x3 stride=2x1}, to_apply=add""",
    "cumulative": """p = f32[96] parameter(0) z = f32[] constant(0)
      ROOT r = f32[96] reduce-window(p, z), window={size=96 pad=95_0}, to_apply=add""",
    "sort": """p = f32[64,48] parameter(0)
      ROOT r = f32[64,48] sort(p), dimensions={1}, to_apply=less""",
    "rfft": "p = f32[4,64] parameter(0) ROOT r = c64[4,33] fft(p), fft_type=RFFT, fft_length={64}",
    "iota and constants": """p = f32[64,64] parameter(0) i = s32[64,64] iota(), iota_dimension=0
      n = s32[] constant(63) m = s32[64,64] broadcast(n), dimensions={}
      c = pred[64,64] compare(i, m), direction=EQ z = f32[] constant(0)
      y = f32[64,64] broadcast(z), dimensions={} ROOT r = f32[64,64] select(c, p, y)""",
    "loop": """p = f32[128] parameter(0) z = s32[] constant(0) t = (s32[], f32[128]) tuple(z, p)
      ROOT r = (s32[], f32[128]) while(t), condition=cond, body=body""",
    "branches": """p = f32[128] parameter(0) q = f32[128] parameter(1) c = pred[] parameter(2)
      ROOT r = f32[128] conditional(c, p, q), true_computation=turn, false_computation=same""",
    "tuples": """p = ((f32[128], s32[128]), f32[64]) parameter(0)
      a = (f32[128], s32[128]) get-tuple-element(p), index=0
      b = f32[128] get-tuple-element(a), index=0 ROOT r = f32[128] reverse(b), dimensions={0}""",
    "dynamic size": """p = f32[<=100] parameter(0) z = f32[] parameter(1)
      ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add""",
}
CALLED = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
turn { a = f32[128] parameter(0) ROOT b = f32[128] reverse(a), dimensions={0} }
same { a = f32[128] parameter(0) ROOT b = f32[128] copy(a) }
body { x = (s32[], f32[128]) parameter(0) i = s32[] get-tuple-element(x), index=0
  one = s32[] constant(1) j = s32[] add(i, one) v = f32[128] get-tuple-element(x), index=1
  w = f32[128] reverse(v), dimensions={0} ROOT t = (s32[], f32[128]) tuple(j, w) }
cond { x = (s32[], f32[128]) parameter(0) i = s32[] get-tuple-element(x), index=0
  n = s32[] constant(128) ROOT c = pred[] compare(i, n), direction=LT }
"""


def read(body: str) -> hloscope.Program:
    return hloscope.read(f"{CALLED}\nENTRY e {{ {body} }}")


@pytest.mark.parametrize("name", SHRINKING)
def test_programs_shrink_and_keep_their_structure(name: str) -> None:
    program = read(SHRINKING[name])
    instance = instance_of(program.root.ir, program.module.entry)
    assert instance.shrunk
    assert not instance.reason
    ops = [ins.op.name for ins in program.module.entry]
    assert sorted(ins.op.name for ins in instance.running) == sorted(ops)
    for ins in instance.running:
        if isinstance(ins.type, TensorType):
            assert ins.type.num_elements <= 8 * MOST
    hloscope.read(hloscope.print_hlo(instance.module))  # it is a right program
    assert not hloscope.verify(hloscope.print_hlo(instance.module))


@pytest.mark.slow(keep=9)
@pytest.mark.parametrize("name", SHRINKING)
def test_no_right_map_is_refuted_by_execution(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A busy machine must not end the runs early.
    monkeypatch.setattr("hloscope.proof.execution.SECONDS", inf)
    program = read(SHRINKING[name])
    for computation in (None, program.module.entry):
        execution = Execution(program.root.ir, computation)
        count = len(program.root.ir.operands if computation is None else computation.parameters)
        for output in range(len(program.root.outputs)):
            for operand in range(count):
                found = execution.check(output, operand, 0)
                assert not found.reason, found.reason
                assert found.violation is None, str(found.violation)
                assert found.runs > 5
                assert 0 <= found.seen <= found.pairs


CUDNN = {  # operands and result: input, kernel and output are a, b and c
    "convForward": "abc",
    "convBackwardInput": "cba",
    "convBackwardFilter": "acb",
}


@pytest.mark.slow(keep=10)
@pytest.mark.parametrize("kind", CUDNN)
@pytest.mark.parametrize(
    ("window", "shapes"),
    [
        ("size=3x3 pad=1_1x1_1", ("2,3,3,16", "16,3,3,16", "2,3,3,16")),
        ("size=7x7 stride=2x2 pad=3_3x3_3", ("2,24,24,3", "8,7,7,3", "2,12,12,8")),
        ("size=3x3 stride=2x2 pad=0_1x0_1", ("4,32,32,16", "24,3,3,16", "4,16,16,24")),
        ("size=1x1 stride=2x2", ("2,32,32,8", "16,1,1,8", "2,16,16,16")),
        ("size=3x3 pad=2_2x2_2 rhs_dilate=2x2", ("2,16,16,8", "12,3,3,8", "2,16,16,12")),
        ("size=2x2 pad=1_0x0_0 rhs_reversal=1x1", ("2,4,4,3", "6,2,2,3", "2,4,3,6")),
        ("size=3x3 pad=1_1x1_1", ("2,8,8,16", "64,3,3,4", "2,8,8,64")),
    ],
)
def test_no_map_of_cudnn_is_refuted_by_execution(
    kind: str, window: str, shapes: tuple[str, str, str]
) -> None:
    one, other, result = [shapes["abc".index(array)] for array in CUDNN[kind]]
    groups = ", feature_group_count=4" if shapes[1] == "64,3,3,4" else ""
    program = read(f"""p = f32[{one}] parameter(0) q = f32[{other}] parameter(1)
      ROOT r = (f32[{result}], u8[0]) custom-call(p, q), custom_call_target="__cudnn${kind}",
        window={{{window}}}, dim_labels=b01f_o01i->b01f{groups}""")
    execution = Execution(program.root.ir)
    for operand in (0, 1):
        for inverse in (False, True):
            found = execution.check(0, operand, 0, inverse=inverse)
            assert not found.reason
            assert found.violation is None, str(found.violation)
            assert found.seen > 0


def test_all_pairs_of_data_movement_are_seen() -> None:
    for name in ("reshape", "reshapes", "bitcast", "slice", "pad", "concatenate", "gather"):
        program = read(SHRINKING[name])
        found = Execution(program.root.ir, program.module.entry).check(0, 0, 0)
        assert found.seen == found.pairs > 0, name


def wrong(found: Indexing, change: str) -> Indexing:
    """The answer with other maps for the first operand."""
    first = found.answer.outputs[0]
    access = first.operands[0].accesses[0]
    assert access.map is not None
    m = access.map
    if change == "nothing":
        new: tuple[Access, ...] = ()
    elif change == "shifted":
        new = (replace(access, map=m.with_(results=[e + 1 for e in m.results])),)
    else:
        low = [v.interval.lo for v in m.dims]
        sizes = [v.interval.size - (k == 0) for k, v in enumerate(m.dims)]
        assert not any(low)
        new = (replace(access, map=IndexingMap.of_sizes(sizes, (), m.results)),)
    others = [replace(first.operands[0], accesses=new), *first.operands[1:]]
    operands = first.operands.proved(others, None)
    return Indexing(replace(found.answer, outputs=[replace(first, operands=operands)]))


SMALL = [
    "p = f32[4,6] parameter(0) ROOT r = f32[6,4] transpose(p), dimensions={1,0}",
    "p = pred[6] parameter(0) q = pred[6] parameter(1) ROOT r = pred[6] and(p, q)",
    "p = s8[6] parameter(0) ROOT r = s8[6] negate(p)",
    "p = bf16[3,2] parameter(0) ROOT r = f32[3,2] convert(p)",
    "p = c64[3] parameter(0) ROOT r = f32[3] real(p)",
]


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("change", ["nothing", "shifted", "narrow"])
@pytest.mark.parametrize("body", SMALL)
def test_wrong_maps_are_refuted_by_execution_alone(
    body: str, change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    undecided = Check(Outcome.UNDECIDED, reason="left out")
    monkeypatch.setattr("hloscope.proof.prover._check_of", lambda *_: undecided)
    found = read(body).root.indexing()
    right = found.prove(by_execution=True).checks[0]
    assert not right.is_refuted
    check = wrong(found, change).prove(by_execution=True).checks[0]
    assert check.is_refuted
    assert check.executed is not None
    violation = check.executed.violation
    assert violation is not None
    program, before, after = write_evidence(violation, tmp_path, "wrong")
    run = [hloscope.evaluate(program, *values) for values in (violation.before, violation.after)]
    assert str(run[0][violation.output]) != str(run[1][violation.output])
    assert before.exists()
    assert after.exists()


MISSED = {
    "a branch in a comparator decides": """
      func.func @main(%x: tensor<3xi32>, %y: tensor<3xi32>) -> tensor<3xi32> {
        %0:2 = "stablehlo.sort"(%x, %y) ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
          %q = stablehlo.compare LT, %c, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %q : tensor<i1>
        }) {dimension = 0 : i64} : (tensor<3xi32>, tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
        return %0#0 : tensor<3xi32>
      }""",
}


@pytest.mark.parametrize("name", MISSED)
def test_what_decides_is_found_where_the_maps_leave_it_out(name: str) -> None:
    ins = hloscope.read(MISSED[name]).module.entry.instructions[-2]
    execution = Execution(ins.operands[0])
    assert execution.check(0, 1, 0).violation is None
    assert execution.check(0, 1, 0, ()).violation is not None


@pytest.mark.parametrize("left_out", [None, 0, 1])
def test_an_output_that_changes_against_its_maps_makes_its_own_sources_suspect(
    left_out: int | None,
) -> None:
    program = read("""p = f32[4] parameter(0) q = f32[4] parameter(1)
      a = f32[4] reverse(p), dimensions={0} b = f32[4] negate(q)
      ROOT t = (f32[4], f32[4]) tuple(a, b)""")
    execution = Execution(program.root.ir, program.module.entry)
    right = execution.evidence
    assert right is not None
    claims = {place: maps for place, maps in right.claims.items() if place[0] != left_out}
    evidence = execution.evidence = Evidence(execution.instance, claims)
    for output in (0, 1):
        for source in (0, 1):
            assert evidence.is_suspect((output, source, 0)) == (output == left_out)
        expected = {(0, 0), (1, 0)} if output == left_out else {(output, 0)}
        assert execution.suspects(output) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            """p = f32[4] parameter(0) ROOT r = f32[4] all-reduce(p), replica_groups={{0,5000}},
            to_apply=add""",
            "5001 devices",
        ),
        ("p = f32[0,4] parameter(0) ROOT r = f32[4,0] transpose(p), dimensions={1,0}", "elements"),
    ],
)
def test_what_is_not_executed_says_why(body: str, reason: str) -> None:
    check = read(body).root.indexing().prove(by_execution=True).checks[0]
    assert check.executed is not None
    assert reason in check.executed.reason
    assert f"not executed: {check.executed.reason}" in str(check) or not check.executed.runs


def test_evidence_is_the_same_every_time() -> None:
    root = read(SHRINKING["convolution"]).root.ir
    one, other = (Execution(root, seed=3).check(0, 0, 0) for _ in range(2))
    assert (one.runs, one.seen, one.pairs) == (other.runs, other.seen, other.pairs)


@pytest.mark.slow
def test_no_fusion_of_a_real_program_is_refuted_by_execution(shared: Path, full: bool) -> None:
    files = sorted((shared / "real/models").glob("*.opt.hlo.txt"))
    few = [file for file in files if file.stat().st_size < 60_000][::15]
    assert executed(files if full else few) >= 0.95


@pytest.mark.slow
def test_no_module_of_the_tests_of_xla_is_refuted_by_execution(shared: Path, full: bool) -> None:
    files = sorted((shared / "real/modules").glob("*/*.hlo"))
    few = [file for file in files if file.stat().st_size < 4_000][::90]
    assert executed([f for f in files if f.stat().st_size <= LARGEST] if full else few) >= 0.9


def executed(files: Sequence[Path]) -> float:
    """The share of instructions that were executed; nothing of them may be refuted."""
    tally = Tally()
    for file in files:
        tally.add(file)
    assert tally.refuted == []
    done = [count for kind, count in tally.kinds.items() if kind.startswith("executed")]
    return sum(done) / tally.kinds.total()


COUNTING = """c { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
b { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) ROOT t = (s32[]) tuple(j) }
ENTRY e { z = s32[] constant(0) t = (s32[]) tuple(z)
  ROOT r = (s32[]) while(t), condition=c, body=b }"""
PRODUCT = """ENTRY e { p = f32[2,2] parameter(0) q = f32[2,2] parameter(1)
  ROOT r = f32[2,2] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


@pytest.mark.parametrize("is_enough", [True, False])
@pytest.mark.parametrize("limit", ["MAX_STEPS", "MAX_FLOPS"])
def test_each_run_may_take_all_steps_and_operations_that_are_allowed(
    limit: str, is_enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_loop = limit == "MAX_STEPS"
    program = hloscope.read(COUNTING if is_loop else PRODUCT)
    whole = World(max_flops=100)
    evaluate(program.module, [] if is_loop else [np.ones((2, 2), "f4")] * 2, whole)
    needed = whole.steps if is_loop else whole.flops
    assert needed > 10
    monkeypatch.setattr(running, limit, needed if is_enough else needed - 1)
    runner = running.Runner(instance_of(program.root.ir, program.module.entry), Deadline())
    if not is_enough:
        with pytest.raises(EvaluationError, match=r"stopped after|operations on elements, at most"):
            runner.base("ordinary", np.random.default_rng(1))
        return
    base = runner.base("ordinary", np.random.default_rng(1))
    for _ in range(3):  # each run counts anew
        outputs = runner.outputs(base.values)
        assert [a.tolist() for a in outputs] == [a.tolist() for a in base.outputs]
    assert runner.count == 5  # the first run is repeated
