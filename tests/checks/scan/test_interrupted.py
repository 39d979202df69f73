"""A scan that is ended from outside, as a process: nothing that was done is lost, and it is told.

The last file of the corpus is a pipe to which nobody writes: a worker waits for it while the others
are done, until the test has found out what it wanted to and ends the scan, or lets it go on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hloscope.api import ScanReport, scan_files

pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `scan`)")
pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for processes"),
]

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "hloscope", "scan"]
LAST = "ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] tanh(p) }"
SECONDS = 60


class Corpus:
    """Programs, of which the last does not come to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "corpus"
        self.folder.mkdir()
        for path in sorted((ROOT / "examples").glob("*.hlo"))[:5]:
            shutil.copy(path, self.folder)
        self.pipe = self.folder / "z.hlo"
        self.done = len(list(self.folder.iterdir()))
        scan_files([str(self.folder)], folder / "known", jobs=1)
        self._answers = answers(folder / "known")
        os.mkfifo(self.pipe)
        self.paths = sorted(map(str, self.folder.iterdir()))

    def wait(self, out: Path) -> None:
        """Until all but the last is done and kept."""
        until(lambda: answers(out) >= self._answers)

    def end(self) -> None:
        """Let the last one be a file like the others."""
        self.pipe.unlink()
        self.pipe.write_text(LAST)

    def scan(self, out: Path) -> ScanReport:
        """Scan it here."""
        return scan_files(self.paths, out, jobs=1)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def answers(out: Path) -> int:
    return len(list((out / "cache").rglob("*.json")))


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def tables(out: Path) -> list[bytes]:
    return [(out / f"{name}.parquet").read_bytes() for name in ("modules", "kernels")]


@contextmanager
def running(corpus: Corpus, out: Path) -> Iterator[subprocess.Popen[str]]:
    """A scan in a group of its own, as a terminal begins it, which waits for the last file."""
    with subprocess.Popen(
        [*COMMAND, *corpus.paths, "-o", str(out), "--jobs", "2"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            corpus.wait(out)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes that a process began, and that run."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found]


def workers(pid: int) -> list[int]:
    told = {one: Path(f"/proc/{one}/cmdline").read_text() for one in children(pid)}
    return [one for one, line in told.items() if "spawn_main" in line]


def is_there(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ctrl-c", "kill -9"])
def test_a_scan_that_is_ended_leaves_no_process_and_goes_on(
    corpus: Corpus, tmp_path: Path, how: str
) -> None:
    out = tmp_path / "out"
    with running(corpus, out) as process:
        began = workers(process.pid)
        assert len(began) == 2
        if how == "ctrl-c":
            os.killpg(process.pid, signal.SIGINT)
            told, errors = process.communicate(timeout=SECONDS)
            assert (told, errors.strip()) == ("", "interrupted")
            assert process.returncode == 130
            assert [path.name for path in out.iterdir()] == ["cache"]
        else:
            process.kill()
            process.wait(SECONDS)
        until(lambda: not any(map(is_there, began)))
    assert not list(out.glob("*.parquet"))
    corpus.end()
    for draft in out.glob("*.tmp"):
        os.utime(draft, (0, 0))
    assert corpus.scan(out).kept == corpus.done
    assert not list(out.glob("*.tmp"))
    corpus.scan(tmp_path / "other")
    assert tables(out) == tables(tmp_path / "other")


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(corpus, out) as process:
        began = workers(process.pid)
        os.kill(began[0], signal.SIGKILL)
        until(lambda: bool(set(workers(process.pid)) - set(began)))
        corpus.pipe.write_text(LAST)
        told, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, errors) == (0, "")
        assert told.startswith(f"{corpus.done + 1} files, ")
    corpus.end()
    corpus.scan(tmp_path / "other")
    assert tables(out) == tables(tmp_path / "other")


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A file system of this size in a folder; gives a function that changes the size."""

    def mount(*options: str) -> None:
        asked = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        subprocess.run(asked, check=True, capture_output=True)

    folder.mkdir()
    try:
        mount(f"size={size}")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a file system")
    try:
        yield lambda size: mount("remount", f"size={size}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_told_and_a_scan_goes_on_when_there_is_room(
    corpus: Corpus, tmp_path: Path
) -> None:
    corpus.end()
    corpus.scan(tmp_path / "other")
    with disk(tmp_path / "disk", "80k") as resize:
        out = tmp_path / "disk/out"
        asked = [*COMMAND, *corpus.paths, "-o", str(out), "--jobs", "2"]
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert done.stderr.startswith(f"error: cannot write `{out}/")
        assert "No space left on device" in done.stderr
        assert [path.name for path in out.iterdir()] == ["cache"]
        resize("10m")
        assert corpus.scan(out).kept > 0
        assert tables(out) == tables(tmp_path / "other")


@pytest.mark.slow
def test_answers_that_find_no_room_are_told_and_the_tables_are_whole(
    corpus: Corpus, tmp_path: Path
) -> None:
    corpus.end()
    corpus.scan(tmp_path / "other")
    with disk(tmp_path / "disk", "40k"):
        cache, out = tmp_path / "disk/cache", tmp_path / "out"
        asked = [*COMMAND, *corpus.paths, "-o", str(out), "--cache", str(cache), "--jobs", "2"]
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == (
        "what was found is not kept for the next scan: No space left on device\n"
    )
    assert tables(out) == tables(tmp_path / "other")


@pytest.mark.slow
def test_a_terminal_is_shown_how_far_it_is(corpus: Corpus, tmp_path: Path) -> None:
    corpus.end()
    reader, writer = os.openpty()
    asked = [*COMMAND, *corpus.paths, "-o", str(tmp_path / "out"), "--jobs", "2"]
    with subprocess.Popen(
        asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=writer, text=True,
        env={**os.environ, "TERM": "xterm"},
    ) as process:  # fmt: skip
        os.close(writer)
        shown = b""
        with suppress(OSError):  # how a terminal says that its other side has gone
            while data := os.read(reader, 4096):
                shown += data
        told, _ = process.communicate(timeout=SECONDS)
    os.close(reader)
    lines = shown.decode().replace("\x1b[K", "").split("\r")
    assert lines[1] == f"0 of {corpus.done + 1} files"
    assert lines[-2].startswith(f"{corpus.done + 1} of {corpus.done + 1} files, ")
    assert lines[-2].endswith("/s, 0 s left")
    assert lines[-1] == "", "it is taken away at the end"
    assert told.startswith(f"{corpus.done + 1} files, ")
