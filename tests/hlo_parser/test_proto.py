"""Programs in protobuf's binary form are what the same programs' texts are."""

from __future__ import annotations

import gzip
import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest

import hloscope as hs
from hloscope.errors import HloscopeError, ParseError, UnsupportedError
from hloscope.hlo_parser.detection import form
from hloscope.hlo_parser.printer import print_hlo
from hloscope.hlo_parser.proto.module import proto_text
from hloscope.hlo_parser.proto.values import metadata_text
from hloscope.hlo_parser.proto.wire import File, Message


def varint(value: int) -> bytes:
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def f(number: int, value: int | bytes | str | list[int] | float) -> bytes:
    """One field: a number, a message or string, a packed list, or an f32."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, list):
        value = b"".join(map(varint, value))
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def shape(kind: int, *sizes: int, order: tuple[int, ...] = ()) -> bytes:
    order = order or tuple(range(len(sizes)))[::-1]
    return f(2, kind) + f(3, list(sizes)) + f(5, f(1, list(order)))


def ins(name: str, opcode: str, type_: bytes, number: int, *more: bytes) -> bytes:
    return f(2, f(1, name) + f(2, opcode) + f(3, type_) + b"".join(more) + f(35, number))


F32 = 11
ADD = (
    f(1, "add")
    + ins("a", "parameter", shape(F32), 1)
    + ins("b", "parameter", shape(F32), 2, f(9, 1))
    + ins("c", "add", shape(F32), 3, f(36, [1, 2]))
    + f(5, 7)
    + f(6, 3)
)
LITERAL = f(1, shape(F32)) + f(8, struct.pack("<f", 1.5))
TURNED = f(1, shape(4, 2, 3, order=(0, 1))) + f(4, [1, 4, 2, 5, 3, -6])
WINDOW = f(1, f(1, 2) + f(2, 1) + f(5, 1) + f(6, 1)) + f(1, f(1, 1) + f(2, 1) + f(5, 1) + f(6, 1))
MAIN = (
    f(1, "main")
    + ins("p", "parameter", shape(F32, 4, 6), 1, f(7, f(2, 'a"b') + f(4, 3)))
    + ins("zero", "constant", shape(F32), 2, f(8, LITERAL))
    + ins("table", "constant", shape(4, 2, 3, order=(0, 1)), 3, f(8, TURNED))
    + ins("s", "slice", shape(F32, 2, 6), 4, f(36, [1]), f(17, f(1, 1) + f(2, 4) + f(3, 2)),
          f(17, f(2, 6) + f(3, 1)))
    + ins("t", "transpose", shape(F32, 6, 2), 5, f(36, [4]), f(14, [1, 0]), f(37, [1]))
    + ins("w", "reduce-window", shape(F32, 5, 2), 6, f(36, [5, 2]), f(15, WINDOW), f(38, [7]))
    + ins("r", "reduce", shape(F32, 5), 7, f(36, [6, 2]), f(14, [1]), f(38, [7]),
          f(40, b""), f(43, '{"k":1}'))
    + f(5, 9)
    + f(6, 7)
)  # fmt: skip
MODULE = f(1, "m") + f(2, "main") + f(3, ADD) + f(3, MAIN) + f(6, 9)
TEXT = """HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}

ENTRY %main (p: f32[4,6]) -> f32[5] {
  %p = f32[4,6]{1,0} parameter(0), metadata={op_name="a\\"b" source_line=3}
  %zero = f32[] constant(1.5)
  %table = s32[2,3]{0,1} constant({ { 1, 2, 3 }, { 4, 5, -6 } })
  %s = f32[2,6]{1,0} slice(%p), slice={[1:4:2], [0:6:1]}
  %t = f32[6,2]{1,0} transpose(%s), dimensions={1,0}, control-predecessors={%p}
  %w = f32[5,2]{1,0} reduce-window(%t, %zero), window={size=2x1}, to_apply=%add
  ROOT %r = f32[5]{0} reduce(%w, %zero), dimensions={1}, to_apply=%add, sharding={replicated}, \
backend_config={"k":1}
}

"""
FORMS = {
    "HloModuleProto": MODULE,
    "HloProto": f(1, MODULE),
    "HloSnapshot": f(1, f(1, MODULE)) + f(4, "cpu"),
}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["m.hlo.pb", "anything"])
def test_every_form_is_recognised_by_its_content(
    kind: str, packed: bool, name: str, tmp_path: Path
) -> None:
    data = FORMS[kind]
    assert form(data) == kind
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if packed else data)
    assert print_hlo(hs.read(file).module) == TEXT
    assert print_hlo(hs.read(file.read_bytes()).module) == TEXT


def test_a_proto_larger_than_one_block_is_read() -> None:
    note = f(43, "x" * (1 << 20))
    data = f(1, "m") + f(6, 9)
    body = f(1, "e") + ins("p", "parameter", shape(F32, 4), 1, f(9, 0), note) + f(5, 9) + f(6, 1)
    assert hs.read(data + f(3, body), strict=True).root.name == "p"


@pytest.mark.parametrize("text", ["\nHloModule m", "\n\n\nHloModule m", "\n" * 30, "\nA\x01"])
def test_texts_are_no_protos(text: str) -> None:
    assert form(text.encode()) == ""


@pytest.mark.parametrize("kind", FORMS)
def test_every_truncation_is_an_own_error(kind: str) -> None:
    data = FORMS[kind]
    for end in range(2, len(data) - 8, 7):
        with pytest.raises(HloscopeError):
            hs.read(data[:end], strict=True)


def test_random_damage_never_gives_another_exception() -> None:
    rng = random.Random(0)
    for _ in range(200):
        data = bytearray(MODULE)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(3, len(data))] = rng.randrange(256)
        with suppress(HloscopeError):
            hs.read(bytes(data), strict=True)


def test_lengths_past_the_end_are_refused() -> None:
    data = f(1, "m") + varint(3 << 3 | 2) + varint(1 << 60)
    with pytest.raises(ParseError, match=r"HloModuleProto at byte 13: field 3 is 1,152,921"):
        hs.read(data)


def test_deep_nesting_is_refused() -> None:
    type_ = shape(F32)
    for _ in range(200):
        type_ = f(2, 13) + f(4, type_)
    body = f(1, "e") + ins("p", "parameter", type_, 1) + f(5, 9) + f(6, 1)
    with pytest.raises(ParseError, match="nested more than 100 deep"):
        hs.read(f(1, "m") + f(3, body) + f(6, 9))


def test_numbers_longer_than_ten_bytes_are_refused() -> None:
    with pytest.raises(ParseError, match="more than ten bytes"):
        Message(File("m", b"\x28" + b"\xff" * 11), "HloModuleProto", 0, 12)["name"]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        (f(36, [8]), ParseError, r"HloInstructionProto.operand_ids at byte \d+: no instruction"),
        (f(38, [8]), ParseError, r"called_computation_ids at byte \d+: no computation"),
        (f(900, 1), UnsupportedError, r"HloInstructionProto at byte \d+: field 900 is not known"),
        (f(7, 5), ParseError, r"HloInstructionProto.metadata at byte \d+: wire type 0"),
        (f(40, f(1, 77)), UnsupportedError, r"OpSharding.type at byte \d+: value 77 is not known"),
    ],
)  # fmt: skip
def test_what_cannot_be_turned_into_text_names_field_and_offset(
    more: bytes, error: type[HloscopeError], message: str
) -> None:
    body = f(1, "e") + ins("p", "parameter", shape(F32, 4), 1, more) + f(5, 9) + f(6, 1)
    with pytest.raises(error, match=message):
        hs.read(f(1, "m") + f(3, body) + f(6, 9), strict=True)


def instructions(*lines: bytes, root: int) -> bytes:
    """A module of one computation."""
    return f(1, "m") + f(3, f(1, "e") + b"".join(lines) + f(5, 9) + f(6, root)) + f(6, 9)


def test_equal_fields_of_comparisons_are_written_for_the_types_of_their_operands() -> None:
    """XLA writes the type of a comparison only where it isn't that of the operands."""
    pred, less = shape(1), f(63, "LT") + f(72, "SIGNED")
    data = instructions(
        ins("f", "parameter", shape(F32), 1, f(9, 0)),
        ins("s", "parameter", shape(4), 2, f(9, 1)),
        ins("a", "compare", pred, 3, f(36, [2, 2]), less),
        ins("b", "compare", pred, 4, f(36, [1, 1]), less),
        ins("c", "compare", pred, 5, f(36, [2, 2]), less),
        root=5,
    )
    lines = [line for line in proto_text(data, "m").splitlines() if "compare(" in line]
    assert [", type=SIGNED" in line for line in lines] == [False, True, False]


def test_a_started_collective_has_the_attributes_of_the_collective() -> None:
    data = instructions(
        ins("p", "parameter", shape(F32, 4), 1, f(9, 0)),
        ins("s", "all-gather-start", shape(F32, 8), 2, f(36, [1]), f(14, [0])),
        root=2,
    )
    assert "all-gather-start(%p), replica_groups={}, dimensions={0}" in proto_text(data, "m")


def test_two_values_are_told_from_one_that_has_the_tag_of_the_second_within_it() -> None:
    size, first, second = shape(F32, 2, 6), f(1, 1) + f(2, 4), f(2, 6)
    two = f(17, first) + f(17, second)
    one = f(17, two[two.index(first) :])

    def text(second_slice: bytes) -> str:
        data = instructions(
            ins("p", "parameter", shape(F32, 4, 6), 1, f(9, 0)),
            ins("x", "slice", size, 2, f(36, [1]), two),
            ins("y", "slice", size, 3, f(36, [1]), second_slice),
            root=3,
        )
        return proto_text(data, "m")

    assert text(two).count("slice={[1:4:0], [0:6:0]}") == 2
    with pytest.raises(UnsupportedError, match="field 17 is not known"):
        text(one)


def test_ids_are_found_however_they_are_written() -> None:
    """A number may have more bytes than it needs, and lists may come in parts."""
    p, q = ins("p", "parameter", shape(F32), 1), ins("q", "parameter", shape(F32), 300, f(9, 1))
    written = [
        f(36, b"\x81\x00\xac\x82\x80\x00"),  # longer than needed
        f(36, 300) + f(36, 1),  # not packed
        f(36, [1 << 40 | 1, 300]),  # of another computation's numbers
        f(36, [1]) + f(36, [300]),  # in two parts
    ]
    for text, data in zip(["%p, %q", "%q, %p", "%p, %q", "%p, %q"], written, strict=True):
        program = instructions(p, q, ins("r", "add", shape(F32), 3, data), root=3)
        assert f"add({text})" in proto_text(program, "m")


@pytest.mark.parametrize(("ids", "said"), [(b"\x01\xff", "end within"), (b"\x01\x05", "the id 5")])
def test_ids_that_are_none_are_refused(ids: bytes, said: str) -> None:
    program = instructions(
        ins("p", "parameter", shape(F32), 1), ins("r", "add", shape(F32), 3, f(36, ids)), root=3
    )
    with pytest.raises(ParseError, match=rf"HloInstructionProto.* at byte \d+: .*{said}"):
        proto_text(program, "m")


OWN = f(16, "r")
"""The scheduling name that most dumps end the metadata of an instruction with."""


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        OWN,
        f(16, ""),
        f(16, "other"),
        f(16, "other") + OWN,
        OWN + f(15, 3),
        f(1, "t") + f(2, "a/b") + f(15, 3) + OWN,
        f(2, 'a "b"') + f(12, "d") + f(15, 3) + f(4, 7) + OWN,
        f(5, [1, 2]) + f(5, 3) + f(9, 1) + OWN,
        f(2, b"a" + OWN),  # only the text ends so
        f(10, OWN),  # or a message inside
        f(4, 0),
    ],
)
def test_metadata_ends_in_any_way(metadata: bytes) -> None:
    """What is kept for others that end in the same way is what would be written for each alone."""
    lines = [ins(name, "parameter", shape(F32), 5, f(7, metadata)) for name in ("r", "s")]
    texts = [proto_text(instructions(line, root=5), "m") for line in lines]
    alone = metadata_text(Message(File("m", metadata), "OpMetadata", 0, len(metadata)))
    said = "" if alone == "{}" else f", metadata={alone}"
    for name, text in zip("rs", texts, strict=True):
        assert f"  ROOT %{name} = f32[] parameter(0){said}\n" in text


def test_the_allocations_of_an_hlo_proto_stand_beside_the_memory_that_is_computed() -> None:
    def allocation(index: int, size: int, *more: bytes) -> bytes:
        return f(3, f(1, index) + f(2, size) + b"".join(more) + f(9, f(1, 5) + f(3, 4)))

    heap, output, other_space = allocation(0, 256), allocation(1, 20), allocation(2, 64, f(8, 1))
    reducer = allocation(3, 4, f(3, 1))
    assignment = f(3, f(1, f(1, 7)) + heap + output + other_space + reducer + f(4, b""))
    assert hs.read(f(1, MODULE) + assignment).memory().assigned == 276
    assert hs.read(f(1, MODULE)).memory().assigned is None
    assert hs.read(MODULE).memory().assigned is None


def test_damaged_allocations_are_refused() -> None:
    with pytest.raises(ParseError):
        hs.read(f(1, MODULE) + f(3, f(3, b"\x10")))
