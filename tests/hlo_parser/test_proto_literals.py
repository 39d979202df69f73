"""Protos and texts of the same programs: XLA's own of every element type, and random ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.errors import InputError, ParseError
from hloscope.hlo_parser.literals import print_literal
from hloscope.hlo_parser.printer import print_hlo
from hloscope.hlo_parser.proto.module import proto_text
from hloscope.hlo_parser.proto.values import ELEMENTS
from hloscope.hlo_parser.proto.wire import MOST_ELEMENTS, MOST_FIELDS, File, Message
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.arrays import numpy_dtype
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from tests.hlo_parser.test_proto import f, ins, shape, varint

FROM_XLA = [
    json.loads(line) for line in Path(__file__).with_name("protos.jsonl").read_text().splitlines()
]
"""What `HloModule.to_string` and `as_serialized_hlo_module_proto` of jaxlib 0.10.2 give."""


@pytest.mark.parametrize("case", FROM_XLA, ids=[case["name"] for case in FROM_XLA])
def test_a_proto_of_xla_is_the_text_of_xla(case: dict[str, str]) -> None:
    read = hs.read(bytes.fromhex(case["proto"]), strict=True)
    assert print_hlo(read.module) == print_hlo(hs.parse_hlo(case["text"], strict=True))


def test_every_element_type_is_among_them() -> None:
    texts = "".join(case["text"] for case in FROM_XLA)
    for name in set(ELEMENTS.values()) & ELEMENT_TYPES.keys() - {"f6e2m3fn", "f6e3m2fn"}:
        assert f"= {name}[4]{{0}} constant(" in texts


NUMBERS = {"pred": 2, "s32": 4, "s64": 5, "u32": 6, "u64": 7, "f32": 8, "f64": 9, "c64": 12,
           "c128": 18}  # fmt: skip
BYTES = {"u8": 3, "s8": 15, "f16": 11, "bf16": 13, "u16": 16, "s16": 17, "f8e5m2": 19,
         "f8e4m3fn": 20, "s4": 21, "u4": 22}  # fmt: skip
KINDS = {name: number for number, name in ELEMENTS.items()}


def stored(array: Any, name: str, order: Sequence[int]) -> bytes:
    """The field of a literal with the elements in the order of the layout."""
    flat = array.transpose(order).reshape(-1)
    if name in BYTES:
        data = flat.view(np.uint8) if array.dtype.itemsize == 1 else flat.tobytes()
        return f(BYTES[name], bytes(data))
    if name[0] in "fc":
        return f(NUMBERS[name], flat.tobytes())
    return f(NUMBERS[name], [int(number) for number in flat])


@st.composite
def constants(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """The type of a constant, its text, and the same in protobuf's form."""
    name = draw(st.sampled_from(sorted(NUMBERS | BYTES)))
    sizes = draw(st.lists(st.integers(0, 4), max_size=3))
    order = draw(st.permutations(range(len(sizes))))
    dtype = numpy_dtype(ELEMENT_TYPES[name])
    count, bits = int(np.prod(sizes, dtype=int)), ELEMENT_TYPES[name].bits
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if name == "pred" or bits < 8:
        kept = np.frombuffer(raw, np.uint8) & (1 << min(bits, 4) if name != "pred" else 2) - 1
        array = kept.astype(dtype).reshape(sizes)
        if name == "s4":
            array = (kept.astype(np.int8) - 8).astype(dtype).reshape(sizes)
    else:
        array = np.frombuffer(raw, dtype).reshape(sizes)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            is_number = array == array
        array = np.where(is_number, array, np.zeros_like(array))  # payloads of NaNs differ
    layout = ",".join(map(str, reversed(order)))
    text = f"{name}[{','.join(map(str, sizes))}]" + (f"{{{layout}}}" if sizes else "")
    kind = parse_type(text)
    assert isinstance(kind, TensorType)
    type_ = shape(KINDS[name], *sizes, order=tuple(reversed(order)))
    literal = f(1, type_) + stored(array, name, order)
    return text, print_literal(kind, array), ins("r", "constant", type_, 1, f(8, literal))


def module(body: bytes) -> bytes:
    return f(1, "m") + f(2, "e") + f(3, f(1, "e") + body + f(5, 9) + f(6, 1)) + f(6, 9)


@given(constants())
def test_constants_of_any_type_shape_and_layout_are_what_their_texts_are(
    case: tuple[str, str, bytes],
) -> None:
    type_, text, instruction = case
    expected = f"HloModule m\n\nENTRY e {{ ROOT r = {type_} constant({text}) }}"
    found = hs.read(module(instruction), strict=True)
    assert print_hlo(found.module) == print_hlo(hs.parse_hlo(expected, strict=True))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_lists_of_numbers_are_the_same_as_arrays(numbers: list[int]) -> None:
    data = f(5, numbers)
    message = Message(File("m", data), "LiteralProto", 0, len(data))
    assert message.numbers("s64s").tolist() == numbers == list(message["s64s"])


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (f(4, [1, 2, 1 << 40]), "a value is no s32"),
        (f(4, [1, 2]), "the values do not fill the shape"),
        (f(4, [1] * 500), "the values do not fill the shape"),
        (varint(4 << 3 | 2) + b"\x04\x01\x02\x03\xff", "the bytes end within a number"),
        (varint(4 << 3 | 2) + b"\x0d\x01\x01" + b"\xff" * 10 + b"\x01", "more than ten bytes"),
    ],
    ids=range(5),
)
def test_values_that_do_not_fit_are_refused(field: bytes, message: str) -> None:
    type_ = shape(4, 3)
    data = module(ins("r", "constant", type_, 1, f(8, f(1, type_) + field)))
    with pytest.raises(ParseError, match=message):
        hs.read(data, strict=True)


def test_literals_of_very_many_elements_are_left_out() -> None:
    parts = []
    for number, count in ((1, 3), (2, MOST_ELEMENTS)):
        type_ = shape(6, count)
        parts.append(ins(f"c{number}", "constant", type_, number,
                         f(8, f(1, type_) + f(3, b"\7" * count))))  # fmt: skip
    text = proto_text(module(b"".join(parts)), "m")
    assert "constant({7, 7, 7})" in text
    assert f"u8[{MOST_ELEMENTS}]{{0}} constant({{...}})" in text


def test_rows_without_elements_count_too() -> None:
    type_ = shape(11, 1 << 40, 0)
    text = proto_text(module(ins("r", "constant", type_, 1, f(8, f(1, type_)))), "m")
    assert "constant({...})" in text


def test_a_long_name_that_is_said_very_often_is_refused() -> None:
    name = "p" * 100_000
    body = ins(name, "parameter", shape(11), 2)
    body += ins("r", "tuple", f(2, 13), 1, f(36, [2] * 50_000))
    with pytest.raises(InputError, match=r"bytes stand for more than 5,8\d\d,\d{3} characters"):
        proto_text(module(body), "m")


HOSTILE = {
    "empty computations": f(3, b"") * (MOST_FIELDS + 1),
    "empty instructions": f(3, f(1, "e") + f(2, b"") * (MOST_FIELDS // 2)),
    "names without end": f(3, f(1, "e") + f(1, "e") * (MOST_FIELDS // 4)),
    "operands": f(3, f(1, "e") + ins("r", "tuple", f(2, 13), 1, f(36, b"\1" * MOST_FIELDS * 2))
                  + f(5, 9) + f(6, 1)) + f(6, 9),
}  # fmt: skip


@pytest.mark.slow(keep=1)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says what was held")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_read_is_bounded(name: str, tmp_path: Path) -> None:
    """In memory too: no more than what stands for the program would take."""
    file = tmp_path / "m.pb"
    file.write_bytes(f(1, "m") + HOSTILE[name])
    code = f"""
import hloscope as hs
try:
    hs.read({str(file)!r}, strict=True)
except hs.HloscopeError as error:
    print(error)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, _, most = done.stdout.strip().rpartition("\n")
    assert "error" in said
    assert int(most) < 500 << 10
