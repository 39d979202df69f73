"""Files and streams: compressed, endless, closed, damaged, missing; directories of dumps."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hloscope as hs
from hloscope.api import files
from hloscope.errors import InputError
from tests.cli.conftest import ROOT

TEXT = "HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }\n"


def zstd(data: bytes) -> bytes:
    made: bytes = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    return made


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_compressed_files_and_streams_are_read(run: Any, tmp_path: Path, pack: Any) -> None:
    data = pack(TEXT.encode())
    file = tmp_path / "m.hlo.txt.gz"
    file.write_bytes(data)
    plain = run("index", "-", stdin=TEXT).stdout
    assert run("index", file).stdout == plain
    assert run("index", "-", stdin=data).stdout == plain
    assert hs.read(data).root.name == "n"


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_several_members_are_one_text(tmp_path: Path, pack: Any) -> None:
    file = tmp_path / "m.gz"
    file.write_bytes(pack(TEXT[:30].encode()) + pack(TEXT[30:].encode()))
    assert hs.read(file).root.name == "n"


@pytest.mark.parametrize("kept", [4, 8, 0.5, -1])
@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_file_that_is_cut_off_is_said_to_be(tmp_path: Path, pack: Any, kept: float) -> None:
    data = pack(b"// a word \n" * 200_000 + TEXT.encode())
    file = tmp_path / "m.hlo"
    file.write_bytes(data[: int(len(data) * kept) if kept == 0.5 else int(kept)])
    with pytest.raises(InputError, match=r"is a damaged \w+ file: it ends too early"):
        hs.read(file)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(TEXT.encode())[:-9], "ends too early"),
        (gzip.compress(TEXT.encode())[:20] + b"x" * 20, "damaged gzip file"),
        (b"\x1f\x8b" + b"y" * 40, "damaged gzip file"),
    ],
    ids=["cut off", "other bytes", "no header"],  # a compressed text has the time in it
)
def test_damaged_files_are_said_to_be(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "m.gz"
    file.write_bytes(data)
    with pytest.raises(InputError, match=message):
        hs.read(file)


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_few_bytes_that_stand_for_many_stop_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Any
) -> None:
    monkeypatch.setattr(files, "MOST_INPUT", 4 << 20)
    file = tmp_path / "m.gz"
    file.write_bytes(pack(b" " * (64 << 20)))
    with pytest.raises(InputError, match="more than 4 MiB of decompressed text"):
        hs.read(file)


@pytest.mark.parametrize("file", ["-", "/dev/zero"])
def test_endless_zeros_are_no_text(file: str) -> None:
    with open("/dev/zero", "rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "hloscope", "verify", file],
            cwd=ROOT, stdin=zeros, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert "is not text: there is a zero byte" in done.stderr


@pytest.mark.slow
def test_a_closed_input_is_said() -> None:
    done = subprocess.run(
        f"{sys.executable} -m hloscope ls - <&-",
        cwd=ROOT, shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "cannot read the standard input: it is closed" in done.stderr


def test_a_link_to_nothing_is_said_to_be_one(run: Any, tmp_path: Path) -> None:
    link = tmp_path / "dangling"
    link.symlink_to(tmp_path / "gone.hlo")
    result = run("ls", link)
    assert result.exit_code == 3
    assert f"`{link}` is a symbolic link to `{tmp_path / 'gone.hlo'}`, which" in result.stderr


@pytest.mark.slow
def test_a_pipe_with_a_name_is_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", "ls", pipe], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    pipe.write_text(TEXT)
    out, _ = process.communicate(timeout=60)
    assert "negate" in out


FILES = [
    "module_0001.jit_f.0003.pipeline.after_cse.before_dce.txt",
    "module_0001.jit_f.0012.pipeline.after_dce.before_fusion.txt",
    "module_0001.jit_f.before_optimizations.txt",
    "module_0001.jit_f.sm_9.0_gpu_after_optimizations.txt",
    "module_0001.jit_f.sm_9.0_gpu_after_optimizations-buffer-assignment.txt",
    "module_0001.jit_f.thunk_sequence.txt",
    "module_0010.jit_g.v2.before_optimizations.txt.gz",
    "sub/module_0002.jit_h.cpu_after_optimizations.hlo",
    "gpt.gpu.opt.hlo.txt",
    "0005.passes.after_a.before_b.hlo",
    "notes.md",
]


def test_a_directory_of_dumps_is_listed(run: Any, ask: Any, tmp_path: Path) -> None:
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(TEXT)
    listed = ask("ls", tmp_path, "--json")
    assert listed["schema"] == "hloscope.dumps/1"
    assert [(p["number"], p["module"], p["stage"]) for p in listed["programs"]] == [
        (None, "", "passes.after_a.before_b"),
        (None, "gpt", "gpu.opt"),
        (1, "jit_f", "before_optimizations"),
        (1, "jit_f", "pipeline.after_cse.before_dce"),
        (1, "jit_f", "pipeline.after_dce.before_fusion"),
        (1, "jit_f", "sm_9.0_gpu_after_optimizations"),
        (2, "jit_h", "cpu_after_optimizations"),
        (10, "jit_g.v2", "before_optimizations"),
    ]
    rows = run("ls", tmp_path).stdout.splitlines()
    assert len(rows) == 9
    assert rows[-1].split()[-1] == FILES[6]
    for program in listed["programs"]:
        if not program["file"].endswith(".gz"):
            assert run("ls", program["file"]).exit_code == 0


@pytest.mark.parametrize("word", ["alias", "asm", "autotune", "ir-", "thunk", "live-range"])
def test_a_program_may_be_called_as_a_report_is(ask: Any, tmp_path: Path, word: str) -> None:
    programs = {f"{word}_info.hlo", f"a.pl{word}a.txt", f"{word}.txt", f"x.{word}.hlo.txt.gz"}
    for name in (*programs, f"module_0001.jit_f.{word}.txt", f"module_0001.jit_f.cpu-{word}.txt"):
        (tmp_path / name).write_text(TEXT)
    assert {Path(p["file"]).name for p in ask("ls", tmp_path, "--json")["programs"]} == programs


def test_a_file_that_goes_while_a_directory_is_listed_is_left_out(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.hlo", "b.hlo"):
        (tmp_path / name).write_text(TEXT)
    walked = os.walk

    def forgetful(*args: Any, **options: Any) -> Any:
        for base, folders, names in walked(*args, **options):
            (tmp_path / "a.hlo").unlink()
            yield base, [*folders, "gone"], names

    monkeypatch.setattr("hloscope.api.files.walk", forgetful)
    result = run("ls", tmp_path, "--json")
    assert (result.exit_code, "a.hlo" in result.stdout) == (0, False)


def test_a_directory_that_cannot_be_read_is_said(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("os.scandir", denied)
    result = run("ls", tmp_path)
    assert result.exit_code == 3
    assert result.stderr == f"error: cannot read `{tmp_path}`: Permission denied\n"


def test_a_directory_of_something_else_is_said(run: Any, tmp_path: Path) -> None:
    result = run("ls", tmp_path)
    assert result.exit_code == 3
    assert "is a directory without programs" in result.stderr
    (tmp_path / "m.hlo").write_text(TEXT)
    assert "`hloscope ls" in run("show", tmp_path, "n").stderr
