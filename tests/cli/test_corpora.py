"""`index --all` of many programs: the same bytes by processes, from a cache, and one by one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hloscope.api import FileAnswers, IndexQuestion, KeptAnswers, answer_files, corpora
from hloscope.checks.scan import Store, code_digest
from hloscope.checks.scan.store import _digest
from tests.cli.conftest import ROOT, Run, start

EXAMPLES = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "examples").glob("*.hlo"))]
PROGRAM = """HloModule m
f {{ a = f32[{n},8] parameter(0) b = f32[8,{n}] transpose(a), dimensions={{1,0}}
  ROOT c = f32[{m}] reshape(b) }}
ENTRY e {{ {name} = f32[{n},8] parameter(0) ROOT r = f32[{m}] fusion({name}), kind=kLoop, calls=f }}
"""
pytestmark = pytest.mark.timeout(120)


def program(n: int, name: str = "p") -> str:
    return PROGRAM.format(n=n, m=8 * n, name=name)


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    """Ten programs: two of them are broken, one has no function."""
    paths = [tmp_path / f"{9 - n}.hlo" for n in range(10)]
    for n, path in enumerate(paths):
        path.write_text(program(n + 2))
    paths[1].write_text("module {}")
    paths[3].write_text("HloModule m\nENTRY e {")
    paths[6].write_text(program(8).replace("calls=f", "calls=g"))
    return paths


@pytest.mark.slow
def test_order_and_bytes_do_not_depend_on_processes(run: Run, corpus: list[Path]) -> None:
    alone = [run("index", path, "--all") for path in corpus]
    every = "".join(one.stdout for one in alone)
    said = "".join(one.stderr for one in alone)
    assert said.count("error") >= 2
    for jobs in (1, 2):
        result = run("index", *corpus, "--all", "--jobs", jobs)
        assert (result.stdout, result.stderr) == (every, said)
        assert result.exit_code == max(one.exit_code for one in alone) == 3


QUESTIONS = [
    [], ["--output", "0"], ["--operand", "0"], ["--from-operand", "0"], ["--to-parameters"],
    ["--physical"], ["--linear"], ["--convention", "xla"], ["--from-operand", "1", "--physical"],
]  # fmt: skip


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("options", QUESTIONS, ids=" ".join)
def test_a_cache_changes_no_answer(run: Run, tmp_path: Path, options: list[str]) -> None:
    files = [*EXAMPLES, "examples/softmax.mlir", "examples/tan.mlir"]
    right = run("index", *files, "--all", "--jobs", "1", *options)
    assert right.exit_code == 0
    for _ in range(2):
        found = run("index", *files, "--all", "--jobs", "1", "--cache", tmp_path, *options)
        assert (found.stdout, found.stderr, found.exit_code) == (right.stdout, "", 0)


def test_what_is_kept_is_called_by_the_names_of_who_asks(run: Run, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_text(program(4, name))
        found = run("index", tmp_path / name, "--all", "--cache", tmp_path / "kept")
        last = json.loads(found.stdout.splitlines()[-1])
        assert last["file"] == str(tmp_path / name)
        assert last["operands"][0]["name"] == name


def test_equal_structure_is_asked_about_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    ask = IndexQuestion.ask

    def counted(self: IndexQuestion, view: object) -> object:
        asked.append(str(view))
        return ask(self, view)  # type: ignore[arg-type]

    monkeypatch.setattr(IndexQuestion, "ask", counted)
    kept = KeptAnswers(tmp_path / "kept")
    for name in ("first", "second", "first"):
        list(answer_files([(name, program(4, name).encode())], IndexQuestion(), jobs=1, kept=kept))
    assert len(asked) == 3


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def forged(text: bytes) -> Callable[[Path], object]:
    """Another text in the place of an answer, with a digest that is right."""
    return lambda path: path.write_bytes(_digest(text) + b"\n" + text)


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _to_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-3] + b"xyz"),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(999)),
    "deep": forged(b"[" * 200_000),
    "no JSON": forged(b"{"),
    "another JSON": forged(
        b'{"unreached": null, "outputs": [], "operands": [{"operand": 77}], "maps": []}'
    ),
    "a number": forged(b"7"),
    "a list": forged(b'{"outputs": [[]], "maps": [], "unreached": null}'),
    "folder": _to_folder,
    "pipe": _to_pipe,
    "huge": _to_sparse,
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_what_is_broken_in_a_cache_is_not_there(
    run: Run, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    words = ["index", "examples/softmax.hlo", "--all", "--cache", tmp_path]
    right = run(*words)
    assert right.exit_code == 0
    for path in entries(tmp_path):
        change(path)
    found = run(*words)
    assert (found.stdout, found.exit_code) == (right.stdout, 0)
    assert "Traceback" not in found.stderr


def test_a_cache_is_bounded_and_takes_nothing_of_others(run: Run, tmp_path: Path) -> None:
    most, mine = 200_000, tmp_path / "aa" / "mine.json"
    mine.parent.mkdir()
    mine.write_bytes(bytes(1000))
    old = tmp_path / "bb" / f"{'b' * 40}.json.0123.tmp"
    old.parent.mkdir()
    old.write_bytes(bytes(1000))
    os.utime(old, (0, 0))
    kept = KeptAnswers(tmp_path, most)
    programs = [(str(n), program(n + 2).encode()) for n in range(60)]
    for _ in answer_files(programs, IndexQuestion(), jobs=1, kept=kept):
        sizes = [path.stat().st_blocks * 512 for path in entries(tmp_path)]
        assert sum(sizes) < 1.2 * most
    assert len(sizes) > 10
    assert mine.exists()
    assert not old.exists()


def test_what_is_used_stays_longest(tmp_path: Path) -> None:
    store = Store(tmp_path, most=400_000)
    keys = [store.key(str(n)) for n in range(40)]
    for n, key in enumerate(keys):
        store.put_bytes(key, bytes(20_000))
        (path,) = tmp_path.rglob(f"{key}.json")
        os.utime(path, (n, n))
        assert store.get_bytes(keys[0]) is not None, n  # which counts as used now
    left = [store.get_bytes(key) is not None for key in keys]
    assert left == [True, *sorted(left[1:])]
    assert 10 < sum(left) < 30


def test_other_code_or_another_schema_is_another_key() -> None:
    assert Store(None, "a").key("index") != Store(None, "b").key("index")
    assert len(code_digest()) == 32


def test_a_folder_that_cannot_be_written_is_said_and_does_no_harm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "x" * 300):
        found = run("index", EXAMPLES[0], "--all", "--cache", tmp_path / name)
        assert found.stdout == run("index", EXAMPLES[0], "--all").stdout
        assert found.stderr.startswith("the cache was not written: ")
        assert found.exit_code == 0


@pytest.mark.slow
def test_several_writers_leave_whole_answers(tmp_path: Path) -> None:
    for n in range(12):
        (tmp_path / f"{n}.hlo").write_text(program(4, f"p{n}"))
    words = ["index", *[str(tmp_path / f"{n}.hlo") for n in range(12)], "--all", "--jobs", "2"]
    writers = [start(*words, "--cache", str(tmp_path / "kept")) for _ in range(2)]
    outputs = [writer.communicate(timeout=100) for writer in writers]
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == ""
    assert len(outputs[0][0].splitlines()) == 36
    assert not [path for path in entries(tmp_path / "kept") if path.suffix == ".tmp"]


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    for n in range(400):
        (tmp_path / f"{n}.hlo").write_text(program(n + 2))
    (tmp_path / "temporary").mkdir()
    files = [str(tmp_path / f"{n}.hlo") for n in range(400)]
    process = subprocess.Popen(
        [sys.executable, "-m", "hloscope", "index", *files, "--all", "--jobs", "2"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}, start_new_session=True,
    )  # fmt: skip
    with process:
        assert process.stdout
        assert process.stdout.readline().startswith("{")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said.strip()) == (130, "interrupted")
    assert not list((tmp_path / "temporary").iterdir())
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("a worker still runs")


def test_a_program_that_ends_its_processes_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(_: object) -> FileAnswers:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    monkeypatch.setattr(corpora, "_answer", dies)
    task = corpora._Task("a.hlo", b"", IndexQuestion(), None, "", str(tmp_path / "0"))
    found = corpora._guarded(task)
    assert found.code == 5
    assert "internal error: a.hlo: the process was killed (signal 9)" in found.message


def test_the_standard_input_and_folders_are_programs_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "module_0001.m.before_optimizations.txt").write_text(program(3))
    (tmp_path / "module_0002.m.before_optimizations.txt").write_text(program(4))
    found = run("index", "-", tmp_path, "--all", "--jobs", "1", stdin=program(2))
    assert found.exit_code == 0
    files = [json.loads(line)["file"] for line in found.stdout.splitlines()]
    assert len(files) == 9
    assert files[0] == "<stdin>"
    assert len(set(files)) == 3


WRONG = {
    "several files are for --all": [EXAMPLES[0], "a", "b"],
    "--jobs and --cache are for --all": [EXAMPLES[0], "--jobs", "2"],
    "--all prints JSON lines": [EXAMPLES[0], "softmax", "--all"],
    "one file, in one process": [EXAMPLES[0], EXAMPLES[1], "--all", "--verify"],
    "--cache names a directory": [EXAMPLES[0], "--all", "--cache", ""],
    "is not a size such as": [EXAMPLES[0], "--all", "--cache", "x", "--cache-size", "much"],
}


@pytest.mark.parametrize(("message", "words"), WRONG.items(), ids=WRONG)
def test_wrong_usage_is_told(run: Run, message: str, words: list[str]) -> None:
    found = run("index", *words)
    assert found.exit_code == 2
    assert message in found.stderr
