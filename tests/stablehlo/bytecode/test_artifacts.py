"""Artifacts of StableHLO and JAX: read, re-encoded and written as the reference writes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.api import files as compressed, sources
from hloscope.cli.app import app
from hloscope.display import health_json, health_text
from hloscope.errors import HloscopeError, InputError, UnsupportedError
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.stablehlo.bytecode import (
    Bytecode,
    BytecodeError,
    examine,
    is_bytecode,
    is_exported,
    read_bytecode,
    read_exported,
    stablehlo_of_tree,
    version_in,
    write_artifact,
    write_bytecode,
)
from hloscope.stablehlo.vhlo import CURRENT, DowngradeError, version_text
from tests.conftest import SHARED

HISTORY = sorted((SHARED / "conformance/stablehlo/vhlo").glob("*.bc"))
REAL = sorted((SHARED / "real/models").glob("*.bc"))
EXPORTED = sorted((SHARED / "real/models").glob("*.jaxexport"))
SAMPLES = sorted((SHARED / "conformance/stablehlo/jax_samples").glob("*.mlir"))
HASHES = Path(__file__).parent / "hashes.txt"
"""What jaxlib 0.10.2 writes of programs without debug information at some versions."""

TAN = """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tan %x : tensor<2xf32> loc("here")
  return %0 : tensor<2xf32>
}"""


def written_again(found: Bytecode) -> bytes:
    return write_bytecode(
        found.module,
        producer=found.image.producer,
        version=found.image.version,
        orders=found.orders,
        by_trait=found.by_trait,
    )


def some(files: list[Path], full: bool, step: int) -> list[Path]:
    return files if full else files[::step]


@pytest.mark.slow
def test_artifacts_of_every_version_are_re_encoded_byte_for_byte(shared: Path) -> None:
    assert len(HISTORY) >= 30
    for path in HISTORY:
        data = path.read_bytes()
        assert written_again(read_bytecode(data, path.name)) == data, path.name


def test_artifacts_of_jax_are_re_encoded_byte_for_byte(shared: Path, full: bool) -> None:
    for path in some(REAL, full, 12):
        data = path.read_bytes()
        assert written_again(read_bytecode(data, path.name)) == data, path.name


def test_exported_functions_are_re_encoded_byte_for_byte(shared: Path, full: bool) -> None:
    for path in some(EXPORTED, full, 20):
        data = path.read_bytes()
        assert is_exported(data)
        for one in read_exported(data, path.name):
            assert one.version == 3
            assert one.platforms
            found = read_bytecode(one.module, path.name)
            assert written_again(found) == one.module, path.name


def test_programs_of_artifacts_are_written_as_they_were(shared: Path, full: bool) -> None:
    """StableHLO of an artifact, serialized again for its version by the library that wrote it."""
    same = 0
    for path in some(REAL, full, 12):
        data = path.read_bytes()
        found = read_bytecode(data, path.name)
        if any(op.name.startswith("sdy.") for op in found.module.walk()):
            continue
        version = version_in(found.image.producer)
        assert version is not None
        again = write_artifact(
            stablehlo_of_tree(found.module),
            version_text(version),
            library="1.17.0",
            allow_other_dialects=True,
        )
        # `version = 0 : i32` of a composite is what every reader drops.
        same += again == data or "composite" in path.name
    assert same >= (68 if full else 6)


@pytest.mark.slow
def test_programs_are_written_as_jaxlib_writes_them(shared: Path, full: bool) -> None:
    rows = [line.split() for line in HASHES.read_text().splitlines()]
    for name, *targets in rows if full else rows[::4]:
        text = (shared / name).read_text()
        tree, _ = find_pass("strip-debuginfo").apply(parse_mlir(text, name, dialects=DIALECTS))
        for target, expected in (one.split("=") for one in targets):
            try:
                found = hashlib.sha1(write_artifact(tree, target, library="1.17.0")).hexdigest()
            except HloscopeError:
                found = "refused"
            assert found[:12] == expected[:12], f"{name} {target}"


def future_artifact(damaged: bool = False) -> bytes:
    """An artifact of version 9.10.0 that has an op, and perhaps a type, of no known version."""
    data = hloscope.serialize(TAN, "1.10.0").replace(b"v1.10.0", b"v9.10.0")
    return data.replace(b"tan_v2", b"tan_v7", 1)[: -3 if damaged else None]


def test_nobody_known_reads_an_op_of_the_future() -> None:
    health = examine(future_artifact(), "future")
    assert health.unknown == ("vhlo.tan_v7",)
    assert (health.readable_by, health.oldest_target) == ("", "")
    assert (health.because, health.forced_by) == ((), ())
    text = health_text(health)
    newest = version_text(CURRENT)
    assert "no known version: written by StableHLO_v9.10.0; the newest" in text
    assert newest in text
    assert "and later" not in text
    assert "could be" not in text
    described = health_json(health)
    assert (described["readable_by"], described["newest_known"]) == (None, newest)


@pytest.mark.parametrize("damaged", [False, True], ids=["an op", "the file ends"])
def test_errors_about_artifacts_of_the_future_name_producer_and_newest_version(
    damaged: bool,
) -> None:
    said = (
        f"produced by: StableHLO_v9.10.0; the newest version known here is {version_text(CURRENT)}"
    )
    for read in (hloscope.deserialize, hloscope.read, hloscope.serialize):
        with pytest.raises(HloscopeError) as error:
            read(future_artifact(damaged))
        assert str(error.value).count(said) == 1


def test_a_producer_of_the_future_whose_ops_are_known_is_readable() -> None:
    data = hloscope.serialize(TAN, "1.10.0").replace(b"v1.10.0", b"v9.10.0")
    text = health_text(examine(data, "future"))
    assert f"9.10.0; the newest version known here is {version_text(CURRENT)}" in text
    assert "readable by   StableHLO 1.10.0 and later" in text
    assert hloscope.deserialize(data).entry.name == "f"


OP_NEEDS = {
    # An op without a second form, in types that newer versions have: only its types count.
    ("add", "f32"): ("0.15.0", [], "0.9.0", []),
    ("add", "f8E4M3B11FNUZ"): ("0.15.0", [], "0.11.0", ["the type f8E4M3B11FNUZ"]),
    ("add", "f8E4M3"): ("1.7.0", ["the type f8E4M3"], "1.7.0", ["the type f8E4M3"]),
    # `tan_v1` is of version 1.4.0, `tan_v2` of 1.10.0: readers need the form that is written, a
    # new artifact the op.
    ("tan", "f32"): ("1.10.0", ["the op tan_v2"], "1.4.0", ["the op tan"]),
    ("tan", "f8E4M3"): ("1.10.0", ["the op tan_v2"], "1.7.0", ["the type f8E4M3"]),
}
"""By op and element type: the oldest reader and what it must know, the oldest target and why.

The bytecode version of the artifact needs version 0.15.0.
"""


def test_the_oldest_reader_and_target_follow_from_ops_and_types() -> None:
    for (op, element), expected in OP_NEEDS.items():
        type_, operands = f"tensor<2x{element}>", "%a" if op == "tan" else "%a, %a"
        text = f"func.func @f(%a: {type_}) -> {type_} {{ %0 = stablehlo.{op} {operands} : {type_}\n"
        health = examine(hloscope.serialize(f"{text} return %0 : {type_} }}"), "f")
        because, forced_by = (
            list(dict.fromkeys(one.feature.partition(" of ")[0] for one in found))
            for found in (health.because, health.forced_by)
        )
        assert (health.readable_by, because, health.oldest_target, forced_by) == expected


def test_a_version_needs_each_operand_and_result_with_its_type() -> None:
    text = "func.func @f(%a: tensor<2xf32>, %b: tensor<2xf8E4M3>) -> tensor<2xf32> {\n"
    text += "%0 = stablehlo.convert %b : (tensor<2xf8E4M3>) -> tensor<2xf32>\n"
    text += "%1 = stablehlo.convert %a : (tensor<2xf32>) -> tensor<2xf8E4M3>\n"
    text += "return %0 : tensor<2xf32> }"
    health = examine(hloscope.serialize(text), "f")
    assert [(one.op, one.feature) for one in health.because] == [
        ("vhlo.func_v1", "the type f8E4M3 of `function_type`"),
        ("vhlo.convert_v1", "the type f8E4M3 of operand 0"),
        ("vhlo.convert_v1", "the type f8E4M3 of result 0"),
    ]


def test_bytecode_of_a_version_to_come_names_its_producer() -> None:
    data = bytearray(future_artifact())
    assert data[4] == 2 * 6 + 1
    data[4] = 2 * 7 + 1
    with pytest.raises(HloscopeError, match=r"version 7 produced by: StableHLO_v9\.10\.0"):
        hloscope.deserialize(bytes(data))


def test_damaged_artifacts_of_known_versions_are_just_damaged() -> None:
    with pytest.raises(BytecodeError) as error:
        hloscope.deserialize(hloscope.serialize(TAN, "1.10.0")[:-3])
    assert "newest version" not in str(error.value)


def test_the_artifact_of_the_future_that_upstream_has_is_refused_with_its_note(
    shared: Path,
) -> None:
    data = (shared / "conformance/stablehlo/vhlo/invalid_vhlo_future.mlir.bc").read_bytes()
    assert examine(data, "future").unknown == ("vhlo.constant_v99",)
    said = (
        r"unregistered operation 'vhlo\.constant_v99'[^\n]*\n  note: in bytecode version 6 produced"
    )
    with pytest.raises(UnsupportedError, match=said + r" by: StableHLO_v2\.0\.0"):
        hloscope.deserialize(data)


def test_every_reader_takes_artifacts(tmp_path: Path) -> None:
    data = hloscope.serialize(TAN, "1.4.0")
    path = tmp_path / "f.bc"
    path.write_bytes(data)
    for source in (data, path):
        program = hloscope.read(source)
        assert "tan" in {ins.opcode for ins in program.entry}
    assert hloscope.deserialize(path).entry.name == "f"
    run = CliRunner().invoke(app, ["ls", "-"], input=data)
    assert run.exit_code == 0, run.output
    assert "tan" in run.output


def test_artifacts_may_be_larger_than_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights: they are views of the file, but too many to be shown as text."""
    path = tmp_path / "weights.bc"
    digits = bytes(range(256)).hex() * 16
    text = f'func.func @f() {{ %0 = stablehlo.constant dense<"0x{digits}"> : tensor<1024xi32>\n'
    path.write_bytes(hloscope.serialize(text + "return }"))
    for module in (compressed, sources):
        monkeypatch.setattr(module, "MOST_INPUT", 2048)
    assert hloscope.deserialize(path).entry.name == "f"
    assert hloscope.doctor(path).ops == 3
    with pytest.raises(InputError, match="too many to be shown as text; `doctor`, `serialize`"):
        hloscope.read(path)
    monkeypatch.setattr(compressed, "MOST_ARTIFACT", 2048)
    with pytest.raises(InputError, match="bytes, more than"):
        hloscope.deserialize(path)


def test_the_command_writes_reads_and_examines(tmp_path: Path) -> None:
    text, artifact = tmp_path / "f.mlir", tmp_path / "f.bc"
    text.write_text(TAN)
    invoke = CliRunner().invoke
    done = invoke(app, ["serialize", str(text), "--target", "1.10.0", "-o", str(artifact)])
    assert done.exit_code == 0, done.output
    assert is_bytecode(artifact.read_bytes())
    assert "stablehlo.tan" in invoke(app, ["deserialize", str(artifact)]).output
    health = json.loads(invoke(app, ["doctor", "--json", str(artifact)]).output)
    assert health["schema"] == "hloscope.doctor/1"
    assert (health["version"], health["readable_by"]) == ("1.10.0", "1.10.0")
    assert health["oldest_target"] == "1.4.0"
    assert health["forced_by"][0]["location"] == '"here"'
    assert health["forced_by"][0]["mended_by_expander"]
    again = invoke(app, ["serialize", str(artifact), "--target", "1.3.0"])
    assert again.exit_code == 3
    assert "the op tan" in again.output
    assert invoke(app, ["serialize", str(text), "--target", "9.9.9"]).exit_code == 2
    assert invoke(app, ["doctor", str(text)]).exit_code == 3


def test_hlo_text_is_translated_first() -> None:
    text = "HloModule m\nENTRY e { a = f32[2] parameter(0) ROOT b = f32[2] abs(a) }"
    data = hloscope.serialize(text)
    assert data == hloscope.serialize(hloscope.read(text))
    assert hloscope.deserialize(data).entry.name == "e"


def test_an_artifact_is_brought_to_another_version() -> None:
    data = hloscope.serialize(TAN, "1.17.0")
    assert hloscope.serialize(data, "1.4.0") == hloscope.serialize(TAN, "1.4.0")
    with pytest.raises(DowngradeError, match=r"failed to convert VHLO to v1\.3\.0"):
        hloscope.serialize(data, "1.3.0")


def test_equal_constants_and_debug_information_are_counted() -> None:
    body = "".join(f"%{i} = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n" for i in "abc")
    data = hloscope.serialize(f'func.func @f() {{ {body} return }} loc("a very long name")')
    health = examine(data, "f")
    assert [(one.count, one.type, one.bytes) for one in health.repeated] == [
        (3, "tensor<2xf32>", 8)
    ]
    assert health.without_locations is not None
    assert len(data) - health.without_locations > len("a very long name")
    assert sum(health.sections.values()) < health.size


@pytest.mark.parametrize("path", [*SAMPLES[:3]], ids=lambda path: path.name)
def test_the_program_of_an_artifact_is_the_program(path: Path) -> None:
    tree = parse_mlir(path.read_text(), path.name, dialects=DIALECTS)
    try:
        data = write_artifact(tree, allow_other_dialects=True)
    except HloscopeError as error:
        pytest.skip(str(error)[:80])
    back = stablehlo_of_tree(read_bytecode(data).module)
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)


@pytest.mark.parametrize("place", ["before", "within"])
def test_values_of_regions_that_an_op_is_not_in_are_told(place: str) -> None:
    taken = '%t = "stablehlo.tan"(%p) : (tensor<f32>) -> tensor<f32>'
    before, within = (taken, "") if place == "before" else ("", taken)
    text = f"""func.func @main(%c: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {{ {before}
      %r = "stablehlo.case"(%c) ({{ {within} stablehlo.return %x : tensor<f32> }}, {{
        %p = stablehlo.constant dense<1.0> : tensor<f32> stablehlo.return %p : tensor<f32>
      }}) : (tensor<i32>) -> tensor<f32> return %r : tensor<f32> }}"""
    with pytest.raises(UnsupportedError, match=r"tan.* takes a value of a region it is not in"):
        hloscope.serialize(text)


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { p = f32[9] parameter(0) "
        "ROOT s = f32[1] slice(p), slice={[0:1:73786976294838206464]} }",
    ],
)
def test_numbers_of_more_than_64_bits_are_refused(text: str) -> None:
    """HLO has them here; cut off they would be others."""
    with pytest.raises(UnsupportedError, match=r"no form in VHLO|does not fit into 64 bits"):
        hloscope.serialize(text, "1.0.0")
