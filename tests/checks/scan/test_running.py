"""Tasks in processes that die, in clusters, and in none: every result, in order."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hloscope.api import scan_files
from hloscope.checks.scan import Done, Engine, engine_of, given_engine, in_order, running
from hloscope.errors import InputError
from tests.checks.scan.tasks import Task, square

ROOT = Path(__file__).parents[3]
COUNT = 300
pytestmark = pytest.mark.timeout(120)


def squares(engine: Engine, deadly: int, flag: Path | None, count: int = COUNT) -> list[Any]:
    tasks = [Task(number, deadly, flag, os.getpid()) for number in range(count)]
    with engine:
        return [(done.task.number, done.result) for done in in_order(engine, square, tasks)]


EXPECTED = [(number, number**2) for number in range(COUNT)]


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("deadly", [0, 70, COUNT - 1])
def test_a_worker_that_is_killed_loses_nothing(deadly: int, tmp_path: Path) -> None:
    assert squares(engine_of(2, None), deadly, tmp_path / "flag") == EXPECTED
    assert (tmp_path / "flag").exists()
    assert not multiprocessing.active_children()


def test_a_task_that_kills_every_worker_is_done_here() -> None:
    assert squares(engine_of(2, None), 3, None, 9) == EXPECTED[:9]


def test_an_error_is_of_its_task_alone() -> None:
    tasks = [Task(number, -7, None, os.getpid()) for number in (1, -1, 2)]
    with engine_of(1, None) as engine:
        found = list(in_order(engine, square, tasks))
    assert found == [
        Done(tasks[0], 1), Done(tasks[1], None, "ValueError: no number"), Done(tasks[2], 4),
    ]  # fmt: skip


def test_a_given_executor_that_is_broken_costs_nothing_but_time() -> None:
    class Broken(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            raise BrokenExecutor("since long")

    with Broken(1) as executor:
        assert squares(given_engine(executor, 1), -7, None, 20) == EXPECTED[:20]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert squares(given_engine(pool, 1), 5, None, 20) == EXPECTED[:20]


def test_an_interrupt_ends_the_workers() -> None:
    tasks = [Task(number, -7, None, 0) for number in range(COUNT)]

    def until_interrupted() -> None:
        with engine_of(2, None) as engine:
            for done in in_order(engine, square, tasks):
                if done.task.number == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        until_interrupted()
    until = time.monotonic() + 60  # the executor's own thread may be the one that sees them end
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)
    assert not multiprocessing.active_children()


@contextmanager
def cluster() -> Iterator[Any]:
    distributed: Any = pytest.importorskip("distributed", reason="needs distributed (extra `scan`)")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as made:
        yield made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same_tables_and_its_workers_may_die(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `scan`)")
    files = [str(ROOT / "examples/*.hlo"), str(ROOT / "nothing.hlo")]
    scan_files(files, tmp_path / "here", jobs=1)
    with cluster() as made:
        address = made.scheduler_address
        assert squares(engine_of(1, address), 7, tmp_path / "flag", 30) == EXPECTED[:30]
        assert (tmp_path / "flag").exists()
        scan_files(files, tmp_path / "dask", dask=address)
    for name in ("modules", "kernels"):
        there = (tmp_path / f"dask/{name}.parquet").read_bytes()
        assert there == (tmp_path / f"here/{name}.parquet").read_bytes()


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:1"])
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_must_be_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 1)
    pytest.importorskip("distributed", reason="needs distributed (the extra `scan`)")
    pytest.importorskip("pyarrow", reason="needs pyarrow (the extra `scan`)")
    with pytest.raises(InputError, match="no scheduler of Dask"):
        scan_files([str(ROOT / "examples")], tmp_path, dask=address)
