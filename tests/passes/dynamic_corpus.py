"""Programs of run-time sizes that JAX exported, refined to actual sizes as upstream refines them.

`conformance/stablehlo/oracle/testdata_dynamic.jsonl` has the text jaxlib makes of them.
`python -m tests.passes.dynamic_corpus` prints how many are equal, with `--failures` what differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.mlir import Operation, parse_mlir, parse_type, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import Rewriter, applied, parse_pipeline
from hloscope.passes.dynamism.values import number_literal
from tests.conftest import SHARED

ROOT: Final = SHARED / "conformance/stablehlo"
RECORDS: Final = ROOT / "oracle/testdata_dynamic.jsonl"


def records() -> Iterator[dict[str, Any]]:
    """What is recorded of programs that jaxlib refined."""
    for line in RECORDS.read_text().splitlines():
        record = json.loads(line)
        if record["ok"] and path_of(record).is_file():
            yield record


def path_of(record: dict[str, Any]) -> Path:
    return ROOT / record["file"].removeprefix("stablehlo/")


def with_sizes(tree: Operation, sizes: dict[str, int]) -> Operation:
    """The module with constants in place of those arguments of `main` that are sizes."""
    rewriter = Rewriter(tree)
    main = next(op for op in rewriter.walk() if op.name == "func.func")
    block = main.regions[0].block
    front = next(iter(block))
    scalar = TensorType(ELEMENT_TYPES["s64"], ())
    for number, size in sizes.items():
        literal = number_literal(size, scalar)
        constant = rewriter.constant(literal, scalar, before=front)
        rewriter.replace_uses(block.arguments[int(number)], constant)
    return rewriter.finish()


def refined(record: dict[str, Any]) -> Operation:
    """The program after `remove-dynamism`."""
    tree = parse_mlir(path_of(record).read_text(), record["file"], dialects=DIALECTS)
    types = ",".join(record["types"])
    assert all(parse_type(text) for text in record["types"])
    return applied(
        with_sizes(tree, record["dims"]), parse_pipeline(f"remove-dynamism{{types={types}}}")
    )


def text_of(tree: Operation) -> str:
    return print_mlir(tree, dialects=DIALECTS)


def main() -> None:
    right = total = 0
    for record in records():
        total += 1
        try:
            text = text_of(refined(record))
        except Exception as error:
            text = repr(error)
        right += text == record["text"]
        if text != record["text"] and "--failures" in sys.argv:
            print(f"==== {record['file']}\n{text}\n---- expected\n{record['text']}")
    print(f"{right} of {total}")


if __name__ == "__main__":
    main()
