"""jaxlib takes the programs that are generated, in both languages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator import generate, hlo_text, options_of, stablehlo_text
from tests.oracle import needs_jaxlib

CHILD = Path(__file__).with_name("jaxlib_child.py")


@needs_jaxlib
@pytest.mark.parametrize("language", ["hlo", "mlir"])
def test_jaxlib_takes_them(language: str, shared: Path, full: bool) -> None:
    spell = {"hlo": hlo_text, "mlir": stablehlo_text}[language]
    texts = [
        spell(generate(seed, options_of(seed, language))) for seed in range(2000 if full else 100)
    ]
    done = subprocess.run(
        [sys.executable, str(CHILD), str(shared / "oracle"), language],
        input="".join(json.dumps(text) + "\n" for text in texts),
        capture_output=True,
        text=True,
        check=False,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(replies) == len(texts), done.stderr[-2000:]
    refused = [(why, text) for why, text in zip(replies, texts, strict=True) if why]
    assert not refused, f"{len(refused)} refused\n{refused[0][0]}\n{refused[0][1]}"
