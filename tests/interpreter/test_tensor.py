"""Tensors and elements as Python values."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hloscope import Element, EvaluationError, InputError, Tensor
from hloscope.ir.types import ELEMENT_TYPES, QuantizedType, TensorType

LITERALS = [
    "dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>",
    "dense<[1.500000e+00, 0x7FC0]> : tensor<2xbf16>",
    "dense<[true, false]> : tensor<2xi1>",
    "dense<[-8, 7]> : tensor<2xi4>",
    "dense<[(1.000000e+00,-2.000000e+00), (0.000000e+00,1.000000e+00)]> : tensor<2xcomplex<f32>>",
    "dense<3> : tensor<ui8>",
    "dense<5.000000e-01> : tensor<3xf8E4M3FN>",
    "dense<> : tensor<0xf32>",
]


@pytest.mark.parametrize("text", LITERALS)
def test_literals_of_both_languages_and_files_keep_the_tensor(text: str, tmp_path: Path) -> None:
    tensor = Tensor.parse(text)
    assert tensor.to_mlir() == text
    assert Tensor.parse(tensor.to_hlo()) == tensor
    tensor.save(tmp_path / "x.npy")
    assert Tensor.load(tmp_path / "x.npy", tensor.type.element) == tensor
    assert np.asarray(tensor).dtype == tensor.dtype


def test_every_element_is_at_its_index() -> None:
    tensor = Tensor.of(np.arange(6, dtype=np.uint16).reshape(2, 3))
    assert tensor.type == TensorType(ELEMENT_TYPES["u16"], (2, 3))
    assert [int(e) for e in tensor] == list(range(6))
    assert list(tensor.indices())[:4] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    for at in [(2, 0), (0, -1), (0,), (0, 0, 0)]:
        with pytest.raises(IndexError, match="no element"):
            tensor.get(at)


def test_set_makes_another_tensor() -> None:
    tensor = Tensor.of([1, 2], "s8")
    assert tensor.set([1], 5).array.tolist() == [1, 5]
    assert tensor.array.tolist() == [1, 2]
    with pytest.raises(EvaluationError, match="the value: 200 is no s8"):
        tensor.set([1], 200)
    with pytest.raises(EvaluationError, match="an element of s16 is none of s8"):
        tensor.set([1], Element.of(5, "s16"))
    with pytest.raises(ValueError, match="read-only"):
        tensor.array[0] = 1


def test_elements_compute_as_their_type_does() -> None:
    big, one = Element.of(127, "s8"), Element.of(1, "s8")
    assert big + one == -128
    assert 1 - big == -126
    assert Element.of(-7, "s32") / 2 == -3
    assert Element.of(-7, "s32") % 2 == -1
    assert Element.of(-7, "s32") >> 1 == -4
    assert Element.of(200, "u8") >> 1 == 100
    assert -Element.of(1, "u8") == 255
    assert ~Element.of(True, "pred") == False  # noqa: E712
    assert abs(Element.of(3 + 4j, "c64")) == 5.0
    third = Element.of(1, "bf16") / 3
    assert float(third) == float(ml_dtypes.bfloat16(1 / 3))
    assert Element.of(2, "f32") ** 3 == 8.0
    assert Element.of(0, "f32").compute("cosine") == 1.0
    nan = Element.of(np.nan, "f32")
    assert nan != nan
    assert not nan < 1.0
    assert Element.of(1, "s4") < 3 <= Element.of(3, "s4")


def test_quantized_tensors_hold_their_integers() -> None:
    quantized = QuantizedType(
        "!quant.uniform<i8:f32, 5.000000e-01>",
        8,
        "quantized",
        storage=ELEMENT_TYPES["s8"],
        expressed=ELEMENT_TYPES["f32"],
        scales=(0.5,),
        zero_points=(0,),
        storage_min=-128,
        storage_max=127,
    )
    tensor = Tensor.of([1, -2], quantized)
    assert tensor.to_mlir() == "dense<[1, -2]> : tensor<2xi8>"
    with pytest.raises(EvaluationError, match="128 is no"):
        Tensor.of([128], quantized)


def test_what_is_no_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        Tensor.load(tmp_path / "none.npy")
    (tmp_path / "bad.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="is not a file of numpy arrays"):
        Tensor.load(tmp_path / "bad.npy")
    np.savez(tmp_path / "two.npy.npz", [1], [2])
    with pytest.raises(InputError, match=r"is no \.npy file: it holds 2 arrays"):
        Tensor.load(tmp_path / "two.npy.npz")
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)}
    with (tmp_path / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(InputError, match="holds an array of 8,796,093,022,208 bytes"):
        Tensor.load(tmp_path / "huge.npy")
    Tensor.of([1.0], "bf16").save(tmp_path / "bf16.npy")
    with pytest.raises(EvaluationError, match="say which is meant"):
        Tensor.load(tmp_path / "bf16.npy")
    with pytest.raises(InputError, match="elements of 2 bytes"):
        Tensor.load(tmp_path / "bf16.npy", "f32")
    with pytest.raises(EvaluationError, match="no element type"):
        Tensor.of(np.array(["a"]))
    with pytest.raises(ValueError, match="no element type `f31`"):
        Tensor.of([1], "f31")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        Tensor.load(tmp_path / "pickled.npy")
