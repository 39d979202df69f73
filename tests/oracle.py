"""XLA itself as an independent opinion: jaxlib in a child process, since XLA aborts on some input.

What runs there is `oracle/*.py` of the conformance data.  Tests that need it skip with a reason
where jaxlib cannot be imported.
"""

from __future__ import annotations

import json
import subprocess
import sys
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


class Oracle:
    """A child process that runs XLA; started when first asked, and again after it died."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                assert pipe is not None
                pipe.close()

    def ask(self, function: str, **arguments: Any) -> Any:
        """The value of a function of the child.

        Raises:
            OracleError: The function failed, or the process died.
        """
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, str(SHARED / "oracle")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([function, arguments]) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            self.__exit__()
            self._child = None
            raise OracleError(f"the process died with status {child.returncode}")
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
