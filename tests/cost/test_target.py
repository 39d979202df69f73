"""The backend a program was compiled for is recognised by its marks alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloscope as hs
from hloscope.cost import Target, target_of
from tests.conftest import SHARED, needs_shared

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def target(text: str) -> Target:
    return target_of(hs.read(text).module)


def fusion(*, kind: str = "kLoop", callee: str = "body", rest: str = "", header: str = "") -> str:
    return (
        f"HloModule m{header}\n"
        f"{callee} {{ a = f32[8]{{0}} parameter(0) ROOT n = f32[8]{{0}} negate(a) }}\n"
        "ENTRY e { p = f32[8]{0} parameter(0) "
        f"ROOT r = f32[8]{{0}} fusion(p), kind={kind}, calls={callee}{rest} }}\n"
    )


def call(name: str, header: str = "") -> str:
    return (
        f"HloModule m{header}\nENTRY e {{ p = f32[8]{{0}} parameter(0) "
        f'ROOT r = f32[8]{{0}} custom-call(p), custom_call_target="{name}" }}\n'
    )


SCHEDULED = ", is_scheduled=true"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (fusion(kind="kInput"), "gpu"),
        (fusion(callee="fused_negate"), "gpu"),
        (fusion(rest=', backend_config={"operation_queue_id":"0"}'), "gpu"),
        (fusion(rest=', backend_config={"fusion_backend_config":{"kind":"__triton"}}'), "gpu"),
        (fusion(rest=', metadata={op_name="neg" scheduling_name="r"}'), "gpu"),
        (fusion(header=', frontend_attributes={fingerprint_before_lhs="3a"}'), "gpu"),
        (call("__cublas$gemm"), "gpu"),
        (call("__cudnn$convForward"), "gpu"),
        (call("cusolver_getrf_ffi", SCHEDULED), "gpu"),
        (call("cusolver_getrf_ffi"), "uncompiled"),
        (fusion(rest=', backend_config={"outer_dimension_partitions":["2"]}'), "cpu"),
        (fusion(rest=', backend_config={"fusion_config":{"kind":"__ynn_fusion"}}'), "cpu"),
        (fusion(callee="fused_computation", header=SCHEDULED), "cpu"),
        (fusion(callee="fused_computation"), "uncompiled"),
        (fusion(callee="wrapped_negate_computation", header=SCHEDULED), "cpu"),
        (
            fusion(
                callee="wrapped_negate_computation",
                header=SCHEDULED + ", allow_spmd_sharding_propagation_to_output={true}",
            ),
            "uncompiled",
        ),
        (call("__onednn$matmul"), "cpu"),
        (call("lapack_sgetrf_ffi", SCHEDULED), "cpu"),
        (call("lapack_sgetrf_ffi"), "uncompiled"),
        (call("TopK", SCHEDULED), "cpu"),
        (call("TopK"), "uncompiled"),
        (call("tpu_custom_call", SCHEDULED), "tpu"),
        (call("tpu_custom_call"), "uncompiled"),
        (fusion(rest=', backend_config={"window_config":{"kernel_window_bounds":[]}}'), "tpu"),
        ("HloModule m\nENTRY e { ROOT p = f32[16,128]{1,0:T(8,128)} parameter(0) }", "tpu"),
        ("HloModule m\nENTRY e { ROOT p = s8[4,4]{1,0:E(4)} parameter(0) }", "uncompiled"),
        ("HloModule m\nENTRY e { ROOT p = f32[4,4]{1,0:T(2,2)} parameter(0) }", "uncompiled"),
        (fusion(), "uncompiled"),
        (fusion(header=SCHEDULED), "uncompiled"),
        (call("AnythingElse"), "uncompiled"),
        ("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }",
         "uncompiled"),
    ],
)  # fmt: skip
def test_a_mark_shows_the_backend(text: str, kind: str) -> None:
    assert target(text).kind == kind


def test_the_evidence_names_the_mark_and_its_place() -> None:
    found = target(call("__cublas$gemm"))
    assert found.evidence == "custom call `__cublas$gemm` of `r`"
    assert found.is_compiled


def test_the_config_of_a_kernel_that_a_framework_wrote_is_no_mark() -> None:
    config = ', backend_config={"custom_call_config":{"scoped_memory_configs":[]}} }\n'
    text = call("tpu_custom_call").replace(" }\n", config)
    assert text.count("scoped_memory_configs") == 1
    assert target(text).kind == "uncompiled"


def test_libraries_of_rocm_show_an_amd_device() -> None:
    assert target(call("hipsolver_getrf_ffi", SCHEDULED)).device == "amd"
    assert target(call("cusolver_getrf_ffi", SCHEDULED)).device is None


def test_the_schedule_is_reported_beside_the_backend() -> None:
    assert target(fusion(header=SCHEDULED)).scheduled
    assert not target(fusion(kind="kInput")).scheduled


def test_a_mark_in_a_called_computation_counts() -> None:
    text = (
        "HloModule m\nbody { a = f32[8]{0} parameter(0) ROOT r = f32[8]{0} custom-call(a), "
        'custom_call_target="__cublas$gemm" }\n'
        "ENTRY e { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} call(p), to_apply=body }\n"
    )
    assert target(text).kind == "gpu"


def test_a_computation_that_cannot_be_read_shows_nothing_and_the_others_count() -> None:
    broken = (
        "HloModule m\nbad { a = f32[8]{0} parameter(0) ROOT r = f32[8]{0} negate(nothing) }\n"
        "ENTRY e { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} call(p), to_apply=bad }\n"
    )
    module = hs.read(broken).module
    with pytest.raises(hs.HloscopeError):
        assert module.computations["bad"].body
    assert target_of(module).kind == "uncompiled"
    marked = broken.replace("call(p), to_apply=bad", "fusion(p), kind=kInput, calls=bad")
    assert target_of(hs.read(marked).module).kind == "gpu"


def wanted(path: Path) -> str:
    if path.parent.name == "memory":
        return path.name[:3]
    if ".gpu.opt" in path.name:
        return "gpu"
    return "cpu" if ".opt." in path.name else "uncompiled"


@pytest.mark.slow(keep=2)
@needs_shared
@pytest.mark.parametrize(
    "pattern",
    ["real/models/[a-c]*.hlo.txt", "real/models/[s-z]*.hlo.txt", "real/models/[a-d]*.mlir",
     "conformance/memory/*.hlo.txt", "real/corpus/*/*.hlo.txt", "real/corpus/*/*.mlir*"],
)  # fmt: skip
def test_real_programs_are_recognised(pattern: str) -> None:
    paths = sorted(SHARED.glob(pattern))
    assert paths
    found = {path.name: target_of(hs.read(path).module) for path in paths}
    wrong = {path.name: found[path.name] for path in paths if found[path.name].kind != wanted(path)}
    assert not wrong


@needs_shared
@pytest.mark.parametrize("name", ["pad1", "pad2", "pad3", "d01_tpu_oom"])
def test_programs_of_tpus_are_recognised_by_their_layouts(name: str) -> None:
    path = SHARED / f"regressions/round3/decisions/{name}.hlo"
    assert target_of(hs.read(path).module).kind == "tpu"
