"""Scans: the tables are right, the same whoever makes them, and nothing that was done is lost."""

from __future__ import annotations

import gzip
import random
import zipfile
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope.api import ScanReport, footprints_of, kernels_of, scan_files
from hloscope.api.files import FORMS
from hloscope.api.scanning import Facts
from hloscope.checks.scan import Store, alone, ask, running

pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `scan`)")
parquet: Any = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (the extra `scan`)")
pytest.importorskip("duckdb", reason="needs duckdb (the extra `scan`)")

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.hlo"), *(ROOT / "examples").glob("*.mlir")])
BROKEN = {
    "broken.hlo": b"HloModule m\nENTRY e {",
    "empty.hlo": b"",
    "noise.hlo": random.Random(7).randbytes(2000),
    "late.hlo": b"ENTRY e { a = f32[4] parameter(0)\n ROOT b = f32[4] add(a, c) }",
    "cut.hlo.gz": gzip.compress(b"ENTRY e { ROOT a = f32[4] parameter(0) }" * 9)[:-9],
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Programs, two of them alike, one of them packed; and files that are none."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for path in EXAMPLES:
        (folder / path.name).write_bytes(path.read_bytes())
    softmax = (ROOT / "examples/softmax.hlo").read_text()
    (folder / "again.hlo.gz").write_bytes(gzip.compress(softmax.encode()))
    (folder / "renamed.hlo").write_text(softmax.replace("row_", "line_"))
    for name, content in BROKEN.items():
        (folder / name).write_bytes(content)
    return folder


def scanned(corpus: Path, folder: Path, **options: Any) -> ScanReport:
    return scan_files([str(corpus)], folder, **{"jobs": 1, **options})


def tables(folder: Path) -> list[bytes]:
    return [(folder / f"{name}.parquet").read_bytes() for name in ("modules", "kernels")]


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parquet.read_table(folder / f"{name}.parquet").to_pylist()
    return found


@pytest.mark.slow
def test_every_file_is_a_row_and_says_what_is_wrong_with_it(corpus: Path, tmp_path: Path) -> None:
    report = scanned(corpus, tmp_path / "out")
    found = {Path(row["file"]).name: row for row in rows(tmp_path / "out", "modules")}
    assert found.keys() == {path.name for path in corpus.iterdir()}
    assert {name for name, row in found.items() if row["status"] == "broken"} == BROKEN.keys()
    assert {name for name, row in found.items() if row["status"] != "ok"} == BROKEN.keys()
    assert report.statuses == {"ok": len(found) - 5, "broken": 5, "limit": 0, "failed": 0}
    assert {Path(file).name for file, _, _ in report.troubles} == BROKEN.keys()
    assert found["late.hlo"]["error"].startswith("line 2: ")
    assert all(row["error"] for row in found.values() if row["status"] != "ok")


@pytest.mark.slow
def test_what_a_kernel_is_said_to_be_is_what_the_library_says(tmp_path: Path) -> None:
    for path in EXAMPLES:
        scan_files([str(path)], tmp_path / "out", jobs=1, cache=tmp_path / path.name)
        program = hloscope.read(path)
        said = {row["name"]: row for row in rows(tmp_path / "out", "kernels")}
        for computation, ins in kernels_of(program.module):
            row = said[ins.name]
            (moved,) = footprints_of(program, [(computation, ins)])
            assert (row["read_bytes"], row["written_bytes"]) == (moved.read, moved.written)
            view = program[f"{computation.name}/{ins.name}"]
            if row["dynamic"]:
                continue  # a view names unknown sizes, which a structure has no names for
            answers = [view.indexing(k) for k in range(len(view.outputs))]
            found = [a for answer in answers for o in answer.operands for a in o.accesses]
            assert row["maps"] == len(found)
            worst = {"unknown": 2, "over": 1, "exact": 0}
            assert worst[row["precision"]] == max(
                (worst[str(a.precision)] for a in found), default=0
            )
            assert all(str(a.map) in row["indexing"] for a in found)
            if row["emitter"]:
                answer = view.coalescing()
                assert row["wasted_bytes"] == answer.answer.wasted
                assert row["utilisation"] == answer.utilisation
            else:
                assert "coalescing" in row["problems"]


@pytest.mark.slow
def test_names_do_not_count_and_what_is_read_does(corpus: Path, tmp_path: Path) -> None:
    scanned(corpus, tmp_path / "out")
    of = {Path(row["file"]).name: row for row in rows(tmp_path / "out", "kernels")}
    assert of["softmax.hlo"]["structure"] == of["again.hlo.gz"]["structure"]
    assert of["softmax.hlo"]["structure"] == of["renamed.hlo"]["structure"]
    differing = [
        "p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0}",
        "p = f32[4,8]{0,1} parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0}",
        "p = f32[4,8] parameter(0) ROOT t = f32[4,8] transpose(p), dimensions={0,1}",
        "p = f32[4,4] parameter(0) ROOT t = f32[4,4] add(p, p)",
        "p = f32[4,4] parameter(0) q = f32[4,4] parameter(1) ROOT t = f32[4,4] add(p, q)",
        "p = f32[4] parameter(0) c = f32[] constant(1) ROOT t = f32[4] pad(p, c), padding=0_0",
        "p = f32[4] parameter(0) c = f32[] constant(2) ROOT t = f32[4] pad(p, c), padding=0_0",
    ]
    for shape in ("f32[16]", "f32[2,3]"):  # in a tuple, where a type's `repr` is short
        nested = f"(({shape}), {shape}, s32[])"
        differing.append(f"p = {nested} parameter(0) ROOT t = {nested} custom-call(p), "
                         'custom_call_target="f"')  # fmt: skip
    for groups in ("{{0,1}}", "{{0},{1}}"):
        differing.append(
            f"p = f32[4] parameter(0) ROOT t = f32[4] all-to-all(p), replica_groups={groups}"
        )
    structures = set()
    for text in differing:
        program = hloscope.read(f"ENTRY e {{ {text} }}")
        _, kernels = Facts(program, "h100", Store(None)).rows()
        structures.add(kernels[-1]["structure"])
    assert len(structures) == len(differing)


@pytest.mark.slow
def test_the_tables_do_not_depend_on_who_makes_them(corpus: Path, tmp_path: Path) -> None:
    files = [str(path) for path in corpus.iterdir()]
    random.Random(3).shuffle(files)
    scanned(corpus, tmp_path / "one")
    scan_files(files, tmp_path / "two", jobs=2)
    with ThreadPoolExecutor(3) as executor:
        scanned(corpus, tmp_path / "three", executor=executor)
        assert executor.submit(int).result() == 0, "it is still the caller's"
    scanned(corpus, tmp_path / "four", cache=tmp_path / "one/cache")
    for other in ("two", "three", "four"):
        assert tables(tmp_path / other) == tables(tmp_path / "one")


def test_what_is_known_is_not_computed_again(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(running, "CAN_FORK", False)
    structural = Facts._structural

    def counting(self: Facts, ins: Any) -> dict[str, Any]:
        places = (c for c in self._program.module if ins in set(c.instructions))
        asked.append(self._digests.of_kernel(ins, next(places)))
        return structural(self, ins)

    monkeypatch.setattr(Facts, "_structural", counting)
    first = scanned(corpus, tmp_path / "out")
    computed = {row["structure"] for row in rows(tmp_path / "out", "kernels")}
    asked = [one for one in asked if one in computed]
    assert first.kept == 1, "the packed file is that of the examples"
    assert len(asked) == len(computed)
    before = tables(tmp_path / "out")
    asked = []
    second = scanned(corpus, tmp_path / "out")
    assert (second.kept, asked) == (first.files - 1, []), "the packed file that was cut has none"
    (corpus / "more.hlo").write_text("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] tanh(p) }")
    assert scanned(corpus, tmp_path / "out").kept == first.files - 1
    assert len(asked) == 1
    (corpus / "more.hlo").unlink()
    scanned(corpus, tmp_path / "out")
    assert tables(tmp_path / "out") == before


@pytest.mark.slow
def test_a_scan_that_was_ended_goes_on(corpus: Path, tmp_path: Path) -> None:
    def stop(done: int, most: int) -> None:
        assert most == len(list(corpus.iterdir()))
        if done == 4:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        scanned(corpus, out, progress=stop)
    assert [path.name for path in out.iterdir()] == ["cache"], "no half-written tables"
    assert scanned(corpus, out).kept >= 2
    scanned(corpus, tmp_path / "other")
    assert tables(out) == tables(tmp_path / "other")


@pytest.mark.slow
def test_damaged_answers_are_computed_anew(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    scanned(corpus, out)
    before = tables(out)
    damages = (
        b"",
        b"{",
        b"[1]",
        b"null",
        b'{"module": 1}',
        b"\xff",
        b"[" * 100_000,
        b"0" * 16 + b"\n{}",
    )
    kept = sorted((out / "cache").rglob("*.json"))
    assert len(kept) > 2 * len(damages)
    for number, path in enumerate(kept):
        content = path.read_bytes()
        damage = damages[number % len(damages)] if number % 2 else content.replace(b"e", b"a")
        path.write_bytes(damage if number % 3 else content[:-1])
    assert scanned(corpus, out).kept == 1, "the packed file, known from the one before"
    assert tables(out) == before


@pytest.mark.slow
def test_a_full_disk_costs_the_cache_and_is_told(corpus: Path, tmp_path: Path) -> None:
    """As a folder that cannot be made: the answers are there all the same."""
    (tmp_path / "file").write_text("")
    report = scanned(corpus, tmp_path / "out", cache=tmp_path / "file/cache")
    assert report.unkept
    scanned(corpus, tmp_path / "other")
    assert tables(tmp_path / "out") == tables(tmp_path / "other")


class Losing(Executor):
    """Loses every third task, as a cluster whose workers die."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Future[Any]:
        future = Future[Any]()
        self.given += 1
        if self.given % 3 == 0:
            future.set_exception(RuntimeError("the worker has gone"))
        elif self.given % 7 == 0:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_result(fn(*args, **named))
        return future


@pytest.mark.slow
def test_what_an_executor_loses_is_done_here(corpus: Path, tmp_path: Path) -> None:
    executor = Losing()
    scanned(corpus, tmp_path / "out", executor=executor)
    scanned(corpus, tmp_path / "other")
    assert executor.given > 9
    assert tables(tmp_path / "out") == tables(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.skipif(not running.CAN_FORK, reason="needs processes that are forked")
@pytest.mark.timeout(60)
def test_a_file_that_takes_too_long_or_too_much_is_left_out(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of = Facts.rows
    scan_files([str(corpus / "tan.mlir")], tmp_path / "ready", jobs=1)

    def heavy(self: Facts) -> Any:
        name = self._program.module.name
        while "step" not in name:
            pass
        return [bytearray(1 << 28) for _ in range(64)]

    monkeypatch.setattr(Facts, "rows", heavy)
    for name, seconds, said in (
        ("kv_cache.hlo", 1.0, "not done within 1 s"),
        ("training_step.hlo", 50.0, "more memory than it may take"),
    ):
        files, out = [str(corpus / name)], tmp_path / name
        report = scan_files(files, out, jobs=1, seconds=seconds, memory=1 << 30)
        assert report.troubles == [(files[0], "limit", said)]
        with monkeypatch.context() as patched:
            patched.setattr(Facts, "rows", rows_of)
            assert scan_files(files, out, jobs=1).statuses["ok"] == 1, "it is tried again"


@pytest.mark.skipif(not running.CAN_FORK, reason="needs processes that are forked")
@pytest.mark.timeout(60)
def test_a_function_that_dies_is_told_and_takes_nothing_with_it() -> None:
    import os
    import signal

    limits = running.Limits(20.0)
    found, why = alone(lambda: os.kill(os.getpid(), signal.SIGKILL), limits)
    assert (found, why.status) == (None, "failed")
    assert "signal 9" in why.text
    found, why = alone(lambda: os._exit(0), limits)
    assert (found, why.status) == (None, "failed")
    found, why = alone(lambda: list(range(200_000)), limits)
    assert (len(found), why.text) == (200_000, "")


@pytest.mark.slow
def test_equal_structure_means_equal_facts_in_real_programs(tmp_path: Path, shared: Path) -> None:
    """Each file by itself, without what others found; see `benchmarks/scanning.py` for all."""
    every = sorted((shared / "real/modules/inline").glob("*.hlo"))[::90]
    assert every
    (tmp_path / "file").write_text("")
    scan_files([*map(str, every)], tmp_path, jobs=1, cache=tmp_path / "file/none")
    own = {"file", "name", "computation", "module", "op_name", "source", "line", "times"}
    known: dict[str, Any] = {}
    for row in rows(tmp_path, "kernels"):
        facts = {key: value for key, value in row.items() if key not in own}
        assert row["structure"]
        assert known.setdefault(row["structure"], facts) == facts
    assert known


def test_of_a_directory_every_form_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    hlo = b"ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] tanh(p) }"
    mlir = b"func.func @f(%p: tensor<8xf32>) -> tensor<8xf32> { return %p : tensor<8xf32> }"
    bytecode = hloscope.serialize(hloscope.read(mlir))
    for form in FORMS:
        is_text = form.endswith("mlir")
        content = hlo if form.startswith("hlo") or form == "txt" else mlir if is_text else bytecode
        (folder / f"a.{form}").write_bytes(content)
        (folder / f"b.{form}.gz").write_bytes(gzip.compress(content))
    (folder / "a.bc").write_bytes(bytecode)
    report = scanned(folder, tmp_path / "out")
    assert report.statuses["ok"] == report.files == 2 * len(FORMS)


@pytest.mark.slow
def test_urls_and_patterns_are_files(corpus: Path, tmp_path: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec", reason="needs fsspec (the extra `scan`)")
    memory = fsspec.filesystem("memory")
    for path in corpus.iterdir():
        memory.pipe(f"/scans/{path.name}", path.read_bytes())
    memory.pipe("/scans/notes.md", b"no program")
    try:
        scanned(corpus, tmp_path / "out")
        scan_files(["memory://scans"], tmp_path / "urls", jobs=1)
        scan_files([str(corpus / "*")], tmp_path / "globs", jobs=1)
        some = scan_files(
            ["memory://scans/*.gz", "memory://scans/softmax.hlo"], tmp_path / "x", jobs=1
        )
        assert some.files == 3
        with pytest.raises(hloscope.HloscopeError, match="no programs at"):
            scan_files(["memory://nowhere"], tmp_path / "y", jobs=1)
        with pytest.raises(hloscope.HloscopeError, match="no file is like"):
            scan_files([str(corpus / "*.nothing")], tmp_path / "y", jobs=1)
        with pytest.raises(hloscope.HloscopeError, match="cannot read"):
            scan_files(["nonsense://x/y"], tmp_path / "y", jobs=1)
    finally:
        memory.rm("/scans", recursive=True)
    assert tables(tmp_path / "globs") == tables(tmp_path / "out")
    of_urls = [
        {**row, "file": Path(row["file"]).name} for row in rows(tmp_path / "urls", "kernels")
    ]
    of_files = [
        {**row, "file": Path(row["file"]).name} for row in rows(tmp_path / "out", "kernels")
    ]
    assert of_urls == of_files
    assert of_urls


@pytest.mark.slow
def test_chained_urls_are_read_as_they_were_found(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (the extra `scan`)")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "a.mlir").write_text("func.func @f() { return }")
    (corpus / "b.mlir").write_text("func.func @g() { return }")
    packed = tmp_path / "x.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in corpus.glob("*.mlir"):
            archive.write(path, f"inside/{path.name}")
    names = [path.name for path in corpus.glob("*.mlir")]
    chains = [f"zip://inside/*.mlir::{packed}", f"zip://inside::{packed.as_uri()}",
              f"simplecache::zip://inside/*::{packed.as_uri()}",
              f"simplecache::file://{corpus}/*.mlir"]  # fmt: skip
    for k, url in enumerate(chains):
        report = scan_files([url], str(tmp_path / f"out{k}"), jobs=1)
        assert report.statuses["ok"] == report.files == len(names), report.troubles
        files = {row["file"] for row in rows(tmp_path / f"out{k}", "modules")}
        assert all(any(name in file for file in files) for name in names)
    with pytest.raises(hloscope.HloscopeError, match="not a zip file"):
        scan_files([f"zip://a::{corpus / 'a.mlir'}"], tmp_path / "y", jobs=1)


def test_names_that_are_no_text_and_numbers_that_are_too_large(tmp_path: Path) -> None:
    big = 1 << 40
    text = f"ENTRY e {{ p = f32[{big},{big}] parameter(0) ROOT n = f32[{big},{big}] negate(p) }}"
    (tmp_path / "big.hlo").write_text(text)
    (tmp_path / "a\udcff.hlo").write_text("ENTRY e { ROOT p = f32[] parameter(0) }")
    report = scan_files([str(tmp_path)], tmp_path / "out", jobs=1)
    assert report.files == 2
    found = ask("select max(read_bytes) from kernels", [tmp_path / "out"])
    assert found.rows == [((1 << 63) - 1,)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["write_table", "close"])
def test_of_a_scan_both_tables_are_there_or_none(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """A disk that is full when the second of them comes to its end."""
    out = tmp_path / "out"
    scanned(corpus, out)
    before = tables(out)
    (corpus / "more.hlo").write_text("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] tanh(p) }")
    done = getattr(parquet.ParquetWriter, method)

    def full(self: Any, *given: Any, **named: Any) -> None:
        done(self, *given, **named)
        if "structure" in self.schema.names:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(parquet.ParquetWriter, method, full)
        with pytest.raises(hloscope.HloscopeError, match=r"kernels.parquet`: No space left"):
            scanned(corpus, out)
    assert tables(out) == before
    assert not list(out.glob("*.tmp"))
    scanned(corpus, out)
    assert tables(out) != before
