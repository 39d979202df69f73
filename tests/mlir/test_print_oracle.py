"""Printing against jaxlib's printer, running: numbers by chance, programs of the corpus."""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hloscope.ir.floats import FORMATS, format_float
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from hloscope.mlir.types import ELEMENTS
from tests.conftest import SHARED
from tests.oracle import needs_jaxlib

pytestmark = needs_jaxlib
_CHILD = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import stablehlo_oracle
from jaxlib.mlir import ir

context = stablehlo_oracle.make_context(True)
for line in sys.stdin:
    with context:
        try:
            module = ir.Module.parse(json.loads(line)).operation
            reply = [
                module.get_asm(),
                module.get_asm(print_generic_op_form=True),
                module.get_asm(enable_debug_info=True),
                module.get_asm(enable_debug_info=True, use_local_scope=True),
            ]
        except Exception:
            reply = None
    print(json.dumps(reply), file=replies, flush=True)
"""
_CHECKS = re.compile(r"^ *check\..*(?:\n(?!.*(?:return|=|\})).*)*\n", re.MULTILINE)


class Printer:
    """jaxlib, in a process of its own."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(SHARED / "oracle")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, text: str) -> list[str] | None:
        """Pretty, generic, with locations, with locations written out; nothing if refused."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{json.dumps(text)}\n")
        self._child.stdin.flush()
        reply: list[str] | None = json.loads(self._child.stdout.readline())
        return reply

    def close(self) -> None:
        """End the process."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait(30)
        self._child.stdout.close()


@pytest.fixture(scope="module")
def jaxlib() -> Iterator[Printer]:
    printer = Printer()
    yield printer
    printer.close()


FLOATS = {e.name: text for text, e in ELEMENTS.items() if e.name in FORMATS and e.name != "tf32"}


def _numbers(name: str) -> list[int]:
    bits = FORMATS[name].bits
    if bits <= 8:
        return list(range(1 << bits))
    chance = random.Random(name)
    numbers = [chance.getrandbits(bits) for _ in range(2000)]
    if bits >= 32:
        code, kind = ("<f", "<I") if bits == 32 else ("<d", "<Q")
        plain = [chance.randint(-(10**7), 10**7) / chance.choice([1, 2, 10, 64, 1000])
                 for _ in range(2000)]  # fmt: skip
        numbers += [struct.unpack(kind, struct.pack(code, value))[0] for value in plain]
    return numbers


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_are_printed_as_jaxlib_prints_them(name: str, jaxlib: Printer) -> None:
    numbers = _numbers(name)
    for i in range(0, len(numbers), 90):
        some = numbers[i : i + 90]
        text = f"dense<[{', '.join(map(hex, some))}]> : tensor<{len(some)}x{FLOATS[name]}>"
        reply = jaxlib(f'"a.b"() {{v = {text}}} : () -> ()')
        assert reply is not None
        assert f"dense<[{', '.join(format_float(n, name) for n in some)}]>" in reply[0]


def _programs(full: bool) -> list[str]:
    corpus = SHARED / "conformance" / "stablehlo"
    texts = [
        piece
        for folder in ("interpret", "math")
        for path in sorted((corpus / folder).rglob("*.mlir"))
        for piece in path.read_text().split("// -----")
    ]
    for name in ("verify", "transforms"):
        with (corpus / name / "chunks.jsonl").open() as lines:
            texts += [json.loads(line)["text"] for line in lines]
    return texts if full else texts[::9]


def test_programs_are_printed_as_jaxlib_prints_them(jaxlib: Printer, full: bool) -> None:
    count = 0
    for text in _programs(full):
        text = _CHECKS.sub("", text)  # jaxlib does not know that dialect
        reply = jaxlib(text)
        if reply is None:
            continue
        count += 1
        pretty, generic, debug, _ = reply
        module = parse_mlir(text, "-", dialects=DIALECTS)
        _same(print_mlir(module, dialects=DIALECTS), pretty)
        _same(print_mlir(module, dialects=DIALECTS, generic=True), generic)
        _same(print_mlir(module, dialects=DIALECTS, locations=True), debug)
        if jaxlib(debug) is None:  # it prints a few things that it does not read
            continue
        module = parse_mlir(debug, dialects=DIALECTS)
        _same(print_mlir(module, dialects=DIALECTS, locations=True), debug)
    assert count > 100


def _same(found: str, expected: str) -> None:
    assert found.rstrip() == expected.rstrip()


@pytest.mark.parametrize(
    "path",
    sorted((SHARED / "conformance/stablehlo/jax_samples").glob("*.debug.mlir"))[::4],
    ids=lambda path: path.name,
)
def test_locations_are_written_out_as_jaxlib_does(path: Path, jaxlib: Printer) -> None:
    reply: Any = jaxlib(path.read_text())
    module = parse_mlir(path.read_text(), dialects=DIALECTS)
    found = print_mlir(module, dialects=DIALECTS, locations=True, aliases=False)
    _same(found, reply[3])
