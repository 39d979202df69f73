"""Who makes the kernel of an instruction, and which part of its value is a workspace."""

from __future__ import annotations

import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Instruction
from hloscope.memory.kinds import called_for_kernels, is_scratch, kind_of, scratch_of, synchronous

BODIES = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
b { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
c { p = f32[4] parameter(0) ROOT r = pred[] constant(false) }
"""


def root(text: str) -> Instruction:
    return parse_hlo(
        f"HloModule m\n{BODIES}\nENTRY e {{ p = f32[4] parameter(0)\n{text} }}"
    ).entry.root


def fusion(kind: str, config: str = "") -> str:
    told = f', backend_config={{"fusion_backend_config":{config}}}' if config else ""
    return f"ROOT r = f32[4] fusion(p), kind={kind}, calls=b{told}"


def test_the_backend_config_of_a_fusion_names_the_maker() -> None:
    custom = '{"kind":"__custom_fusion","custom_fusion_config":{"name":"%s"}}'
    for text, kind in {
        fusion("kLoop"): "xla emitter",
        fusion("kLoop", '{"kind":"__other"}'): "xla emitter",
        fusion("kCustom", '{"kind":"__triton_gemm"}'): "triton __triton_gemm",
        fusion("kCustom", '{"kind":"__cudnn$fusion"}'): "library cuDNN",
        fusion("kCustom"): "custom call of no stated kind",
        fusion("kCustom", '{"kind":"__mine"}'): "custom call __mine",
        fusion("kCustom", '{"kind":"__custom_fusion"}'): "custom call __custom_fusion",
        fusion("kLoop", '{"kind":"__custom_fusion"}'): "custom call __custom_fusion",
        fusion("kCustom", custom % "cutlass_gemm"): "custom call cutlass_gemm",
        fusion("kLoop", custom % "cutlass_gemm"): "custom call cutlass_gemm",
        fusion("kCustom", '{"custom_fusion_config":{"name":"mine"}}'): "custom call mine",
        fusion("kCustom", custom % "dynamic_address_computation"): "dynamic_slice_fusion",
        fusion("kCustom", custom % "address_computation"): "dynamic_slice_fusion",
        fusion("kCustom", custom % "address_computations"): "custom call address_computations",
    }.items():
        assert str(kind_of(root(text))) == kind, text


def test_ops_and_call_targets_name_the_maker() -> None:
    call = 'ROOT r = f32[4] custom-call(p), custom_call_target="%s"'
    loop = "ROOT r = f32[4] while(p), condition=c, body=b"
    for text, kind, has_threads, is_kernel, reads_all, calls in [
        ("ROOT r = f32[4] negate(p)", "xla emitter", True, True, False, False),
        ("ROOT r = f32[4] stochastic-convert(p, p)", "replaced stochastic_convert", False, True,
         False, False),
        ("ROOT r = (f32[4]) tuple(p)", "none", False, False, False, False),
        (call % "__cublas$gemm", "library cuBLAS", False, True, False, False),
        (call % "MoveToHost", "copy", False, True, True, False),
        (call % "mine", "custom call mine", False, True, False, False),
        ("ROOT r = f32[4] all-reduce(p), to_apply=add", "collective NCCL", False, True, True,
         False),
        ("ROOT r = f32[4] fusion(p), kind=kLoop, calls=b", "xla emitter", True, True, False, False),
        (loop, "calls", False, False, False, True),
        ("ROOT r = f32[4] call(p), to_apply=b", "calls", False, False, False, True),
        ("t = token[] after-all() ROOT r = token[] outfeed(p, t)", "transfer outfeed", False, True,
         True, False),
        ("ROOT r = u32[] replica-id()", "device number", False, True, False, False),
    ]:  # fmt: skip
        ins = root(text)
        found = kind_of(ins)
        assert str(found) == kind
        told = (found.has_threads, found.is_kernel, found.reads_all, called_for_kernels(ins))
        assert told == (has_threads, is_kernel, reads_all, calls), text


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("f32[2,3]{1,0}", "f32[2,3]{1,0}", "copy"),
        ("f32[2,3]{1,0}", "f32[2,3]{0,1}", "xla emitter"),
        ("f32[2,3]", "f32[2,3]", "copy"),
        ("f32[2,3]", "f32[2,3]{1,0}", "xla emitter"),
        ("f32[2,3]{1,0}", "f32[2,3]", "xla emitter"),
        ("(f32[2]{0})", "(f32[2]{0})", "copy"),
    ],
)
def test_a_copy_to_the_same_layout_moves_bytes(before: str, after: str, kind: str) -> None:
    assert str(kind_of(root(f"x = {before} parameter(1) ROOT r = {after} copy(x)"))) == kind


def test_an_asynchronous_start_is_seen_as_its_operation() -> None:
    for text, name, type in [
        ("ROOT r = f32[4] negate(p)", "negate", "f32[4]"),
        ("ROOT r = (f32[4], f32[4], u32[]) copy-start(p)", "copy-start", "f32[4]"),
        ("ROOT r = f32[4] all-reduce-start(p), to_apply=add", "all_reduce", "f32[4]"),
        ("q = f32[4] negate(p) ROOT r = (f32[4], f32[4]) all-reduce-start(p, q), to_apply=add",
         "all_reduce", "(f32[4], f32[4])"),
        ("ROOT r = (f32[4], f32[8]) all-gather-start(p), dimensions={0}", "all_gather", "f32[8]"),
        ("ROOT r = (f32[4]) all-gather-start(p), dimensions={0}", "all_gather", "()"),
    ]:  # fmt: skip
        ins = synchronous(root(text))
        assert (ins.op.name, str(ins.type)) == (name, type), text


@pytest.mark.parametrize("target", ["__cublas$gemm", "__cudnn$conv", "__cub$sort", "mine"])
def test_the_last_result_of_bytes_is_a_workspace(target: str) -> None:
    is_library = target != "mine"
    for results, place in [
        ("(f32[4], s8[64])", 1),
        ("(f32[4], u8[64])", 1),
        ("(f32[4], f32[4], s8[64])", 2),
        ("(f32[4], s16[64])", None),
        ("(f32[4], s8[8,8])", None),
        ("(f32[4], s8[])", None),
        ("(f32[4], (s8[64]))", None),
        ("(s8[64])", None),
        ("s8[64]", None),
    ]:
        call = f'{results} custom-call(p), custom_call_target="{target}"'
        found = root(f"ROOT r = {call}")
        assert scratch_of(found) == (place if is_library else None), results
        for leaf in range(3):
            assert is_scratch(found, leaf) is (is_library and leaf == place)
        if place is not None:
            part = f"ROOT g = {results.strip('()').split(', ')[place]} get-tuple-element(c)"
            assert is_scratch(root(f"c = {call} {part}, index={place}")) is is_library
            first = f"c = {call} ROOT g = f32[4] get-tuple-element(c), index=0"
            assert not is_scratch(root(first))


def test_the_workspace_of_cholesky_is_between_factor_and_info() -> None:
    call = 'ROOT r = (f32[4,4], %ss32[]) custom-call(p), custom_call_target="%s"'
    assert scratch_of(root(call % ("f32[64], ", "__cusolver$cholesky"))) == 1
    assert scratch_of(root(call % ("", "__cusolver$cholesky"))) is None
    assert scratch_of(root(call % ("f32[64], ", "mine"))) is None


def test_the_workspace_of_a_cudnn_fusion_is_a_call_that_does_nothing() -> None:
    call = 'ROOT r = u8[64] custom-call(), custom_call_target="%s"'
    assert is_scratch(root(call % "__nop"))
    assert not is_scratch(root(call % "mine"))
