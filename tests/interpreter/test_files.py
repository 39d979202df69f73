"""Values in files, and what is said about arrays."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import InputError
from hloscope.interpreter.shown import statistics
from hloscope.interpreter.values import TOKEN, EvaluationError
from hloscope.ir.types import ELEMENT_TYPES, TensorType, TokenType, TupleType
from hloscope.mlir.types import spell
from hloscope.proof.arrays import arranged, leaves, load, named, restored, save


def tensor(name: str, *sizes: int) -> TensorType:
    return TensorType(ELEMENT_TYPES[name], sizes)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f32", "float32"),
        ("c64", "complex64"),
        ("pred", "bool"),
        ("s64", "int64"),
        ("bf16", ml_dtypes.bfloat16),
        ("f8e4m3fn", ml_dtypes.float8_e4m3fn),
        ("s4", ml_dtypes.int4),
        ("u4", ml_dtypes.uint4),
    ],
)
def test_what_is_saved_is_loaded(tmp_path: Path, name: str, dtype: Any) -> None:
    value = np.array([[1, 0], [1, 1]]).astype(dtype)
    for file in ("x.npz", "x.npy"):
        save(tmp_path / file, {"arr_0": value})
        ((key, stored),) = load(tmp_path / file).items()
        back = restored(stored, tensor(name, 2, 2))
        assert key == "arr_0"
        assert back.dtype == value.dtype
        assert back.tolist() == value.tolist()


def test_arrays_in_any_order_of_memory(tmp_path: Path) -> None:
    value = np.asfortranarray(np.arange(6).reshape(2, 3)).astype(">i8")
    np.save(tmp_path / "x.npy", value)
    loaded = restored(load(tmp_path / "x.npy")["arr_0"], tensor("s64", 2, 3))
    assert loaded.tolist() == value.tolist()
    assert loaded.dtype == np.dtype("int64")


def test_rank_0_and_empty_arrays(tmp_path: Path) -> None:
    save(tmp_path / "x.npz", {"a": np.array(1.5), "b": np.zeros((0, 3), "int8")})
    assert {k: v.shape for k, v in load(tmp_path / "x.npz").items()} == {"a": (), "b": (0, 3)}


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*absent"):
        load(tmp_path / "absent.npz")
    for content in (b"", b"nonsense", b"PK\x03\x04rest"):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(InputError, match="not a file of numpy arrays"):
            load(tmp_path / "bad")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        load(tmp_path / "objects.npy")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(InputError, match="not a file of numpy arrays"):
        load(tmp_path / "text.npz")


def test_claims_are_checked_before_memory_is_taken(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(1000))
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content.replace(b"(1000,), ", b"(9999,), "))
    with pytest.raises(InputError, match="ends too early: 8,000 bytes of 79,992"):
        load(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(content.replace(b"(1000,), }      ", b"(10**0,), }     "))
    with pytest.raises(InputError, match="not a file of numpy arrays"):
        load(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(content.replace(b"(1000,), }      ", b"(1000000000000,),}"))
    with pytest.raises(InputError):
        load(tmp_path / "x.npy")


def flipped(content: bytes, generator: np.random.Generator) -> bytes:
    """The content with a few bytes changed, cut or repeated."""
    changed = bytearray(content)
    for _ in range(int(generator.integers(1, 6))):
        at = int(generator.integers(0, len(changed)))
        match int(generator.integers(0, 4)):
            case 0:
                del changed[at : at + int(generator.integers(1, 40))]
            case 1:
                changed[at:at] = changed[at : at + int(generator.integers(1, 40))]
            case _:
                changed[at] = int(generator.integers(0, 256))
        if not changed:
            break
    return bytes(changed)


@pytest.mark.slow(keep=60)
@pytest.mark.parametrize("compression", [0, 8, 12, 14], ids=["stored", "deflate", "bzip2", "lzma"])
@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_are_refused_or_read(tmp_path: Path, compression: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    plain = tmp_path / "x.npy"
    np.save(plain, np.arange(64.0).reshape(8, 8))
    packed = tmp_path / "x.npz"
    with zipfile.ZipFile(packed, "w", compression) as archive:
        archive.write(plain, "x.npy")
    for path in (plain, packed):
        path.write_bytes(flipped(path.read_bytes(), generator))
        with suppress(InputError):
            load(path, most_bytes=1 << 20)


@pytest.mark.parametrize(
    "shape", ["(True, 4)", "(-1,)", "(1 << 3,)", "(1.0,)", "(2**70,)", "4", "None"]
)
def test_odd_sizes_are_refused(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(InputError):
        load(path)


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    save(path, {"a": np.arange(3)})
    content = bytearray(path.read_bytes())
    for header, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + flag] |= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="encrypted"):
        load(path)


def test_all_arrays_of_a_file_count_together(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **{f"a{i}": np.zeros(1000) for i in range(4)})
    assert len(load(path, most_bytes=32_000)) == 4
    with pytest.raises(InputError, match="8,000 bytes"):
        load(path, most_bytes=31_999)


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        save(tmp_path / "absent" / "x.npz", {"a": np.zeros(1)})
    with pytest.raises(InputError, match="holds one array, found 2"):
        save(tmp_path / "x.npy", {"a": np.zeros(1), "b": np.zeros(1)})


def test_arguments_by_order_and_by_name() -> None:
    types = [tensor("f32", 2), tensor("s32")]
    one, two = np.zeros(2, "float32"), np.array(3, "int32")
    assert arranged({"x": one, "y": two}, types, ["a", "b"])[1] == 3
    assert arranged({"b": two, "a": one}, types, ["a", "b"])[1] == 3
    with pytest.raises(EvaluationError, match=r"argument 0 should be tensor<2xf32>: its elements"):
        arranged({"y": two, "x": one}, types, ["a", "b"], spell)
    with pytest.raises(EvaluationError, match=r"found 1 arrays, needed are 2: tensor<2xf32>, te"):
        arranged({"y": two}, types, ["a", "b"], spell)


def test_tuples_are_their_arrays() -> None:
    type_ = TupleType((tensor("f32", 2), TupleType((tensor("s32"),)), TokenType()))
    value = (np.zeros(2, "float32"), (np.array(3, "int32"),), TOKEN)
    stored = named([value], [type_])
    assert list(stored) == ["arr_0", "arr_1"]
    (back,) = arranged(stored, [type_], ["p"])
    assert [array.tolist() for array, _ in leaves(back, type_)] == [[0, 0], 3]


def test_integers_are_narrowed_if_nothing_is_lost() -> None:
    assert restored(np.array([1, -8]), tensor("s4", 2)).dtype == ml_dtypes.int4
    assert restored(np.array([1, 9]), tensor("s4", 2)).dtype == np.int64
    assert restored(np.array([1, 0]), tensor("pred", 2)).dtype == bool
    assert restored(np.array([1.0]), tensor("f32", 1)).dtype == np.float64
    assert restored(np.array([1]), tensor("f32", 1)).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.array([3, -1, 4]), "-1 … 4, mean 2"),
        (np.array([2.5, 2.5]), "all 2.5"),
        (np.array([np.nan, np.inf, 1.0, -np.inf]), "all 1, 1 NaN, 2 infinite"),
        (np.array([np.nan]), "1 NaN"),
        (np.zeros((0, 2)), "empty"),
        (np.array([True, False]), "0 … 1, mean 0.5"),
        (np.array([3 + 4j, 0]), "0 … 5, mean 2.5"),
        (np.array([1, 2], ml_dtypes.bfloat16), "1 … 2, mean 1.5"),
        (np.array([1, -2], ml_dtypes.int4), "-2 … 1, mean -0.5"),
        (np.array(7, "uint64"), "all 7"),
    ],
)
def test_statistics(value: Any, text: str) -> None:
    assert str(statistics(value)) == text
