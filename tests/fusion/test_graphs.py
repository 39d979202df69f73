"""Walks through structure: diamonds, tuples, calls, branches, loops, asynchronous pairs."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.errors import UnknownNameError
from hloscope.fusion import Analysis, Region, epilogue, grouped
from hloscope.fusion.loops import REASON
from hloscope.fusion.structure import READS, WRITES
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Accesses, Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from hloscope.ir.graph import Computation, Instruction, Module
from hloscope.ops.control import GetTupleElement, Tuple


def module(text: str) -> Module:
    return parse_hlo("HloModule m\n" + text)


def texts(accesses: Accesses) -> list[str]:
    """The maps without their domains; `?` where nothing is known."""
    return ["?" if a.map is None else str(a.map).partition(", domain:")[0] for a in accesses]


def reads(ins: Instruction, output: int = 0) -> dict[object, list[str]]:
    """Maps by operand, or by (operand, leaf) for later leaves of tuples."""
    found = Analysis().output_to_input(ins, output)
    return {k if not leaf else (k, leaf): texts(some) for (k, leaf), some in found.items()}


def summary(computation: Computation) -> dict[object, list[str]]:
    flows = Analysis().summary(computation, 0)
    assert not any(flow.leaf for flow in flows)
    return {flow.operand: texts(flow.accesses or ()) for flow in flows}


# ------------------------------------------------------------------------------ amount of work


def test_a_chain_of_diamonds_is_walked_once() -> None:
    lines = ["v0 = f32[8] parameter(0)"]
    lines += [f"v{k + 1} = f32[8] add(v{k}, v{k})" for k in range(1000)]
    entry = module("ENTRY e {\n" + "\n".join([*lines[:-1], "ROOT " + lines[-1]]) + "\n}").entry
    analysis = Analysis()
    flows = analysis.summary(entry, 0)
    assert [texts(flow.accesses or ()) for flow in flows] == [["(d0) -> (d0)"]]
    assert analysis.interner.number_of_compositions == 0


def test_the_maps_of_a_diamond_of_slices_grow_by_one_a_level() -> None:
    lines, size, levels = ["v0 = f32[64] parameter(0)"], 64, 20
    for k in range(levels):
        size -= 1
        lines.append(f"a{k} = f32[{size}] slice(v{k}), slice={{[0:{size}]}}")
        lines.append(f"b{k} = f32[{size}] slice(v{k}), slice={{[1:{size + 1}]}}")
        lines.append(f"v{k + 1} = f32[{size}] add(a{k}, b{k})")
    entry = module("ENTRY e {\n" + "\n".join([*lines[:-1], "ROOT " + lines[-1]]) + "\n}").entry
    analysis = Analysis()
    (flow,) = analysis.summary(entry, 0)
    assert len(flow.accesses or ()) == levels + 1
    assert analysis.interner.number_of_compositions < (levels + 1) * levels * 3


def test_a_chain_of_ten_thousand_instructions_is_no_recursion() -> None:
    lines = ["v0 = f32[4,6] parameter(0)"]
    for k in range(10_000):
        size = ("6,4", "4,6")[k % 2]
        lines.append(f"v{k + 1} = f32[{size}] transpose(v{k}), dimensions={{1,0}}")
    entry = module("ENTRY e {\n" + "\n".join([*lines[:-1], "ROOT " + lines[-1]]) + "\n}").entry
    assert summary(entry) == {0: ["(d0, d1) -> (d0, d1)"]}


LAYER = """
layer.{k} {{
  p{k} = f32[4,8] parameter(0)
  i{k} = s32[] parameter(1)
  zero{k} = s32[] constant(0)
  s{k} = f32[1,8] dynamic-slice(p{k}, i{k}, zero{k}), dynamic_slice_sizes={{1,8}}
  ROOT r{k} = f32[8] reshape(s{k})
}}"""


def test_equal_computations_are_analysed_once_and_name_their_own_origins() -> None:
    count = 5
    calls = "\n".join(
        f"f{k} = f32[8] fusion(p, i), kind=kLoop, calls=layer.{k}" for k in range(count)
    )
    types, names_ = ", ".join(["f32[8]"] * count), ", ".join(f"f{k}" for k in range(count))
    tuple_ = f"ROOT t = ({types}) tuple({names_})"
    m = module(
        "\n".join(LAYER.format(k=k) for k in range(count))
        + f"\nENTRY e {{ p = f32[4,8] parameter(0)\n i = s32[] parameter(1)\n{calls}\n{tuple_} }}"
    )
    analysis = Analysis()
    for k in range(count):
        (access,) = analysis.output_to_input(m.entry[f"f{k}"])[0, 0]
        assert access.map is not None
        assert [v.origin for v in access.map.runtime] == [m.computations[f"layer.{k}"][f"i{k}"]]
    assert [question for question, *_ in analysis.results].count("reads") == 1


# -------------------------------------------------------------------------------------- tuples

TUPLES = """
sums { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  x = f32[] add(a, c) y = f32[] add(b, d) ROOT r = (f32[], f32[]) tuple(x, y) }
both { p = f32[3,5] parameter(0) q = f32[3,5] parameter(1) z = f32[] constant(0)
  n = f32[3,5] negate(q)
  ROOT r = (f32[3], f32[3]) reduce(p, n, z, z), dimensions={1}, to_apply=sums }
inner { p = f32[3,5] parameter(0) q = f32[3,5] parameter(1)
  two = (f32[3], f32[3]) fusion(p, q), kind=kLoop, calls=both
  first = f32[3] get-tuple-element(two), index=0
  second = f32[3] get-tuple-element(two), index=1
  t = f32[5,3] transpose(p), dimensions={1,0}
  nested = (f32[3], f32[5,3]) tuple(second, t)
  ROOT r = (f32[3], (f32[3], f32[5,3])) tuple(first, nested) }
ENTRY e { p = f32[3,5] parameter(0) q = f32[3,5] parameter(1)
  ROOT f = (f32[3], (f32[3], f32[5,3])) fusion(p, q), kind=kLoop, calls=inner }
"""


def test_outputs_are_the_leaves_of_nested_tuples() -> None:
    root = module(TUPLES).entry.root
    row = "(d0)[s0] -> (d0, s0)"
    # A reduction of several operands reads for each of its results what the body combines in it.
    assert reads(root, 0) == {0: [row]}
    assert reads(root, 1) == {1: [row]}
    assert reads(root, 2) == {0: ["(d0, d1) -> (d1, d0)"]}


def test_an_operand_reaches_the_right_outputs() -> None:
    found = Analysis().input_to_output(module(TUPLES).entry.root, 0)
    assert {k: texts(some) for k, some in found.items()} == {
        0: ["(d0, d1) -> (d0)"],
        2: ["(d0, d1) -> (d1, d0)"],
    }


def test_tuples_and_their_elements_are_as_the_rules_say() -> None:
    m = module(
        """ENTRY e { a = f32[3] parameter(0) b = (f32[2], f32[4]) parameter(1)
        t = (f32[3], (f32[2], f32[4]), f32[3]) tuple(a, b, a)
        ROOT g = (f32[2], f32[4]) get-tuple-element(t), index=1 }"""
    )
    analysis = Analysis()
    for ins in (m.entry["t"], m.entry["g"]):
        for leaf in range(len(analysis.tensors(ins.type))):
            mine = {(f.operand, f.leaf) for f in READS[type(ins.op)](analysis, ins, ins.op, leaf)}
            rule = {
                (k, access.leaf)
                for k, accesses in enumerate(output_to_input(ins, leaf))
                for access in accesses
            }
            assert mine == rule
        for k, operand in enumerate(ins.operands):
            for leaf in range(len(analysis.tensors(operand.type))):
                entry = WRITES[type(ins.op)]
                mine = {f.leaf for f in entry(analysis, ins, ins.op, k, leaf)}
                rules = enumerate(input_to_output(ins, k))
                assert mine == {o for o, some in rules for a in some if a.leaf == leaf}
    assert {Tuple, GetTupleElement} <= set(READS) & set(WRITES)


# ----------------------------------------------------------------- calls, branches, precision


def test_nested_fusions_read_what_their_instructions_read() -> None:
    m = module(
        """in { x = f32[6] parameter(0) ROOT y = f32[2,3] reshape(x) }
        out { x = f32[3,2] parameter(0) a = f32[6] reshape(x)
          b = f32[2,3] fusion(a), kind=kLoop, calls=in
          ROOT c = f32[3,2] transpose(b), dimensions={1,0} }
        ENTRY e { x = f32[3,2] parameter(0) ROOT f = f32[3,2] fusion(x), kind=kLoop, calls=out }"""
    )
    (access,) = Analysis().output_to_input(m.entry.root)[0, 0]
    assert access.map is not None
    for i, j in product(range(3), range(2)):
        place = j * 3 + i  # the transposed and reshaped index
        assert access.map.points((i, j)) == {(place // 2, place % 2)}


def test_a_call_reads_its_operands_and_lifts_the_origin_of_runtime_variables() -> None:
    m = module(
        """take { x = f32[9] parameter(0) i = s32[] parameter(1)
          ROOT s = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2} }
        ENTRY e { x = f32[9] parameter(0) j = s32[] parameter(1) k = s32[] add(j, j)
          a = f32[2] call(x, j), to_apply=take
          b = f32[2] call(x, k), to_apply=take
          ROOT c = f32[2] add(a, b) }"""
    )
    flows = Analysis().summary(m.entry, 0)
    of_x = [a.map for flow in flows if flow.operand == 0 for a in flow.accesses or ()]
    assert {v.origin for map in of_x if map for v in map.runtime} == {m.entry["j"], m.entry["k"]}


def test_a_call_names_its_own_origins_beside_what_depends_on_none() -> None:
    m = module(
        """take { x = f32[9] parameter(0) i = s32[] parameter(1)
          s = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}
          t = f32[2] slice(x), slice={[3:5]}
          ROOT u = f32[2] add(s, t) }
        ENTRY e { x = f32[9] parameter(0) j = s32[] parameter(1)
          ROOT a = f32[2] call(x, j), to_apply=take }"""
    )
    (flow,) = [flow for flow in Analysis().summary(m.entry, 0) if flow.operand == 0]
    maps = [a.map for a in flow.accesses or () if a.map is not None]
    assert sorted(len(map.runtime) for map in maps) == [0, 1]
    assert {v.origin for map in maps for v in map.runtime} == {m.entry["j"]}


def test_one_producer_gives_one_runtime_variable() -> None:
    m = module(
        """ENTRY e { x = f32[9,9] parameter(0) i = s32[] parameter(1)
          ROOT s = f32[2,2] dynamic-slice(x, i, i), dynamic_slice_sizes={2,2} }"""
    )
    assert reads(m.entry.root)[0] == ["(d0, d1){rt0} -> (d0 + rt0, d1 + rt0)"]


def test_a_branch_not_taken_counts_as_read() -> None:
    m = module(
        """left { x = f32[4] parameter(0) ROOT r = f32[4] reverse(x), dimensions={0} }
        right { x = f32[4] parameter(0) ROOT r = f32[4] negate(x) }
        ENTRY e { p = pred[] parameter(0) a = f32[4] parameter(1) b = f32[4] parameter(2)
          ROOT c = f32[4] conditional(p, a, b), true_computation=left, false_computation=right }"""
    )
    assert reads(m.entry.root) == {0: ["(d0) -> ()"], 1: ["(d0) -> (-d0 + 3)"], 2: ["(d0) -> (d0)"]}
    found = Analysis().input_to_output(m.entry.root, 0)
    assert texts(found[0]) == ["()[s0] -> (s0)"]


def test_what_is_not_known_stays_unknown_and_says_why_once() -> None:
    m = module(
        """f { x = f32[4] parameter(0) y = f32[4] parameter(1)
          c = f32[4] custom-call(x), custom_call_target="mystery"
          d = f32[4] reverse(c), dimensions={0}
          e = f32[4] add(c, d) ROOT r = f32[4] add(e, y) }
        ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1)
          ROOT r = f32[4] fusion(x, y), kind=kLoop, calls=f }"""
    )
    found = Analysis().output_to_input(m.entry.root)
    (unknown,) = found[0, 0]
    assert unknown.precision is Precision.UNKNOWN
    assert unknown.reason.count("mystery") == 1
    assert [a.precision for a in found[1, 0]] == [Precision.EXACT]


# ---------------------------------------------------------------------------------------- loops

LOOP = """
body { t = (s32[], f32[4], f32[9,4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  acc = f32[4] get-tuple-element(t), index=1
  xs = f32[9,4] get-tuple-element(t), index=2
  w = f32[4] get-tuple-element(t), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  row = f32[1,4] dynamic-slice(xs, i, zero), dynamic_slice_sizes={1,4}
  flat = f32[4] reshape(row)
  new = f32[4] add(acc, flat)
  ROOT r = (s32[], f32[4], f32[9,4], f32[4]) tuple(next, new, xs, w) }
more { t = (s32[], f32[4], f32[9,4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { t = (s32[], f32[4], f32[9,4], f32[4]) parameter(0)
  ROOT l = (s32[], f32[4], f32[9,4], f32[4]) while(t), condition=more, body=body }
"""


def test_what_every_iteration_hands_on_is_read_as_it_is() -> None:
    root = module(LOOP).entry.root
    for leaf, text in ((2, "(d0, d1) -> (d0, d1)"), (3, "(d0) -> (d0)")):
        found = Analysis().output_to_input(root, leaf)
        assert {place: texts(some) for place, some in found.items()} == {(0, leaf): [text]}
        assert found[0, leaf][0].precision is Precision.EXACT


def test_what_is_carried_reads_any_number_of_iterations() -> None:
    found = Analysis().output_to_input(module(LOOP).entry.root, 1)
    assert {place: texts(some) for place, some in found.items()} == {
        (0, 0): ["(d0) -> ()"],
        (0, 1): ["(d0) -> (d0)"],
        (0, 2): ["(d0)[s0] -> (s0, d0)"],
    }
    # However often the body runs, an element is made of the element at its own index.
    assert [(a.precision, a.reason) for a in found[0, 1]] == [(Precision.EXACT, "")]
    for place in ((0, 0), (0, 2)):
        assert {(a.precision, a.reason) for a in found[place]} == {(Precision.OVER, REASON)}


def test_a_loop_is_followed_forwards() -> None:
    found = Analysis().input_to_output(module(LOOP).entry.root, 0, 2)
    assert {k: texts(some) for k, some in found.items()} == {
        1: ["(d0, d1) -> (d1)"],
        2: ["(d0, d1) -> (d0, d1)"],
    }
    # The counter decides how often the body runs, and with it everything that is carried.
    assert set(Analysis().input_to_output(module(LOOP).entry.root, 0, 0)) == {0, 1}


CARRIED = "(pred[], f32[5], f32[3])"
DECIDED = """
cond {{ t = {type} parameter(0)
  p = pred[] get-tuple-element(t), index=0
  x = f32[5] get-tuple-element(t), index=1
  s = f32[1] slice(x), slice={{[2:3]}}
  y = f32[] reshape(s)
  z = f32[] constant(0)
  less = pred[] compare(y, z), direction=LT
  ROOT r = pred[] {root} }}
body {{ t = {type} parameter(0)
  p = pred[] get-tuple-element(t), index=0
  x = f32[5] get-tuple-element(t), index=1
  v = f32[3] get-tuple-element(t), index=2
  w = f32[3] negate(v)
  ROOT r = {type} tuple(p, x, w) }}
ENTRY e {{ t = {type} parameter(0)
  ROOT w = {type} while(t), condition=cond, body=body }}"""


@pytest.mark.parametrize(
    ("root", "leaf", "reached"),
    [
        ("get-tuple-element(t), index=0", 0, ["()[s0] -> (s0), domain: s0 in [0, 2]"]),
        ("copy(less)", 1, ["(d0)[s0] -> (s0), domain: d0 in [2, 2], s0 in [0, 2]"]),
    ],
)
def test_what_the_condition_returns_or_reads_reaches_all_that_changes(
    root: str, leaf: int, reached: list[str]
) -> None:
    m = module(DECIDED.format(root=root, type=CARRIED))
    found = Analysis().input_to_output(m.entry.root, 0, leaf)
    assert set(found) == {leaf, 2}
    assert [str(a.map) for a in found[2]] == reached


# ------------------------------------------------------------------------ asynchronous, devices


def test_asynchronous_pairs_are_the_operation_itself() -> None:
    m = module(
        """wrapped { x = f32[4,2] parameter(0) ROOT t = f32[2,4] transpose(x), dimensions={1,0} }
        ENTRY e { x = f32[4,2] parameter(0)
          s = ((f32[4,2]), f32[2,4], u32[]) async-start(x), calls=wrapped
          u = ((f32[4,2]), f32[2,4], u32[]) async-update(s)
          ROOT d = f32[2,4] async-done(u) }"""
    )
    assert summary(m.entry) == {0: ["(d0, d1) -> (d1, d0)"]}
    flows = Analysis().spread(m.entry, 0, 0)
    assert [(f.leaf, texts(f.accesses or ())) for f in flows] == [(0, ["(d0, d1) -> (d1, d0)"])]


def test_an_all_gather_in_two_halves_has_its_replica_map() -> None:
    m = module(
        """ENTRY e { x = f32[4,2] parameter(0)
          s = (f32[4,2], f32[8,2]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}
          ROOT d = f32[8,2] all-gather-done(s) }"""
    )
    (flow,) = Analysis().summary(m.entry, 0)
    (access,) = flow.accesses or ()
    assert texts((access,)) == ["(d0, d1) -> (d0 mod 4, d1)"]
    assert str(access.replica).startswith("(d0, d1) -> (d0 / 4)")


def test_chained_all_gathers_have_a_position_in_each_group() -> None:
    m = module(
        """ENTRY e { x = f32[4] parameter(0)
          a = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
          ROOT b = f32[24] all-gather(a), replica_groups={{0,1,2}}, dimensions={0} }"""
    )
    (flow,) = Analysis().summary(m.entry, 0)
    (access,) = flow.accesses or ()
    assert access.map is not None
    assert access.replica is not None
    places = {
        (at, *index, *access.replica.evaluate((at,)))
        for at in range(24)
        for index in access.map.points((at,))
    }
    assert places == {(at, at % 4, at // 8, at // 4 % 2) for at in range(24)}


# -------------------------------------------------------------------------------------- regions

FUSED = """
f { x = f32[4,6] parameter(0) y = f32[4] parameter(1)
  a = f32[4,6] broadcast(y), dimensions={0} b = f32[4,6] add(x, a)
  ROOT c = f32[6,4] transpose(b), dimensions={1,0} }
ENTRY e { x = f32[4,6] parameter(0) y = f32[4] parameter(1)
  n = f32[4,6] negate(x)
  g = f32[6,4] fusion(n, y), kind=kLoop, calls=f
  ROOT r = f32[24] reshape(g) }
"""


def names(found: dict[Instruction, dict[int, Accesses]]) -> dict[str, list[str]]:
    return {ins.name: texts(leaves[0]) for ins, leaves in found.items()}


def test_a_fusion_and_its_consumer_as_one() -> None:
    m = module(FUSED)
    region = Region.of_producer_consumer(m.entry["g"], m.entry["r"])
    found = names(grouped(Analysis(), region))
    swapped = "(d0) -> (d0 mod 4, d0 / 4)"
    assert found == {
        "r": ["(d0) -> (d0)"],
        "g": ["(d0) -> (d0 / 4, d0 mod 4)"],
        "c": ["(d0) -> (d0 / 4, d0 mod 4)"],
        "b": [swapped],
        "a": [swapped],
        "x": [swapped],
        "n": [swapped],
        "y": ["(d0) -> (d0 mod 4)"],
    }


def test_a_region_ends_where_it_ends() -> None:
    m = module(FUSED)
    assert set(names(grouped(Analysis(), Region.of_instruction(m.entry["r"])))) == {"r", "g"}
    chosen = Region.of_instructions([m.entry["r"], m.entry["g"], m.entry["n"]], m.entry["r"])
    assert m.entry["x"] in grouped(Analysis(), chosen)
    whole = grouped(Analysis(), Region.of_computation(m.entry))
    assert texts(whole[m.entry["x"]][0]) == ["(d0) -> (d0 mod 4, d0 / 4)"]


def test_a_walk_may_start_inside_a_fusion() -> None:
    m = module(FUSED)
    region = Region.of_instruction(m.entry["g"])
    found = grouped(Analysis(), region, m.computations["f"]["a"])
    assert {ins.name for ins in found} == {"a", "y"}
    assert texts(found[m.entry["y"]][0]) == ["(d0, d1) -> (d0)"]
    with pytest.raises(UnknownNameError, match="`r` is not in the region"):
        grouped(Analysis(), region, m.entry["r"])


@pytest.mark.parametrize("opened", [True, False])
def test_an_operand_at_the_edge_reads_itself(opened: bool) -> None:
    m = module(FUSED)
    region = Region.of_producer_consumer(m.entry["g"], m.entry["r"])
    for name, identity in (("n", "(d0, d1) -> (d0, d1)"), ("y", "(d0) -> (d0)")):
        found = grouped(Analysis(), region, m.entry[name], opened=opened)
        assert names(found) == {name: [identity]}
    with pytest.raises(UnknownNameError, match="`x` is not in the region"):
        grouped(Analysis(), region, m.entry["x"])


def test_a_walk_to_users_ends_where_no_element_is_read() -> None:
    """The size of a value is no element of it, so what is computed from it is not reached."""
    f = module("""
      ENTRY e {
        p = f32[4] parameter(0)
        n = s32[] get-dimension-size(p), dimensions={0}
        t = s32[] multiply(n, n)
        c = f32[] convert(t)
        b = f32[4] broadcast(c), dimensions={}
        ROOT r = f32[4] add(p, b)
      }
    """).entry
    assert texts(epilogue(Analysis(), f, f["p"], f["r"])) == ["(d0) -> (d0)"]
    assert epilogue(Analysis(), f, f["p"], f["b"]) == ()


def test_an_epilogue_with_two_ways_is_a_union() -> None:
    m = module(
        """f { x = f32[4] parameter(0) a = f32[4] reverse(x), dimensions={0}
          b = f32[4] add(x, a) ROOT c = f32[4] negate(b) }
        ENTRY e { x = f32[4] parameter(0) ROOT f = f32[4] fusion(x), kind=kLoop, calls=f }"""
    )
    f = m.computations["f"]
    found = epilogue(Analysis(), f, f["x"], f["b"])
    assert sorted(texts(found)) == ["(d0) -> (-d0 + 3)", "(d0) -> (d0)"]


def test_operands_handed_in_late_are_not_known() -> None:
    m = module(
        """sum { a = f32[2,3] parameter(0) b = f32[2,3] parameter(1) ROOT c = f32[2,3] add(a, b) }
        ENTRY e { p = f32[2,3] parameter(0) q = f32[2,3] parameter(1)
          s = ((), f32[2,3], s32[]) async-start(), calls=sum
          u = ((f32[2,3], f32[2,3]), f32[2,3], s32[]) async-update(s, p, q)
          ROOT d = f32[2,3] async-done(u) }"""
    )
    assert summary(m.entry) == {0: ["?"], 1: ["?"]}
    flows = Analysis().spread(m.entry, 1, 0)
    assert [(flow.leaf, texts(flow.accesses or ())) for flow in flows] == [(0, ["?"])]


def test_what_an_update_does_not_hand_on_reaches_nothing_behind_it() -> None:
    """The context is not among the leaves of the value; in a wrong program it may be left out."""
    m = module(
        """id { a = f32[2] parameter(0) ROOT c = f32[2] copy(a) }
        ENTRY e { p = f32[2] parameter(0)
          s = ((f32[2]), f32[2], s32[]) async-start(p), calls=id
          u = ((f32[2]), f32[2]) async-update(s)
          ROOT d = f32[2] async-done(u) }"""
    )
    flows = [*Analysis().writes(m.entry["u"], 0, 2)]
    assert [(flow.leaf, texts(flow.accesses or ())) for flow in flows] == [(0, ["?"]), (1, ["?"])]


def test_what_collectives_in_a_loop_gather_is_a_superset_on_every_member() -> None:
    m = module(
        """body { t = (s32[], f32[4,8]) parameter(0)
          i = s32[] get-tuple-element(t), index=0
          x = f32[4,8] get-tuple-element(t), index=1
          one = s32[] constant(1) zero = s32[] constant(0) next = s32[] add(i, one)
          row = f32[2,8] dynamic-slice(x, i, zero), dynamic_slice_sizes={2,8}
          all = f32[4,8] all-gather(row), replica_groups={{0,1}}, dimensions={0}
          ROOT r = (s32[], f32[4,8]) tuple(next, all) }
        more { t = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(t), index=0
          n = s32[] constant(2) ROOT r = pred[] compare(i, n), direction=LT }
        ENTRY e { t = (s32[], f32[4,8]) parameter(0)
          ROOT l = (s32[], f32[4,8]) while(t), condition=more, body=body }"""
    )
    found = Analysis().output_to_input(m.entry.root, 1)[0, 1]
    assert all(access.precision is Precision.OVER for access in found)
    assert {access.via for access in found} == {(), (m.computations["body"]["all"],)}
    for access in found:
        assert access.map is not None
        assert access.reason == REASON
        members = {0, 1} if access.via else {None}
        bounds = access.replica.range_of(access.replica.results[0]) if access.replica else None
        assert members == ({*range(bounds.lo, bounds.hi + 1)} if bounds else {None})
