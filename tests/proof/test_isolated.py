"""Questions in a process of their own: no question takes longer than allowed, and none stays."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

import hloscope
from hloscope.affine import Dim, Interval, nodes
from hloscope.errors import UnsupportedError
from hloscope.proof import Outcome, Prover
from hloscope.proof.allowance import CAN_FORK, Isolated
from hloscope.simplifier import Domain, domain
from hloscope.simplifier.isl_relations import UndecidedError

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="processes cannot fork here")

HARD: Final = {
    "transpose": """ENTRY e { p = s16[4,4,64,20,12] parameter(0)
      ROOT t = s16[4,4,12,20,64] transpose(p), dimensions={1,0,4,3,2} }""",
    "tile": """ENTRY e { p = f32[320,512]{1,0:T(8,128)(99999999999,1)} parameter(0)
      ROOT r = f32[512,320]{1,0:T(8,128)(99999999999,1)} transpose(p), dimensions={1,0} }""",
}
"""Programs whose positions in memory isl compares for long; too large to look at all elements."""


def endless() -> int:
    return sum(iter(lambda: 1, 2))


def undecided() -> NoReturn:
    raise UndecidedError("nobody knows")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def child_of(apart: Isolated) -> int:
    assert apart._child is not None
    return apart._child[0]


def test_a_question_over_time_is_undecided_and_its_process_is_gone() -> None:
    apart = Isolated([endless, lambda: "later"])
    assert apart.ask(1, 10.0) == "later"
    child = child_of(apart)
    begin = time.perf_counter()
    with pytest.raises(UndecidedError, match=r"not decided within 0\.2 s"):
        apart.ask(0, 0.2)
    assert time.perf_counter() - begin >= 0.2
    assert not is_alive(child)
    assert apart.ask(1, 10.0) == "later"
    assert child_of(apart) != child
    apart.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="clocks of others are Linux's")
def test_a_child_has_processor_time_not_the_time_of_day() -> None:
    apart = Isolated([lambda: time.sleep(0.5), endless])
    assert apart.ask(0, 0.3) is None
    assert apart.taken < 0.3
    with pytest.raises(UndecidedError, match=r"not decided within 0\.1 s"):
        apart.ask(1, 0.1)
    assert apart.taken >= 0.1


def test_a_child_does_not_collect_the_objects_of_its_parent() -> None:
    """A full collection over a large parent would take the time of the first question."""
    apart = Isolated([gc.get_freeze_count])
    assert apart.ask(0, 10.0) > 0
    assert gc.get_freeze_count() == 0
    apart.stop()


def test_what_is_not_supported_is_undecided_in_a_child() -> None:
    def unsupported() -> NoReturn:
        raise UnsupportedError("not done yet")

    with pytest.raises(UndecidedError, match="not done yet"):
        Isolated([unsupported]).ask(0, 10.0)


def test_a_child_answers_many_questions_and_ends_with_who_asked() -> None:
    apart = Isolated([undecided, lambda: [1, [2]], lambda: {}["nothing"], lambda: 1 // 0])
    with pytest.raises(UndecidedError, match="nobody knows"):
        apart.ask(0, 10.0)
    child = child_of(apart)
    assert apart.ask(1, 10.0) == [1, [2]]
    for broken in (2, 3):
        with pytest.raises(UndecidedError):
            apart.ask(broken, 10.0)
    assert child_of(apart) == child
    del apart
    assert not is_alive(child)


@pytest.mark.parametrize("end", [lambda: os._exit(1), lambda: os.kill(os.getpid(), 9)])
def test_a_child_that_dies_is_followed_by_another(end: object) -> None:
    apart = Isolated([end, lambda: 1])  # type: ignore[list-item]
    with pytest.raises(UndecidedError, match="out of memory"):
        apart.ask(0, 10.0)
    assert apart.ask(1, 10.0) == 1
    apart.stop()


def test_no_time_is_no_question() -> None:
    apart = Isolated([endless])
    with pytest.raises(UndecidedError, match="no time is left"):
        apart.ask(0, 0.0)
    assert apart._child is None


def making_expressions() -> str:
    return str(Domain({Dim(0): Interval(0, 12345)}).simplify((Dim(0) * 77 + 14) // 7))


@pytest.mark.parametrize("lock", [nodes._LOCK, domain._LOCK], ids=["nodes", "domains"])
def test_a_child_does_not_wait_for_a_lock_of_another_thread(lock: Any) -> None:
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    apart = Isolated([making_expressions])
    try:
        assert apart.ask(0, 10.0) == "d0 * 11 + 2"
    finally:
        apart.stop()
        thread.join()


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", HARD)
def test_what_isl_does_not_decide_in_time_is_sampled_with_a_reason(name: str) -> None:
    root = hloscope.read(HARD[name]).root
    prover = Prover(seconds=0.2)
    check = root.indexing(linear=True).prove(prover=prover).checks[0]
    assert check.outcome is Outcome.SAMPLED
    assert check.reason.startswith("not decided within 0.2 s")
    easy = root.indexing().prove(prover=Prover()).checks[0]
    assert easy.outcome is Outcome.PROVED


def children(pid: int) -> list[int]:
    try:
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


@pytest.mark.slow(keep=1)
@pytest.mark.skipif(
    not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists(),
    reason="this system does not list children",
)
@pytest.mark.parametrize("name", HARD)
def test_an_interrupt_ends_a_proof_at_once_and_leaves_no_process(name: str, tmp_path: Path) -> None:
    file = tmp_path / "hard.hlo"
    file.write_text(HARD[name])
    command = [sys.executable, "-m", "hloscope", "index", str(file), "--verify", "--linear"]
    command += ["--seconds", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        found: list[int] = []
        while not found and process.poll() is None:
            time.sleep(0.01)
            found = children(process.pid)
        assert found
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=200)  # long before the proof has to end
    assert (process.returncode, out, err.strip()) == (130, b"", b"interrupted")
    assert not any(map(is_alive, found))
