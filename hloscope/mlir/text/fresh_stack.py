"""Call a function on a stack of its own, so that nested input does not exhaust the caller's.

Python counts the depth of calls for each thread.  The limit of the depth belongs to the process and
is not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


class StoppedError(BaseException):
    """Raised in the other thread if the caller was interrupted while it waited."""


class FreshStack:
    """Runs calls in threads of their own, one at a time, while the caller waits.

    An exception of the call is raised in the caller. If the caller is interrupted while it waits
    (Ctrl-C), the other thread stops at the next `check`.
    """

    __slots__ = ("_is_stopped",)

    def __init__(self) -> None:
        self._is_stopped = False

    def check(self) -> None:
        """Raise a `StoppedError` if the caller was interrupted; called from the other thread."""
        if self._is_stopped:
            raise StoppedError

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of `function`, called in a new thread with the caller's context."""
        returned: list[T] = []
        raised: list[BaseException] = []
        context = copy_context()

        def run() -> None:
            try:
                returned.append(context.run(function))
            except BaseException as error:
                raised.append(error)

        thread = Thread(target=run, name="hloscope-nested", daemon=True)
        thread.start()
        try:
            thread.join()
        except BaseException:
            self._is_stopped = True
            thread.join()
            raise
        if raised:
            try:
                raise raised[0]
            finally:
                raised.clear()  # the traceback's frames refer to this list
        return returned[0]
