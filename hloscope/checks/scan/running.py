"""Executes tasks by an engine, with results in order; each in a process with limits."""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from threading import Thread
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from hloscope.errors import InputError
from hloscope.support.system import (
    CAN_FORK,
    begin_worker,
    end_with_parent,
    forked,
    interrupts_blocked,
    library_of,
)

# --------------------------------------------------------------------------------------------------
# Tasks run by an engine, with results in order: by processes of this machine, or by Dask.
#
# Any `concurrent.futures.Executor` works.  If a worker dies, its unfinished tasks are given to
# another worker, and after several deaths run in this process.


T = TypeVar("T")
R = TypeVar("R")
WAITING: Final = 64
"""Maximum number of submitted tasks for each worker."""
PATIENCE: Final = 10
"""Seconds to wait for a scheduler to answer, or for a pool to close."""
TRIALS: Final = 3
"""Number of workers that may die with a task; then the task runs in this process."""


class Done(NamedTuple, Generic[T, R]):
    """A task with its outcome.

    Attributes:
        task: The task.
        result: The value that the function returned; `None` if it failed.
        error: Failure it failed; empty if it did not.
    """

    task: T
    result: R | None
    error: str = ""


class Engine(AbstractContextManager["Engine"]):
    """Submits tasks to an executor, which is replaced when it breaks.

    Attributes:
        jobs: Number of workers.
    """

    def __init__(self, make: Callable[[], Executor], jobs: int) -> None:
        self.jobs: Final = jobs
        self._make: Final = make
        self._executor: Executor | None = None
        self._children: set[BaseProcess] = set()

    def submit(self, function: Callable[[T], R], task: T) -> Future[R]:
        """Submit the call `function(task)` to the executor; return its future.

        If the executor is broken, the future has that error.
        """
        try:
            if len(self._children) == self.jobs:
                return self._current().submit(function, task)
            with interrupts_blocked():  # processes that start here inherit it
                others = set(multiprocessing.active_children())
                try:
                    return self._current().submit(function, task)
                finally:
                    self._children |= set(multiprocessing.active_children()) - others
        except BrokenExecutor as error:  # it broke since the last task: reported like a failed one
            broken = Future[R]()
            broken.set_exception(error)
            return broken

    def _current(self) -> Executor:
        if self._executor is None:
            self._executor = self._make()
        return self._executor

    def renew(self) -> None:
        """Drop a broken executor; the next task creates a new one."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
            self._children = set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            self._end(executor, wait=error is None)

    def _end(self, executor: Executor, *, wait: bool) -> None:
        """Shut down an executor.

        With `wait` the running tasks finish; otherwise the workers of a process pool are killed.
        """
        if wait or not isinstance(executor, ProcessPoolExecutor):
            executor.shutdown(wait=wait, cancel_futures=True)
            return
        for child in self._children:
            child.kill()
        closing = Thread(target=partial(executor.shutdown, cancel_futures=True), daemon=True)
        closing.start()  # it releases the queues that the processes shared
        closing.join(PATIENCE)


class InProcessExecutor(Executor):
    """An executor that runs each task at once in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call `fn(*args, **kwargs)` at once; return a future with its result or its exception."""
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _CallersEngine(Engine):
    """Engine for an executor of the caller, which it never shuts down."""

    def renew(self) -> None:
        """Do nothing: a broken executor stays broken, and its tasks run in this process."""

    def __exit__(self, *_: object) -> None:
        """Do nothing: the caller shuts its executor down."""


def given_engine(executor: Executor, jobs: int) -> Engine:
    """Return an engine that uses an existing executor.

    `jobs` is the number of its workers.
    """
    return _CallersEngine(lambda: executor, jobs)


def engine_of(jobs: int, dask: str | None) -> Engine:
    """Return an engine with worker processes, or with the workers of a Dask cluster.

    Args:
        jobs: Number of processes; with 1, tasks run in this process.
        dask: `local` or the address of a scheduler; `None` for processes.

    Raises:
        InputError: Dask is not installed, or cannot be reached.
    """
    if dask is not None:
        return _Dask(dask, jobs)
    if jobs == 1:
        return Engine(InProcessExecutor, 1)
    return Engine(lambda: _pool(jobs), jobs)


NO_GUARD: Final = (
    "the file that calls scan_files is read by each worker: call it below"
    ' `if __name__ == "__main__":`'
)
"""Error message for a script without that line: pool processes import the script."""


def _pool(jobs: int) -> Executor:
    if getattr(multiprocessing.process.current_process(), "_inheriting", False):
        # a worker that imports the caller's file as `__main__`: it would start workers itself
        raise RuntimeError(NO_GUARD)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, context, begin_worker)


class _Dask(Engine):
    """Workers of a Dask cluster, on this machine or on others."""

    def __init__(self, address: str, jobs: int) -> None:
        self._dask: Final = library_of("scan", "distributed", "workers of Dask")
        self._address: Final = address
        self._client: Any = None
        super().__init__(self._connected, jobs)

    def _connected(self) -> Executor:
        try:
            if self._address == "local":
                cluster = self._dask.LocalCluster(
                    n_workers=self.jobs, threads_per_worker=1, dashboard_address=None
                )
                self._client = self._dask.Client(cluster)
            else:
                self._client = self._dask.Client(self._address, timeout=PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"no scheduler of Dask at `{self._address}`: {error}") from None
        executor: Executor = self._client.get_executor(pure=False)
        return executor

    def _end(self, executor: Executor, *, wait: bool) -> None:
        executor.shutdown(wait=wait)  # Dask's executor has no `cancel_futures`
        cluster = self._client.cluster
        with suppress(Exception):  # whatever is still open goes with the process
            self._client.close(timeout=5)
            if cluster is not None:
                cluster.close(timeout=5)

    def renew(self) -> None:
        """Do nothing: a Dask scheduler replaces workers itself."""


def in_order(
    engine: Engine,
    function: Callable[[T], R],
    tasks: Iterable[T],
    *,
    waiting: int = WAITING,
    last: Callable[[T], R] | None = None,
) -> Iterator[Done[T, R]]:
    """Run tasks; yield the outcome of each, in the order of the tasks.

    Args:
        engine: The engine that runs them.
        function: The function to call with each task.
        tasks: The tasks.
        waiting: Maximum number of submitted tasks for each worker.
        last: Called in this process, instead of `function`, with a task whose workers died; by
            default `function`.
    """
    coming = iter(tasks)
    given: deque[tuple[T, Future[R], int]] = deque()
    while True:
        for task in coming:
            given.append((task, engine.submit(function, task), 1))
            if len(given) >= engine.jobs * waiting:
                break
        if not given:
            return
        task, future, trial = given.popleft()
        try:
            yield Done(task, future.result())
        except BrokenExecutor:
            # Every submitted task of a broken executor has failed, though at most one caused it:
            # each is submitted again, and only the oldest counts its trials.
            engine.renew()
            if trial < TRIALS:
                given.appendleft((task, future, trial))
            else:
                yield _run_here(last or function, task)
            _resubmit(engine, function, given)
        except (Exception, CancelledError):  # a lost task, or an error that `_run_here` will repeat
            yield _run_here(function, task)


def _run_here(function: Callable[[T], R], task: T) -> Done[T, R]:
    """Call `function(task)` in this process; return the task with its result or its error."""
    try:
        return Done(task, function(task))
    except Exception as error:
        return Done(task, None, f"{type(error).__name__}: {error}")


def _resubmit(
    engine: Engine, function: Callable[[T], R], given: deque[tuple[T, Future[R], int]]
) -> None:
    """Submit every unfinished task again to the engine, and count the trial.

    Args:
        engine: The engine.
        function: The function to call with each task.
        given: Task, future and number of trials of each; it is changed in place.
    """
    for number, (task, future, trial) in enumerate(given):
        if not _is_done(future):
            given[number] = task, engine.submit(function, task), trial + 1


def _is_done(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


# --------------------------------------------------------------------------------------------------
# A function run in a child process with limits of time and memory.


_BLOCK: Final = 1 << 16


class Limits(NamedTuple):
    """Limits for processing one file.

    Attributes:
        seconds: Wall-clock seconds; `None` for no limit.
        bytes: Bytes of memory beyond what the process has at its start; `None` for no limit.
    """

    seconds: float | None = None
    bytes: int | None = None


UNLIMITED: Final = Limits()


class Failure(NamedTuple):
    """The reason why there is no result.

    Attributes:
        status: `limit` or `failed`; empty if there is a result.
        text: The reason, for a message.
    """

    status: str = ""
    text: str = ""


class ChildProcess:
    """Runs a function in a child process while this process continues.

    It is a context manager: at its end a child that still runs is killed. Where processes cannot be
    forked, `result` runs the function in this process, without limits.

    >>> with ChildProcess(lambda: [6 * 7]) as work:
    ...     work.result()
    ([42], Failure(status='', text=''))
    """

    def __init__(self, function: Callable[[], Any], limits: Limits = UNLIMITED) -> None:
        self._function: Final = function
        self._limits: Final = limits
        self._child: tuple[int, int] | None = None
        if CAN_FORK:
            self._child = _start(function, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            (pid, read), self._child = self._child, None
            _kill(pid)
            os.close(read)

    def result(self) -> tuple[Any, Failure]:
        """Wait for the function; return its result, or `None` and the reason.

        Call it at most once.
        """
        if self._child is None:
            return self._function(), Failure()
        pid, read = self._child
        text = _read_all(read, self._limits.seconds)
        if text is None:
            return None, Failure("limit", f"not done within {self._limits.seconds:g} s")
        self._child = None
        os.close(read)
        _, status = os.waitpid(pid, 0)
        return _found(text, status)


def alone(function: Callable[[], Any], limits: Limits) -> tuple[Any, Failure]:
    """Run a function in a child process; return its result, or `None` and the reason.

    The result must be a JSON value. Where processes cannot be forked the function runs in this
    process, without limits.

    >>> alone(lambda: [6 * 7], Limits(10.0))
    ([42], Failure(status='', text=''))
    >>> alone(lambda: os.kill(os.getpid(), 9), Limits(10.0))[1].text
    'the process was killed (signal 9)'
    """
    with ChildProcess(function, limits) as work:
        return work.result()


def _start(function: Callable[[], Any], limits: Limits) -> tuple[int, int]:
    """Start a child process for the function; return its process id, and the pipe to read from.

    `limits.bytes` limits the child's memory. The caller must watch `limits.seconds`.
    """
    read, write = os.pipe()
    pid = forked(lambda: _serve(function, write), limits.bytes)
    os.close(write)
    return pid, read


def _found(text: bytes, status: int) -> tuple[Any, Failure]:
    if os.WIFSIGNALED(status):
        return None, Failure("failed", f"the process was killed (signal {os.WTERMSIG(status)})")
    try:
        found, why = json.loads(text)
    except ValueError:
        return None, Failure("failed", "the process ended without an answer")
    return found, Failure("limit", why) if why else Failure()


def _read_all(read: int, seconds: float | None) -> bytes | None:
    """Return all bytes that a child process writes to a pipe.

    `read` is the pipe's file descriptor. The result is `None` if that takes longer than `seconds`.
    """
    parts: list[bytes] = []
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(end - time.monotonic(), 0.0)
        ready, _, _ = select.select([read], [], [], left)
        if not ready:
            return None
        part = os.read(read, _BLOCK)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _kill(pid: int) -> None:
    """Kill the child process `pid` and its descendants, and wait for its end.

    The child leads their process group.
    """
    # The group may not exist yet, if the child has not reached `setpgid`.
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue
    os.waitpid(pid, 0)


def _serve(function: Callable[[], Any], write: int) -> None:
    """Run the function in the child process and write its result to the pipe.

    The child leads a process group, so that its own children are killed with it.
    """
    os.setpgid(0, 0)
    end_with_parent()
    try:
        answer = [function(), ""]
    except MemoryError:
        answer = [None, "more memory than it may take"]
    text = json.dumps(answer).encode("utf-8", "surrogatepass")
    while text:
        text = text[os.write(write, text) :]
