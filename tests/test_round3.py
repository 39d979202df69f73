"""Every input of `regressions/round3` gives what is right, here or in the test that is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hloscope
from hloscope.api import footprint_of_program
from hloscope.cli.app import app
from hloscope.cost import loops_of
from tests.conftest import SHARED

ROOT = Path(__file__).parents[1]
FOLDER = SHARED / "regressions/round3"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs ../shared/regressions/round3 beside the checkout"
)

ELSEWHERE = {
    "tests/cli/test_equal.py": "agA agB arA arB cbA cbB c08_ds_after c08_ds_before c08_ds_right"
    " eqA eqB eqC equal_add equal_sub f01_spmd_dus_after f01_spmd_dus_before",
    "tests/movement/test_savings.py": "cancel_3_writes cancel_5_writes cancel_shared"
    " u01_three_transposes g07_loop_copy while_trips",
    "tests/cost/test_kernels.py": "dynamic_slice_fusion dynamic_slice_fusion_loop e02_ars e02b_ar"
    " e03_copystart i03_ar_variadic lib_calls o01_dus_slice o03_dus_ds_same workspace"
    " same_dynamic_slice_twice scatter",
    "tests/cost/test_target.py": "d01_tpu_oom pad1 pad2 pad3",
    "tests/passes/test_index_folds.py": "dyn_tensor_dim_run refine_tensor_dim",
    "tests/verifier/test_shardy.py": "a2a_empty_groups sdy_manual_shape sdy_no_mesh",
    "tests/cli/test_invalid_instructions.py": "neuron_ag",
}
"""Inputs whose right values other tests state, by the stems of their names."""
NO_INPUTS = {
    "README.md": "the table of all of them",
    "disk_full_partial.sh": "mounts a disk, as root; `tests/cli` fills one by a limit of a file",
    "xla_wrong_turns.py": "shows what XLA counts; the programs of `loop_` files are counted here",
    "xla_wrong_final_value.py": "shows what XLA counts, as well",
    "leak_simplify.py": "measures memory; `tests/simplifier/test_tables.py` bounds the tables",
}


def run(*words: str) -> Result:
    """A command; names of files are relative to the folder."""
    found = [str(FOLDER / word) if (FOLDER / word).is_file() else word for word in words]
    return CliRunner().invoke(app, found, prog_name="hloscope")


# ----------------------------------------------------------------------------------- verifying

REFUSED = {
    "async_body.hlo": "`async-start` calls f, which needs to be one op and its parameters",
    "dim63.hlo": "f32[2,9223372036854775808], whose number of elements exceeds",
    "over63.hlo": "f32[4611686018427387904,8], whose number of elements exceeds",
    "g08_alias.hlo": "parameter 0 is s32[16] of 64 bytes, part {0} of the result s32[8] of 32",
    "q04_cc_alias.hlo": "operand 0 is f32[4], part {} of the result f32[8]",
    "q11_nodone.hlo": "`cs` begins `copy-start`, which nothing ends",
    "v01_start2.hlo": "`a` begins `all-reduce-start`, which nothing ends",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_xla_refuses_is_refused(name: str) -> None:
    result = run("verify", f"verify/{name}")
    assert result.exit_code == 3
    assert REFUSED[name] in result.stderr


def test_packed_booleans_have_one_meaning_for_every_command() -> None:
    assert run("verify", "verify/hex_i1_packed.mlir").exit_code == 0
    found = hloscope.evaluate(FOLDER / "verify/hex_i1_packed.mlir")
    assert np.flatnonzero(found).tolist() == [0, 8, 15]  # bytes 0x01 and 0x81, lowest bit first


# ------------------------------------------------------------------------------------- reading

READ = {
    "api_unspecified.hlo": "XLA prints `API_VERSION_UNSPECIFIED` and refuses it",
    "d04_log.hlo": "read without what stands before each line",
    "d05_absl_log.hlo": "read without what stands before each line",
    "d07_quoted.hlo": "read without what stands before each line: `> `",
    "d08_markdown.hlo": "read with the entities of HTML (`&gt;`) as characters",
    "d12_ansi.hlo": "read without the colours of a terminal",
    "r01_fragment.hlo": "computation `scalar_add_computation` is not in the text",
    "r02_entry_only.hlo": "computation `fused_computation.1` is not in the text",
    "mhlo_mixed.mlir": "ops of `mhlo` are read as those of `stablehlo`",
    "dense_resource.mlir": "",
    "fused_alias.mlir": "",
    "meta_comment.mlir": "",
    "resource_comment.mlir": "",
    "sdy_alias.mlir": "",
    "sdy_fdfe.mlir": "",
    "sdy_flow_edge.mlir": "",
    "sdy_mesh_full.mlir": "",
    "sdy_mesh_hash.mlir": "",
}
"""What is read, with the note on what was read otherwise than it is written."""


@pytest.mark.parametrize("name", READ)
def test_what_others_write_is_read_and_the_print_is_read_again(name: str) -> None:
    result = run("verify", f"reading/{name}")
    assert result.exit_code == 0, result.stderr
    assert READ[name] in result.stderr
    assert ("note:" in result.stderr) is bool(READ[name])
    locations = ["--locations"] if name.endswith(".mlir") else []
    printed = run("print", f"reading/{name}", *locations)
    assert printed.exit_code == 0, printed.stderr
    assert hloscope.verify(printed.stdout) == []


def test_an_elided_line_is_told_at_its_own_place() -> None:
    result = run("verify", "reading/d09_elided.hlo")
    assert result.exit_code == 3
    assert "d09_elided.hlo:6:3: error: `...` stands for lines that were left out" in result.stderr


def test_an_operand_whose_type_nothing_states_is_named_with_what_to_add() -> None:
    """XLA's parser refuses these lines as well, alone and in a computation."""
    for command in ("verify", "ls", "index", "cost"):
        result = run(command, "reading/d10_partial.hlo")
        assert result.exit_code == 3
        assert "d10_partial.hlo:1:62: error: operand `bitcast.7` is not defined" in result.stderr
        assert "add the line that defines it or write its type before it" in result.stderr
    text = (FOLDER / "reading/d10_partial.hlo").read_text()
    typed = text.replace("(%bitcast.7, %constant_16, %param_0.1, %constant_16)",
        "(bf16[1024,8,2956] %bitcast.7, s32[] %constant_16, s32[] %param_0.1, s32[] %constant_16)",
    ).replace("(%p.1, %p.2)", "(f32[2,6] %p.1, f32[2,6] %p.2)")  # fmt: skip
    assert [ins.name for ins in hloscope.read(typed).entry if ins.operands][:2] == [
        "dynamic-slice.31", "fusion.2",
    ]  # fmt: skip


def test_blobs_of_the_file_are_values() -> None:
    first, second = hloscope.evaluate(FOLDER / "reading/dense_resource.mlir")
    assert first.astype(float).tolist() == [[2, 2]]
    assert second.tolist() == [1, -2]


def test_ops_of_unknown_dialects_are_kept_and_the_others_answered() -> None:
    name = "reading/transform_seq.mlir"
    assert "Dialect `transform' not found" in run("verify", name).stderr
    assert run("verify", name, "--allow-unregistered").exit_code == 0
    printed = run("print", name)
    assert printed.exit_code == 0
    assert "transform.named_sequence @__transform_main" in printed.stdout
    assert run("index", name).exit_code == 0


# ---------------------------------------------------------------------------------------- maps


def test_taps_that_only_meet_padding_are_not_read() -> None:
    root = hloscope.read(FOLDER / "maps/conv_kernel.hlo").root
    text = str(root.indexing_from(1))
    assert "(d0, d1, d2)[s0] -> (0, s0, 0)   s0 in [0, 1], d0 + s0 in [1, 2]   exact" in text


def test_groups_of_a_stated_count_are_everybody() -> None:
    text = str(hloscope.read(FOLDER / "maps/a2a_unknown.hlo").root.indexing())
    assert "(d0){rt0} -> (rt0 * 2 + d0 mod 2) on replica (d0 / 2)   rt0 in [0, 1]   exact" in text


def test_the_total_order_of_small_floats_knows_payloads() -> None:
    program = hloscope.read(FOLDER / "maps/total_f8.hlo")
    element = hloscope.evaluate(
        "ENTRY e { p = u8[1] parameter(0) ROOT b = f8e5m2[1] bitcast-convert(p) }", np.uint8([0])
    ).dtype
    a, b = (np.array([bits], np.uint8).view(element) for bits in (0x7D, 0x7E))
    assert program.evaluate(a, b).tolist() == [True]


def test_divisors_below_zero_are_pythons_or_refused() -> None:
    """XLA and Python differ in the sign of a remainder; `neg_mod.py` evaluates both."""
    source = (FOLDER / "maps/neg_mod.py").read_text()
    assert "d0 mod (%d), d0 floordiv (%d)" in source
    for n in (-2, -3, -5):
        with pytest.raises(hloscope.ParseError, match="needs a positive divisor"):
            hloscope.IndexingMap.parse(f"(d0) -> (d0 mod ({n})), domain: d0 in [0, 9]")
        found = hloscope.IndexingMap.parse(f"(d0) -> (d0 floordiv ({n})), domain: d0 in [0, 9]")
        assert [found.evaluate((v,)) for v in (1, 4)] == [(v // n,) for v in (1, 4)]


# ---------------------------------------------------------------------------------- decisions

TRIPS = {
    "loop_10.hlo": [10],
    "loopcoll.hlo": [48],
    "scan_of_scan.mlir": [5, 3],
    "loop_xla_wrong_count.hlo": [3],
    "loop_negative_count.hlo": [10],
}
"""Trip counts by execution; the last two have an annotation that is wrong."""


@pytest.mark.parametrize("name", TRIPS)
def test_trip_counts_are_those_of_execution(name: str) -> None:
    module = hloscope.read(FOLDER / f"decisions/{name}").module
    assert [loop.trip_count.count for loop in loops_of(module)] == TRIPS[name]


FLOPS = {"conv_base_dilated": 2400, "dilated_conv": 101568, "select_and_scatter": 64}
"""Known by XLA, and by hand."""


@pytest.mark.parametrize("name", FLOPS)
def test_flops_of_valid_taps(name: str) -> None:
    found = footprint_of_program(hloscope.read(FOLDER / f"decisions/{name}.hlo"))
    assert [kernel.flops for kernel in found.kernels] == [FLOPS[name]]


def test_taps_in_the_padding_are_not_counted() -> None:
    """Of 8 × 8 places 22 × 22 / 9 meet a tap in each of 9 positions; 3 features in, 4 out."""
    found = footprint_of_program(hloscope.read(FOLDER / "decisions/conv_pad.hlo"))
    assert [kernel.flops for kernel in found.kernels] == [2 * 22 * 22 * 3 * 4]


def test_one_branch_of_a_conditional_runs() -> None:
    found = footprint_of_program(hloscope.read(FOLDER / "decisions/conditional.hlo"))
    assert sorted(kernel.runs for kernel in found.kernels) == [0, 1, 1]
    assert found.total == 2 * 80 + 3 * 80  # the branch with most bytes: `a`, then `r` of two


def test_a_sort_has_no_threads_that_are_known() -> None:
    result = run("coalesce", "decisions/sort_with_fusion.hlo", "r")
    assert result.exit_code == 4
    assert "nothing is known of its threads" in result.stderr


def test_a_tile_of_a_product_has_the_blocks_of_the_summed_dimension() -> None:
    told = json.loads(run("coalesce", "decisions/triton_gemm.hlo", "--json").stdout)
    why = {group["array"]: group["why"] for group in told["groups"]}
    assert why["operand 0"].startswith("tile 16x16: 32 bytes")
    assert why["operand 1"].startswith("tile 16x8: 16 bytes")
    totals = {group["array"]: (group["total"], group["moved_bytes"]) for group in told["groups"]}
    unused, moved = totals["operand 0"]
    assert moved == 2 * unused


# ------------------------------------------------------------------------------------ the rest


def test_layouts_show_and_defaults_are_equal() -> None:
    paths = [FOLDER / f"compare/{name}" for name in ("l1.hlo", "l2.hlo", "l3.hlo")]
    assert "f32[4,8]{1,0} → f32[4,8]{0,1}" in run("diff", *map(str, paths[:2])).stdout
    assert hloscope.diff(paths[0], paths[2]).none


def test_a_search_gives_only_tiles_that_are_accepted() -> None:
    name = "tiles/l01_concat_uneven.hlo"
    found = run("tile", name, "--search", "--json")
    assert found.exit_code == 0, found.stderr
    best = json.loads(found.stdout)["search"]["best"]
    assert best
    for row in best[:40]:
        result = run("tile", name, "--sizes", ",".join(map(str, row["sizes"])))
        assert result.exit_code == 0
        assert "refuse" not in result.stdout + result.stderr, row
    assert "refuse" in run("tile", name, "--sizes", "32,128").stdout  # 64 is not a multiple of 128


def test_two_maps_of_one_tile_are_one_box() -> None:
    result = run("tile", "tiles/softmax_tile_small.hlo", "--sizes", "1,16,1024")
    assert result.exit_code == 0
    assert "undecided" not in result.stdout
    assert "the same strided box for every whole tile: 1 x 16 x 1024" in result.stdout


@pytest.mark.parametrize("target", ["0.19.0", "1.0.0", "1.13.0"])
@pytest.mark.parametrize("name", ["array_attr_roundtrip", "func_array_attr"])
def test_arrays_are_written_as_tensors(name: str, target: str) -> None:
    text = (FOLDER / f"serialize/{name}.mlir").read_text()
    data = hloscope.serialize(text, target)
    again = str(hloscope.deserialize(data))
    shown = run("serialize", f"serialize/{name}.mlir", "--target", target, "--text").stdout
    of_ops = "\n".join(line for line in shown.splitlines() if not line.startswith("module"))
    assert "array<" not in of_ops
    assert "tensor_v1<" in of_ops
    assert again


def test_an_artifact_of_the_future_is_readable_by_no_known_version() -> None:
    result = run("doctor", "serialize/invalid_vhlo_future.mlir.bc")
    assert "readable by   no known version" in result.stdout
    assert "2.0.0" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gather_chain_128", "shift_add_128"])
def test_long_chains_are_answered(name: str) -> None:
    result = run("tile", f"growth/{name}.hlo")
    assert result.exit_code == 0, result.stderr


def test_a_deep_map_is_answered_within_its_time() -> None:
    text = (FOLDER / "growth/deep_map_900157.txt").read_text().strip()
    result = run("equal", text, text, "--seconds", "2")
    assert result.exit_code in (0, 4)


SCRIPTS = {
    "host/threads_gc_off.py": ("4 2", "gc on"),
    "host/threads_gc_recursion.py": ("20 3", "after  True 1000"),
    "host/pool_hang.py": ("pool", "TextError"),
    "threads/rr_200.py": ("", "after 1000 errors 0"),
    "threads/rr_480.py": ("", "after 1000 errors 0"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_process_is_as_before(name: str) -> None:
    words, said = SCRIPTS[name]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / name), *words.split()],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True, text=True,
        timeout=250, check=False,
    )  # fmt: skip
    assert said in done.stdout + done.stderr


def test_every_input_is_tested() -> None:
    """Those of `kernels/` are counted by execution, and tested by their folder's own table."""
    own = Path(__file__).read_text()
    missing = []
    for path in sorted(p for p in FOLDER.rglob("*") if p.is_file()):
        stem = path.name.partition(".")[0]
        if path.parent.name == "kernels" or path.name in NO_INPUTS:
            continue
        tests = [test for test, stems in ELSEWHERE.items() if stem in stems.split()]
        texts = [(ROOT / test).read_text() for test in tests]
        if texts:
            assert all(stem in text for text in texts), path
        elif f"{stem}" not in own:  # every other name is in a table or a test above
            missing.append(path)
    assert missing == []
