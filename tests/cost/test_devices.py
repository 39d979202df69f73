"""The table of devices, names, files of one's own, and what has no warps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from hloscope.errors import UnknownNameError
from hloscope.support.devices import (
    ALL_DEVICES,
    DEVICES,
    KEYS,
    LIMITS,
    DeviceError,
    device_of,
    device_table,
    gpu_of,
    limits_of,
)
from tests.conftest import SHARED, needs_shared

PAGE = Path(__file__).parents[2] / "docs/devices.md"
OURS = {
    "v100_sxm2_16": "v100", "a100_sxm_40": "a100_40", "a100_sxm_80": "a100",
    "a100_pcie_80": "a100_pcie", "h100_sxm": "h100", "mi250_gcd": "mi250x", "mi350x": "mi350",
}  # fmt: skip
"""Names of the reference that differ from those of the table."""


@pytest.mark.parametrize("name", ["a6000", "a100", "h100", "b200", "mi210", "mi350", "r9700"])
def test_names_of_earlier_releases_are_known_to_every_command(name: str) -> None:
    assert gpu_of(name).name == limits_of(name).device == name


@pytest.mark.parametrize(
    ("written", "name"),
    [("H100", "h100"), ("RTX A6000", "a6000"), ("MI350X", "mi350"), ("TPU-v5e", "tpu_v5e"),
     ("a100-sxm-40", "a100_40"), ("h100 pcie", "h100_pcie"), ("mi300", "mi300x")],
)  # fmt: skip
def test_a_name_is_known_in_any_case_and_with_any_punctuation(written: str, name: str) -> None:
    assert device_of(written).name == name


def test_an_unknown_name_gets_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no device `h101`.*h100.*known: .*tpu_v4.*\.toml"):
        device_of("h101")


@pytest.mark.parametrize("name", ["tpu_v4", "tpu_7x", "cpu"])
def test_a_device_without_warps_is_refused_where_warps_matter(name: str) -> None:
    with pytest.raises(DeviceError, match="no warps"):
        gpu_of(name)
    with pytest.raises(DeviceError, match="no warps"):
        limits_of(name)


def test_gpus_have_all_that_thread_maps_and_tiles_need() -> None:
    assert DEVICES.keys() == LIMITS.keys()
    for device in DEVICES.values():
        threads = (device.sms, device.threads_per_sm, device.shared_kib, device.registers)
        memory = (device.l2_bytes, device.bandwidth, device.memory_bytes)
        assert min(*threads, *memory) > 0, device.name
        assert device.warp in (32, 64)
        assert device.block_shared >= 48 << 10


def test_every_device_states_its_sources_and_no_peak_twice() -> None:
    for device in ALL_DEVICES.values():
        assert device.sources
        for row in (device.matrix, device.vector):
            assert len(dict(row)) == len(row)
            assert all(peak > 0 and math.isfinite(peak) for _, peak in row)


def test_narrower_types_are_not_slower_on_matrix_units() -> None:
    for device in ALL_DEVICES.values():
        peaks = dict(device.matrix)
        known = [peaks[t] for t in ("tf32", "f16", "f8", "f4") if t in peaks]
        assert known == sorted(known), device.name


@needs_shared
def test_no_figure_is_below_the_vendors_or_a_credible_one_of_xla() -> None:
    reference = json.loads((SHARED / "conformance/cost/devices.json").read_text())["devices"]
    halves = {"mi250x"}  # the reference has the product, the table one die
    checked = 0
    for name, sides in reference.items():
        device = ALL_DEVICES[OURS.get(name, name)]
        public, xla = sides.get("public", {}), sides.get("xla", {})
        share = 0.5 if name in halves else 1
        assert device.bandwidth >= public.get("bandwidth_gbs", 0) * share * 0.999, name
        if name != "mi300x":  # XLA's figure is above the vendor's
            assert device.bandwidth >= xla.get("bandwidth_gbs", 0) * 0.999, name
        for unit in ("matrix", "vector"):
            for element, peak in public.get(unit, {}).items():
                own = device.peak(unit, element)
                assert own is not None, (name, unit, element)
                assert own >= peak * share * 0.998, (name, unit, element)
                checked += 1
    assert checked > 100


def test_the_page_has_the_table_and_every_key_of_a_file() -> None:
    text = PAGE.read_text()
    assert device_table() in text
    for key, row in KEYS.items():
        assert f"| `{key}` | {row.about} |" in text


# ----------------------------------------------------------------------------------------- files


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_file_changes_some_figures_of_a_known_device(tmp_path: Path) -> None:
    path = written(tmp_path, 'base = "h100"\nbandwidth_gbs = 3000\n[matrix]\nbf16 = 900\n')
    mine = gpu_of(path)
    assert (mine.name, mine.bandwidth, mine.sms) == ("mine", 3000.0, 132)
    assert mine.peak("matrix", "bf16") == 900
    assert mine.peak("matrix", "f64") == device_of("h100").peak("matrix", "f64")
    assert limits_of(path).shared == LIMITS["h100"].shared


def test_a_file_describes_a_cpu_by_bandwidth_and_peaks(tmp_path: Path) -> None:
    text = 'kind = "cpu"\nname = "epyc"\nbandwidth_gbs = 460.8\n[vector]\nf32 = 4.6\n'
    device = device_of(written(tmp_path, text))
    assert (device.name, device.kind, device.peak("vector", "f32")) == ("epyc", "cpu", 4.6)
    assert device.l2_bytes == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "h100"\nbandwith_gbs = 3', r"no key `bandwith_gbs`.*bandwidth_gbs"),
        ('base = "h100"\nbandwidth_gbs = "3"', r"`bandwidth_gbs`: found '3', expected a number"),
        ('base = "h100"\nbandwidth_gbs = true', "found true, expected a number"),
        ('base = "h100"\nbandwidth_gbs = nan', "found nan, expected"),
        ('base = "h100"\nbandwidth_gbs = -1', "found -1, expected"),
        ('base = "h100"\ncores = 1.5', "`cores`: found 1.5, expected an integer"),
        ('base = "h100"\nwarp = 48', "`warp`: found 48, expected a power of two"),
        ('base = "h100"\nis_amd = 1', "`is_amd`: found 1, expected true or false"),
        ('base = "h100"\nmatrix = 3', "`matrix`: found 3, expected a table"),
        ('base = "h100"\n[matrix]\nbf61 = 3', "no element type `bf61` in `matrix`"),
        ('base = "h100"\n[matrix]\nbf16 = "x"', r"`matrix.bf16`: found 'x', expected a number"),
        ('base = "tpu_v4"\nkind = "gpu"', "`kind`: found `gpu`, expected `tpu`"),
        ('kind = "npu"\nbandwidth_gbs = 1', "`kind`: found 'npu', expected `gpu`, `tpu` or `cpu`"),
        ('kind = "cpu"', "missing `bandwidth_gbs`"),
        ('kind = "gpu"\nbandwidth_gbs = 1', "missing `cores`, `threads_per_core`, `warp`"),
        ('base = "h101"', "no device `h101`"),
        ('base = "mine.toml"', "no device `mine.toml`"),
        ("base = ", "not TOML"),
        ("a = " + "[" * 5000, "not TOML"),
        ("#" * (1 << 17), "too many for a device"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_key_and_what_is_expected(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises((DeviceError, UnknownNameError), match=message) as found:
        device_of(written(tmp_path, text))
    assert "h101" in text or '"mine.toml"' in text or "mine.toml" in found.value.message


def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"gone\.toml: can't read"):
        device_of(str(tmp_path / "gone.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DeviceError, match="not UTF-8"):
        device_of(str(tmp_path / "bytes.toml"))
