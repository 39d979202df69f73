"""The container of MLIR bytecode: numbers, the worked example, damaged files."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from hloscope.errors import HloscopeError
from hloscope.ir import ElementType
from hloscope.mlir import (
    ELEMENTS,
    Block,
    DenseAttr,
    Operation,
    Region,
    parse_mlir,
    parse_type,
    print_mlir,
    resolve_location,
)
from hloscope.mlir.dialects import DIALECTS, sdy_struct, sdy_text
from hloscope.stablehlo.bytecode import (
    BytecodeError,
    is_bytecode,
    read_artifact,
    read_bytecode,
    write_artifact,
    write_bytecode,
)
from hloscope.stablehlo.bytecode.fields import Cursor, read_bits, svarint, varint, write_bits
from tests.stablehlo.vhlo.test_conversions import PROGRAMS

EXAMPLE = bytes.fromhex(
    "4d4cef52 0d 537461626c65484c4f5f76312e31302e3000"
    "0119 05 0105 09 01030b 03070f1317"
    "0321 0b07 010307 03090b0b0b0b 0307131707"
    + "0227 1f 0301 2303 1d0d 1d0f 29031105 1103010301 09"
    "044b 05 0150010107 043b 030105 0350010307 0427 03050b030100 0506010301050101 0704010303"
    "060301 0501"
    "0079 11 030b150f110f0b11"
) + (
    b"builtin\0vhlo\0module\0func_v1\0add_v1\0return_v1\0main\0\0"
    + bytes.fromhex("0815 05 050101 0b0305030709")
)
"""`func.func @main(%a: tensor<4xf32>) { %0 = stablehlo.add %a, %a; return %0 }` for 1.10.0."""

TEXT = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def read(text: str) -> Operation:
    return parse_mlir(text, dialects=DIALECTS)


def cursor(data: bytes) -> Cursor:
    return Cursor(data, 0, len(data), "IR", "test")


@given(st.integers(0, (1 << 64) - 1))
def test_a_number_is_read_as_it_was_written(value: int) -> None:
    data = varint(value)
    assert cursor(data).varint() == value
    assert len(data) == (9 if value >> 56 else max(1, -(-value.bit_length() // 7)))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_a_signed_number_is_read_as_it_was_written(value: int) -> None:
    assert cursor(svarint(value)).svarint() == value


@given(st.sampled_from(["i1", "i4", "i8", "i16", "i32", "i64", "i100", "f32", "f64"]), st.data())
def test_bits_of_a_type_are_read_as_they_were_written(name: str, data: st.DataObject) -> None:
    type = ELEMENTS.get(name) or parse_type(name)
    assert isinstance(type, ElementType)
    bits = data.draw(st.integers(0, (1 << type.bits) - 1))
    assert read_bits(cursor(write_bits(bits, type.bits)), type) == bits


def test_longer_forms_of_a_number_are_read() -> None:
    assert cursor(b"\x0e\x00"[:2]).varint() == 3
    assert cursor(b"\0" + (5).to_bytes(8, "little")).varint() == 5


def test_the_worked_example_is_written_and_read_byte_for_byte() -> None:
    assert write_artifact(read(TEXT), "1.10.0") == EXAMPLE
    found = read_bytecode(EXAMPLE)
    assert found.image.producer == "StableHLO_v1.10.0"
    assert [op.name for op in found.module.walk()][1:3] == ["vhlo.func_v1", "vhlo.add_v1"]
    written = print_mlir(read(TEXT), dialects=DIALECTS)
    assert print_mlir(read_artifact(EXAMPLE), dialects=DIALECTS) == written


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("target", ["0.9.0", "0.11.0", "0.13.0", "0.14.0", "1.0.0", "current"])
def test_a_program_is_read_as_it_was_written(text: str, target: str) -> None:
    tree = read(text)
    try:
        data = write_artifact(tree, target)
    except HloscopeError:
        assert target != "current"
        return
    assert is_bytecode(data)
    back = read_artifact(data)
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)
    found = read_bytecode(data)
    again = write_bytecode(
        found.module,
        producer=found.image.producer,
        version=found.image.version,
        orders=found.orders,
    )
    assert again == data


@pytest.mark.parametrize("version", range(7))
def test_every_version_of_the_container_holds_stablehlo_too(version: int) -> None:
    for text in PROGRAMS.values():
        tree = read(text)
        data = write_bytecode(tree, producer="test", version=version)
        back = read_bytecode(data).module
        shown = [print_mlir(one, dialects=DIALECTS, generic=True) for one in (tree, back)]
        assert shown[0] == shown[1]


def test_locations_are_kept() -> None:
    text = """func.func @f(%a: tensor<2xf32> loc("arg")) -> tensor<2xf32> {
      %0 = stablehlo.abs %a : tensor<2xf32> loc(callsite("f"("a.py":1:2 to :9) at fused["x", "y"]))
      return %0 : tensor<2xf32> loc("b.py":3:4)
    } loc(unknown)"""
    tree = read(text)
    back = read_artifact(write_artifact(tree))
    places = [[resolve_location(op.location) for op in one.walk()] for one in (tree, back)]
    assert places[0] == places[1]
    assert len(set(places[0])) == 3


def test_a_large_constant_is_a_view_of_the_file() -> None:
    digits = bytes(range(256)) * 256
    text = f'func.func @f() {{ %0 = stablehlo.constant dense<"0x{digits.hex()}"> '
    data = write_artifact(read(text + ": tensor<16384xi32>\n return }"))
    values = [op.properties.get("value") for op in read_bytecode(data).module.walk()]
    (value,) = [one for one in values if isinstance(one, DenseAttr)]
    assert isinstance(value.literal, memoryview)
    assert value.literal.obj is data
    assert bytes(value.literal) == digits


def test_a_tensor_without_elements_may_have_a_value() -> None:
    """`dense<0.0> : tensor<0xf32>` keeps its number; truth values of that kind do not."""
    body = "%0 = stablehlo.constant dense<7.0> : tensor<0xf32>\n"
    body += "%1 = stablehlo.constant dense<true> : tensor<0x2xi1>\n"
    data = write_artifact(read(f"func.func @f() {{ {body} return }}"))
    values = [op.properties.get("value") for op in read_bytecode(data).module.walk()]
    found = [bytes(one.literal) for one in values if isinstance(one, DenseAttr)]  # type: ignore[arg-type]
    assert found == [bytes.fromhex("0000e040"), b""]


SHARDINGS = [
    '#sdy.sharding<@mesh, [{"x"}, {}]>',
    '#sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}], replicated={"z"}>',
    '#sdy.sharding<mesh<["x"=2]>, []>',
    '#sdy.sharding<@"a b", [{?}], replicated={"z"}, unreduced={"w"}>',
    '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>',
    '#sdy.mesh<["x"=2, "y"=4], device_ids=[1, 0]>',
    '#sdy<manual_axes{"x", "y"}>',
    "#sdy.op_sharding_rule<([i, jk], [])->([i]) {i=2, j=4, k=8} reduction={j}, custom>",
    '#sdy<list_of_axis_ref_lists[{"x"}, {}]>',
]


@pytest.mark.parametrize("text", SHARDINGS)
def test_shardings_are_taken_apart_and_put_together(text: str) -> None:
    assert sdy_text(sdy_struct(text)) == text


# ------------------------------------------------------------------------------------- damage


def whole(data: bytes) -> None:
    read_artifact(data)


def artifacts() -> Iterator[bytes]:
    yield EXAMPLE
    for text in PROGRAMS.values():
        for target in ("0.13.0", "current"):
            try:
                yield write_artifact(read(text), target)
            except HloscopeError:
                continue


def test_every_beginning_of_a_file_is_refused() -> None:
    for size in range(len(EXAMPLE)):
        with pytest.raises(BytecodeError) as caught:
            whole(EXAMPLE[:size])
        assert f"byte {caught.value.offset:,}" in str(caught.value)


def test_every_other_byte_is_an_error_of_ours_or_another_program() -> None:
    for at in range(len(EXAMPLE)):
        for value in (0, 1, 2, 3, 0x7F, 0x80, 0xFF, EXAMPLE[at] ^ 2):
            refused_or_read(EXAMPLE[:at] + bytes([value]) + EXAMPLE[at + 1 :])


def test_mutated_artifacts_are_errors_of_ours_or_other_programs(full: bool) -> None:
    chance = random.Random(7)
    files = list(artifacts())
    for _ in range(20_000 if full else 400):
        refused_or_read(mutated(chance.choice(files), chance))


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed))
        match chance.randrange(5):
            case 0:
                changed[at] = chance.randrange(256)
            case 1:
                changed[at] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at : at + chance.randrange(1, 9)]
            case 3:
                changed[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                other = chance.randrange(len(changed))
                changed[at : at + 8] = changed[other : other + 8]
        if not changed:
            return b""
    return bytes(changed)


def refused_or_read(data: bytes) -> None:
    """Read a file and print its program; errors of ours are fine, all others are not."""
    with suppress(HloscopeError):
        print_mlir(read_artifact(data), dialects=DIALECTS)


def entries(*coded: bytes) -> bytes:
    """A file whose attributes are these entries of builtin, the first that of the only op."""
    offsets = varint(len(coded)) + varint(0) + varint(0) + varint(len(coded))
    offsets += b"".join(varint(len(one) << 1 | 1) for one in coded)
    parts = {
        1: varint(1) + varint(0) + varint(1) + varint(0) + varint(1) + varint(1 << 1 | 1),
        3: offsets,
        2: b"".join(coded),
        4: varint(2) + varint(0) + b"\x01" + varint(0) + varint(1),
        0: varint(2) + varint(7) + varint(8) + b"builtin\0module\0",
        8: varint(0),
    }
    sections = b"".join(bytes([n]) + varint(len(d)) + d for n, d in parts.items())
    return b"ML\xefR" + varint(6) + b"x\0" + sections


UNKNOWN_LOC = varint(15)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (entries(UNKNOWN_LOC, varint(0) + varint(1) + varint(1)), "part of itself"),
        (
            entries(UNKNOWN_LOC, *(varint(0) + varint(1) + varint(n + 2) for n in range(99))),
            "nesting is deeper|is not there",
        ),
        (
            entries(
                UNKNOWN_LOC,
                *(varint(0) + varint(2) + varint(n + 2) * 2 for n in range(40)),
                varint(0) + varint(0),
            ),
            "stands for more than",
        ),
        (entries(UNKNOWN_LOC, varint(99)), "unknown builtin attribute code: 99"),
        (entries(UNKNOWN_LOC, varint(0) + varint(1 << 60)), "a list of 1,152,921,504,606,846,976"),
        (entries(UNKNOWN_LOC, varint(2) + varint(1 << 60)), "string 1,152,921,504,606,846,976"),
        (entries(UNKNOWN_LOC, varint(0) + varint(0)), "are not a dictionary"),
        (entries(varint(0) + varint(0), UNKNOWN_LOC), "is not a location"),
        (b"ML\xefR" + varint(7) + b"x\0", "newer than the current version 6"),
        (b"ML\xefR" + varint(6) + b"x", "no null character found"),
        (b"ML\xefR" + varint(6) + b"x\0" + b"\x04" + varint(1 << 60), "bytes are needed where"),
        (EXAMPLE + b"\x05\x01", "is there twice"),
        (EXAMPLE + b"\x09\x01", "invalid section ID: 9"),
    ],
)
def test_damage_is_told_with_byte_and_section(data: bytes, message: str) -> None:
    with pytest.raises(BytecodeError, match=message) as caught:
        read_bytecode(data, "bad.bc")
    assert str(caught.value).startswith(f"bad.bc: byte {caught.value.offset:,}, ")


def nested(depth: int) -> Operation:
    """A function of ops within ops, made without the reader of texts."""
    op = Operation("stablehlo.optimization_barrier")
    for _ in range(depth):
        op = Operation("stablehlo.case", regions=(Region((Block((), (op,)),)),))
    return Operation("builtin.module", regions=(Region((Block((), (op,)),)),))


def test_regions_may_be_nested_but_not_without_end() -> None:
    depth = 400
    data = write_bytecode(nested(depth), producer="x", version=6)
    around = 2  # the module, and what the innermost region holds
    assert sum(1 for _ in read_bytecode(data).module.walk()) == depth + around
    deep = write_bytecode(nested(5000), producer="x", version=6)
    with pytest.raises(BytecodeError, match="regions are nested deeper than 500"):
        read_bytecode(deep)
