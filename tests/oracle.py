"""XLA itself as an independent opinion: jaxlib in a child process, since XLA aborts on some input.

What runs there is `oracle/*.py` of the conformance data.  Tests that need it skip with a reason
where jaxlib cannot be imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Self

import pytest

from tests.conftest import SHARED

needs_jaxlib = pytest.mark.skipif(
    find_spec("jaxlib") is None or not (SHARED / "oracle").is_dir(),
    reason="needs jaxlib (the `oracle` extra) and the conformance data beside the checkout",
)

_CHILD = """
import json, os, sys, traceback
sys.path.insert(0, sys.argv[1])
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import brute, numpy as np

def matrices(text, values, leaves):
    dep = brute.Dep(text, [np.array(v) for v in values], kernel="loose")
    every = lambda leaf: [dep.matrix(leaf, k).astype(int).tolist() for k in range(len(dep.outs))]
    return [every(leaf) for leaf in leaves]

for line in sys.stdin:
    name, arguments = json.loads(line)
    try:
        reply = {"value": globals()[name](**arguments)}
    except Exception:
        reply = {"error": traceback.format_exc()[-2000:]}
    print(json.dumps(reply), file=replies, flush=True)
"""


class OracleError(Exception):
    """XLA refuses the input, or dies of it."""


class Child:
    """A process that answers lines of JSON; started when first asked, and again after it died."""

    def __init__(self, *arguments: str) -> None:
        """Take the command."""
        self._arguments = arguments
        self._child: subprocess.Popen[str] | None = None
        self.status: int | None = None

    def ask(self, question: Any, is_answer: Callable[[str], bool] = bool) -> str | None:
        """The line that it answers; `None` where it dies, `status` says of what."""
        if self._child is None:
            self._child = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            if is_answer(line.strip()):
                return line.strip()
        self.close()
        return None

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self.status = self._child.returncode
            self._child = None


def answers_of_child(arguments: Sequence[str], questions: Sequence[Any]) -> Iterator[Any]:
    """The answers of a Python process to lines of JSON; `None` to one that it dies of."""
    waiting = list(questions)
    while waiting:
        done = subprocess.run(
            [sys.executable, *arguments],
            input="".join(json.dumps(question) + "\n" for question in waiting),
            capture_output=True,
            text=True,
            check=False,
        )
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        if not replies and done.returncode == 1:
            raise AssertionError(done.stderr[-2000:])
        yield from replies
        waiting = waiting[len(replies) :]
        if waiting:
            yield None
            waiting = waiting[1:]


class Oracle:
    """A child process that runs XLA."""

    def __init__(self) -> None:
        self._child = Child(sys.executable, "-c", _CHILD, str(SHARED / "oracle"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close()

    def ask(self, function: str, **arguments: Any) -> Any:
        """The value of a function of the child.

        Raises:
            OracleError: The function failed, or the process died.
        """
        line = self._child.ask([function, arguments])
        if line is None:
            raise OracleError(f"the process died with status {self._child.status}")
        reply = json.loads(line)
        if "error" in reply:
            raise OracleError(reply["error"])
        return reply["value"]

    def matrices(self, text: str, values: list[Any], leaves: list[int]) -> list[list[Any]]:
        """For some parameters and every output: `[input element, output element]`, 1 if read.

        Found by executing the program with marks on one element after the other.
        """
        matrices: list[list[Any]] = self.ask("matrices", text=text, values=values, leaves=leaves)
        return matrices
