"""Kernels that XLA compiled: outputs are those of their HLO, counts those that are stored.

`dumps` has what XLA (jaxlib 0.10.2) wrote for an H100; `counts.json` what the kernels' PTX does.
`exact` is false where the inputs decide, and nothing is compared.  Counts of modules that do not
begin with `own` are those of the conformance data, which another interpreter counted.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.api import execute_kernel
from hloscope.api.ptx import drawn, from_memory, to_memory
from hloscope.display import ExecutedKernel
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_type
from hloscope.ir import TensorType
from hloscope.memory.ptx import ArrayAccess

DUMPS = Path(__file__).parent / "dumps"
COUNTS: dict[str, dict[str, Any]] = json.loads((DUMPS.parent / "counts.json").read_text())
KERNELS = [(label, name) for label, kernels in COUNTS.items() for name in kernels]


@cache
def executed(label: str, name: str) -> ExecutedKernel:
    return execute_kernel(DUMPS, name, module=label)


def figures(access: ArrayAccess) -> dict[str, Any]:
    counts = access.counts
    return {
        "requests": counts.requests,
        "sectors": counts.sectors,
        "lines": counts.lines,
        "bytes": counts.bytes,
        "sectors_per_request": {str(n): m for n, m in counts.sectors_per_request.items()},
        "lane_bytes": {str(n): m for n, m in counts.lane_bytes.items()},
        "touched_bytes": access.touched.bytes,
        "touched_sectors": access.touched.sectors,
    }


@pytest.mark.slow(keep=6)
@pytest.mark.parametrize(("label", "name"), KERNELS)
def test_outputs_are_those_of_the_hlo(label: str, name: str) -> None:
    assert executed(label, name).values == "equal"


@pytest.mark.parametrize(
    ("label", "name"), [(label, name) for label, name in KERNELS if COUNTS[label][name]["exact"]]
)
def test_counts_are_those_that_are_stored(label: str, name: str) -> None:
    found, right = executed(label, name), COUNTS[label][name]
    launch = found.run.launch
    assert [list(launch.grid), list(launch.block)] == [
        right["launch"]["blocks"],
        right["launch"]["threads"],
    ]
    instructions = [
        [i.name, i.array, i.counts.requests, i.counts.sectors, i.counts.lines, i.counts.bytes]
        for i in found.run.instructions
    ]
    assert instructions == right["instructions"]
    for array, expected in zip(found.arrays, right["arrays"], strict=True):
        assert array.shares_buffer == expected["same_buffer_as_another"]
        kinds = {kind: expected[kind] for kind in ("read", "written", "atomic") if kind in expected}
        assert {kind: figures(access) for kind, access in array.accesses.items()} == kinds
    for shared, expected in zip(found.run.shared, right["shared_memory"], strict=True):
        assert (shared.name, shared.requests, shared.most) == (
            expected["op"],
            expected["requests"],
            expected["max"],
        )
        assert shared.mean == pytest.approx(expected["mean"], abs=1e-3)


def test_there_are_kernels_of_many_kinds() -> None:
    names = {i[0] for _, name in KERNELS for i in _instructions(name)}
    assert len(KERNELS) >= 45
    assert {"atom.relaxed.sys.global.cas.b32", "st.global.v2.b16", "ld.global.nc.b64"} <= names


def _instructions(name: str) -> list[Any]:
    return [i for kernels in COUNTS.values() for i in kernels.get(name, {}).get("instructions", [])]


def test_inputs_can_be_given() -> None:
    label = next(label for label in COUNTS if label.endswith("own_sort"))
    given = np.random.default_rng(2).integers(-50, 50, (3, 40)).astype(np.int32)
    found = execute_kernel(DUMPS, "fusion", module=label, inputs=[given])
    sorted_rows = found.run.outputs["output 0"].view(np.int32).reshape(3, 40)
    assert (sorted_rows == np.sort(given, axis=1)).all()
    with pytest.raises(ValueError, match=r"operand 0 is s32\[3,40\], the input has shape"):
        execute_kernel(DUMPS, "fusion", module=label, inputs=[given[:2]])
    with pytest.raises(ValueError, match="2 inputs are given, the kernel has 1"):
        execute_kernel(DUMPS, "fusion", module=label, inputs=[given, given])


def test_outputs_that_differ_from_the_hlo_are_a_finding(tmp_path: Path) -> None:
    label = next(label for label in COUNTS if label.endswith("loop_even_f64"))
    for path in DUMPS.glob(f"{label}.*"):
        text = path.read_text()
        if path.suffix == ".ptx":
            text = text.replace("add.rn.f64", "sub.rn.f64")
        (tmp_path / path.name).write_text(text)
    found = execute_kernel(tmp_path, next(iter(COUNTS[label])), module=label)
    assert found.is_wrong
    assert "output 0 differs" in found.values


def test_what_a_folder_lacks_is_said(tmp_path: Path) -> None:
    label = next(iter(COUNTS))
    name = next(iter(COUNTS[label]))
    for path in DUMPS.glob(f"{label}.*"):
        if path.suffix != ".ptx":
            (tmp_path / path.name).write_text(path.read_text())
    with pytest.raises(UnsupportedError, match="holds no PTX of"):
        execute_kernel(tmp_path, name)
    (tmp_path / f"{label}.thunk_sequence.txt").unlink()
    with pytest.raises(UnsupportedError, match=r"no \*\.thunk_sequence\.txt"):
        execute_kernel(tmp_path, name)


@pytest.mark.parametrize(
    "text", ["f32[3,5]{0,1}", "s4[3,5]{1,0}", "u4[7]{0}", "bf16[2,3,4]{1,2,0}"]
)
def test_arrays_are_laid_out_and_read_back(text: str) -> None:
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)
    value = drawn(type_, np.random.default_rng(3), 8)
    content = to_memory(value, type_)
    assert content.nbytes == -(-type_.num_elements * type_.element.bits // 8)
    assert (from_memory(content, type_) == value).all()


def test_tiled_layouts_are_refused() -> None:
    type_ = parse_type("f32[16,256]{1,0:T(8,128)}")
    assert isinstance(type_, TensorType)
    with pytest.raises(UnsupportedError, match="has tiles"):
        to_memory(np.zeros((16, 256), np.float32), type_)
