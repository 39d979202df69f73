"""The questions about memory, each with its words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import hloscope as hs
from hloscope.cost.buffers import NoMomentsError
from hloscope.errors import UnknownNameError
from tests.cost.buffers.programs import GPU_MARK, answer_of, scheduled

MIB: Final = 1 << 20
META: Final = 'metadata={{op_name="jit(f)/{name}" source_file="/a/m.py" source_line={line}}}'


def at(line: int, name: str) -> str:
    return META.format(line=line, name=name)


ADD: Final = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
TRAIN: Final = scheduled(
    f"""x = f32[256,1024]{{1,0}} parameter(0)
h1 = f32[256,1024]{{1,0}} tanh(x), {at(3, "jvp()/tanh")}
h2 = f32[256,1024]{{1,0}} tanh(h1), {at(3, "jvp()/tanh")}
c1 = f32[256,4096]{{1,0}} concatenate(h2, h2, h2, h2), dimensions={{1}}, {at(4, "jvp()/concat")}
z = f32[] constant(0)
s = f32[256]{{0}} reduce(c1, z), dimensions={{1}}, to_apply=add, {at(5, "jvp()/sum")}
g = f32[256,1024]{{1,0}} broadcast(s), dimensions={{0}}, {at(5, "transpose(jvp())/sum")}
d2 = f32[256,1024]{{1,0}} multiply(g, h2), {at(3, "transpose(jvp())/mul")}
ROOT d1 = f32[256,1024]{{1,0}} multiply(d2, h1), {at(3, "transpose(jvp())/mul")}""",
    before=ADD,
)
"""Two residuals of 1 MiB, a wide value of 4 MiB, and a gradient."""


def lines(text: str) -> str:
    found = answer_of(text)
    return "\n".join([*found.first_lines(), *found.answers()])


def test_the_peak_has_its_moment_its_line_and_what_is_live() -> None:
    said = lines(TRAIN)
    assert "at least 7.001 MiB live at once; XLA holds about 7.001 MiB" in said
    assert (
        "peak: moment 5 of 9, `s` (m.py:5): temporaries 6.001 MiB, parameters 1 MiB, const" in said
    )


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("source", {"/a/m.py:4": 4, "/a/m.py:3": 2, "no source line": 1}),
        ("scope", {"jit(f)/jvp()": 6, "no scope": 1}),
        ("kind", {"temporary": 6, "parameter": 1}),
        ("opcode", {"concatenate": 4, "tanh": 2, "parameter": 1}),
        ("computation", {"e": 7}),
        ("buffer", {"c1": 4, "x": 1, "h1": 1, "h2": 1}),
    ],
)
def test_buffers_at_the_peak_are_grouped(by: str, rows: dict[str, int]) -> None:
    found = answer_of(TRAIN).to_json(by)
    large = {row["what"]: row["bytes"] // MIB for row in found["groups"] if row["bytes"] >= MIB}
    assert large == rows
    assert sum(row["bytes"] for row in found["groups"]) == found["lower_bytes"]


def test_equal_buffers_of_a_line_share_a_row() -> None:
    table = answer_of(TRAIN).peak.table()
    assert [row for row in table.rows if "h1 and 1 like it" in row]
    assert table.rows[-1][0] == "7.001 MiB"


def test_what_stands_unused_around_the_peak_can_be_recomputed() -> None:
    found = answer_of(TRAIN)
    rows = {row.value.name: row for row in found.recomputations}
    assert {name: (row.last.moment, row.next.moment) for name, row in rows.items()} == {
        "h1": (2, 8),
        "h2": (3, 7),
    }
    said = lines(TRAIN)
    assert "recompute m.py:3: 2 values, 2 MiB, unused from 2 to 8, kept from the forward to" in said
    assert "the peak would be 6 MiB, saves at most 1.001 MiB; cheap" in said


def test_the_first_step_saves_most() -> None:
    assert answer_of(TRAIN).first_step.startswith("to do: recompute m.py:3: 2 values")
    half = TRAIN.replace("multiply(d2, h1)", "multiply(d2, d2)")
    assert answer_of(half).first_step.startswith("to do: donate `x`: XLA would hold 1 MiB less")


def test_a_matrix_product_is_not_cheap_to_recompute() -> None:
    text = TRAIN.replace(
        "h1 = f32[256,1024]{1,0} tanh(x)",
        "w = f32[1024,1024]{1,0} parameter(1)\nh1 = f32[256,1024]{1,0} dot(x, w), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    rows = {row.value.name: row.is_cheap for row in answer_of(text).recomputations}
    assert rows == {"h1": False, "h2": True}


def test_where_nothing_helps_that_is_said() -> None:
    text = (
        scheduled(
            "p = f32[8]{0} parameter(0)\nROOT n = f32[] reduce(p, p), dimensions={0}, to_apply=add",
            before=ADD,
        )
        .replace("reduce(p, p)", "reduce(p, z)")
        .replace("ROOT", "z = f32[] constant(0)\nROOT")
    )
    assert answer_of(text).first_step == (
        "to do: nothing was found that lowers the peak without a change of the algorithm"
    )


def test_a_donation_that_worked_is_told() -> None:
    text = scheduled(
        "p = f32[8]{0} parameter(0)\nROOT n = f32[8]{0} negate(p)",
        header=", input_output_alias={ {}: (0, {}, may-alias) }",
    )
    assert "donation worked for 1 of 1 parameters, 32 bytes: `p` is taken by result {}" in lines(
        text
    )


def test_a_donation_into_which_the_result_is_copied_saves_nothing() -> None:
    text = scheduled(
        "p = f32[8]{0} parameter(0)\nn = f32[8]{0} reverse(p), dimensions={0}\n"
        "ROOT c = f32[8]{0} copy(n)",
        header=", input_output_alias={ {}: (0, {}, may-alias) }",
    )
    said = lines(text)
    assert "donated, and saves nothing: the result is made elsewhere while `p` is read" in said
    assert "and `c` copies it there, 32 bytes" in said
    assert "donation worked" not in said


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("f32[16]{0} concatenate(p, p), dimensions={0}", "no result left has its type and layout"),
        (
            "(f32[8]{0}, f32[8]{0}) tuple(m, k)",
            "a result of its type begins before it is read for the last time",
        ),
    ],
)
def test_a_donation_in_vain_is_told_with_the_reason(result: str, why: str) -> None:
    body = (
        "p = f32[8]{0} parameter(0)\nm = f32[8]{0} reverse(p), dimensions={0}\n"
        f"k = f32[8]{{0}} reverse(p), dimensions={{0}}\nROOT r = {result}"
    )
    said = lines(scheduled(body, header=", buffer_donor={ (0, {}) }"))
    assert f"donated but unused: `p` f32[8]{{0}}, 32 bytes: {why}" in said


def test_what_a_donation_would_save_is_told_with_both_moments() -> None:
    body = (
        "p = f32[1024]{0} parameter(0)\nn = f32[1024]{0} reverse(p), dimensions={0}\n"
        "ROOT r = f32[1024]{0} reverse(n), dimensions={0}"
    )
    assert (
        "donate `p`: XLA would hold 4 KiB less; result {} begins at 2, `p` is read until 1"
        in lines(scheduled(body))
    )


@pytest.mark.parametrize(
    ("last", "is_offered"),
    [("negate(p)", True), ("reverse(p), dimensions={0}", False), ("add(p, p)", False)],
)
def test_a_result_at_the_last_read_takes_the_place_element_by_element(
    last: str, is_offered: bool
) -> None:
    body = f"p = f32[8]{{0}} parameter(0)\nROOT r = f32[8]{{0}} {last}"
    assert bool(answer_of(scheduled(body)).offers) == is_offered


def test_each_result_takes_one_parameter() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\nq = f32[8]{0} parameter(1)\ns = f32[8]{0} add(p, q)\n"
        "ROOT r = f32[8]{0} negate(s)"
    )
    found = answer_of(scheduled(body)).offers
    assert [(one.parameter.name, one.result.values[0].name) for one in found] == [("p", "r")]


COPIED: Final = """p = f32[1024]{{0}} parameter(0)
u = f32[2]{{0}} parameter(1)
i = s32[] parameter(2)
c = f32[1024]{{0}} copy(p)
d = f32[1024]{{0}} dynamic-update-slice(c, u, i)
ROOT r = {root}"""


def test_a_copy_of_a_parameter_is_the_callers() -> None:
    said = lines(scheduled(COPIED.format(root="f32[1024]{0} negate(d)")))
    assert (
        "copy: `c` holds `p` twice, 4 KiB: `d` writes in its place, and the caller keeps it; "
        "donated, it needs no copy"
    ) in said


def test_a_copy_of_a_value_that_is_read_later_names_the_reader() -> None:
    said = lines(scheduled(COPIED.format(root="f32[1024]{0} add(d, p)")))
    assert "`d` writes in its place, and `r` reads the old value later" in said


def test_padding_names_the_dimension_and_the_cheapest_order() -> None:
    body = "p = s32[8388608,8,4]{2,1,0:T(8,128)} parameter(0)\n"
    body += "ROOT n = s32[8388608,8,4]{2,1,0:T(8,128)} negate(p)"
    found = answer_of(scheduled(body))
    said = lines(scheduled(body))
    assert "padding takes 62 GiB of the peak (96.9 %)" in said
    assert "takes 32 GiB for 1 GiB (32x): dimension 2 of size 4 takes 128" in said
    assert "s32[8388608,8,4]{0,1,2:T(8,128)} would take 62 GiB less" in said
    assert found.first_step.startswith("to do: reorder the dimensions of s32[8388608,8,4]")


def test_values_that_live_for_an_instruction_at_the_peak_are_told() -> None:
    body = (
        "p = f32[256,1024]{1,0} parameter(0)\n"
        "t = f32[1024,256]{1,0} transpose(p), dimensions={1,0}\n"
        "z = f32[] constant(0)\nROOT r = f32[] reduce(t, z), dimensions={0,1}, to_apply=add"
    )
    said = lines(scheduled(body, before=ADD))
    assert "transient at the peak: 1 MiB transpose f32[1024,256]{1,0}, `t`, not needed" in said


def test_outputs_that_wait_are_why_xla_holds_more() -> None:
    body = (
        "z = f32[] parameter(0)\na = f32[1024]{0} broadcast(z), dimensions={}\n"
        "s = f32[] reduce(a, z), dimensions={0}, to_apply=add\n"
        "ROOT r = f32[512]{0} broadcast(s), dimensions={}"
    )
    said = lines(scheduled(body, before=ADD))
    assert "XLA holds about 2 KiB more than is live at once" in said
    assert "2 KiB: outputs that are allocated all the time and not in use at the peak" in said


def test_an_output_that_holds_a_temporary_does_not_wait() -> None:
    assert "outputs that are allocated" not in lines(TRAIN)


def test_a_result_that_xla_places_apart_is_named() -> None:
    """The result reads `e` itself, of which `b` is a later view."""
    body = (
        "p = f32[1024]{0} parameter(0)\ne = f32[1024]{0} exponential(p)\n"
        "b = f32[1024]{0} bitcast(e)\nz = f32[] constant(0)\n"
        "s = f32[] reduce(b, z), dimensions={0}, to_apply=add\n"
        "ROOT r = f32[1024]{0} fusion(e, s), kind=kLoop, calls=scaled"
    )
    scaled = (
        "scaled { a = f32[1024]{0} parameter(0) t = f32[] parameter(1) "
        "c = f32[1024]{0} broadcast(t), dimensions={} ROOT m = f32[1024]{0} multiply(a, c) }"
    )
    header = ", input_output_alias={ {}: (0, {}, may-alias) }"
    text = scheduled(body, header=header, before=f"{ADD}\n{scaled}")
    assert "4 KiB: `e` could share the memory of `p`; XLA gives it its own" in lines(text)
    assert "could share" not in lines(text.replace("fusion(e, s)", "fusion(b, s)"))


DEVICES: Final = [
    (1 << 33, "cannot fit: at least 96 GiB are live at once, h100 has"),
    (100, "may fit: XLA will ask for about 1.172 KiB, h100 has"),
]


@pytest.mark.parametrize(("size", "says"), DEVICES)
def test_whether_it_fits_is_said_against_both_bounds(size: int, says: str) -> None:
    body = (
        f"p = f32[{size}]{{0}} parameter(0)\nn = f32[{size}]{{0}} reverse(p), dimensions={{0}}\n"
        f"m = f32[{size}]{{0}} reverse(n), dimensions={{0}}\n"
        f"ROOT r = f32[{size}]{{0}} add(n, m)"
    )
    found = answer_of(scheduled(body, header=GPU_MARK))
    assert any(line.startswith(says) for line in found.first_lines()), found.first_lines()


def test_a_program_that_xla_does_not_fit_although_less_is_live() -> None:
    """10 GiB are kept for the output while 78 GiB of temporaries live."""
    half = 39 * (1 << 28)
    body = (
        f"z = f32[] parameter(0)\na = f32[{half}]{{0}} broadcast(z), dimensions={{}}\n"
        f"b = f32[{half}]{{0}} reverse(a), dimensions={{0}}\n"
        "s = f32[] reduce(b, z), dimensions={0}, to_apply=add\n"
        f"ROOT r = f32[{10 * (1 << 28)}]{{0}} broadcast(s), dimensions={{}}"
    )
    found = answer_of(scheduled(body, header=GPU_MARK, before=ADD))
    assert found.fits("h100").startswith(
        "does not fit as XLA assigns memory: it will ask for about 88 GiB, h100 has"
    )


def test_a_device_of_unknown_size_is_not_judged() -> None:
    assert answer_of(TRAIN).fits("cpu") == "cpu: the size of its memory is not known"


def test_rematerialised_buffers_are_counted() -> None:
    text = TRAIN.replace("h1", "h1.remat2")
    assert "1 of 6 buffers are rematerialised by XLA" in answer_of(text).first_lines()


def test_an_unscheduled_program_says_that_it_has_no_moments() -> None:
    found = answer_of(TRAIN.replace(", is_scheduled=true", ""))
    said = "\n".join(found.first_lines())
    assert "no moments: the program has no schedule" in said
    assert "parameters 1 MiB, outputs 1 MiB" in said
    assert "4 MiB  c1 (m.py:4)" in said
    assert [*found.answers()] == []
    with pytest.raises(NoMomentsError):
        _ = found.peak


def test_stablehlo_has_sums() -> None:
    found = hs.read(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = stablehlo.negate %x : tensor<8xf32>\n  return %0 : tensor<8xf32>\n}"
    ).memory()
    assert (found.model.sums.parameters, found.model.sums.outputs) == (32, 32)


def test_a_moment_is_asked_for_by_name_or_number() -> None:
    found = answer_of(TRAIN)
    assert found.at("s").number == found.at(5).number == found.peak.number
    assert found.at("d1").bytes < found.peak.bytes
    assert found.at(found.moments).instruction is None
    assert "the end, after moment 8" in str(found.at(found.moments))


@pytest.mark.parametrize("moment", [-1, 10, "nothing", "c"])
def test_a_moment_that_is_not_there_is_refused(moment: int | str) -> None:
    with pytest.raises(UnknownNameError):
        answer_of(TRAIN).at(moment)


def test_an_answer_prints_itself() -> None:
    found = answer_of(TRAIN)
    assert str(found).startswith("at least 7.001 MiB live at once")
    assert "<pre>" in found._repr_html_()


ASSIGNED: Final = """BufferAssignment:
allocation 0: size {size}, preallocated-temp:
 value: <1 p @0> (size={size},offset=0): f32[8]{{0}}
allocation 1: size 64, thread-local:
 value: <2 c @0> (size=4,offset=0): f32[]

Total bytes used: {total} (1KiB)
"""


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (96, "XLA assigned 96 bytes, 1.5 of the estimate (its dump says)"),
        (32, "XLA assigned 32 bytes, less than the computed minimum: a result shares"),
    ],
)
def test_what_xla_assigned_stands_beside_both_figures(size: int, says: str, tmp_path: Path) -> None:
    text = scheduled("p = f32[8]{0} parameter(0)\nROOT n = f32[8]{0} reverse(p), dimensions={0}")
    stem = tmp_path / "module_0001.jit_f.cpu_after_optimizations"
    Path(f"{stem}.txt").write_text(text.replace("HloModule m", "HloModule jit_f"))
    Path(f"{stem}-buffer-assignment.txt").write_text(ASSIGNED.format(size=size, total=size + 64))
    found = hs.read(tmp_path).memory()
    assert found.assigned == found.to_json()["assigned_bytes"] == size
    assert any(line.startswith(says) for line in found.first_lines()), found.first_lines()


def test_a_text_alone_does_not_tell_what_xla_assigned() -> None:
    assert answer_of(TRAIN).assigned is None
