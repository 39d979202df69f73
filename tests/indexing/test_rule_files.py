"""Rules are imported by family when they are looked up, and none is overlooked by that."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from hloscope.indexing import rules
from hloscope.indexing.rules.registry import OTHER_FILES, file_of
from hloscope.ir import Op
from hloscope.ops import OPS

FILES = [path for path in sorted(Path(rules.__path__[0]).glob("*.py")) if path.stem != "__init__"]
REGISTERING = {"output_to_input", "input_to_output", "reads_bodies", "without_rule"}
REGISTERING |= {"analysed_elsewhere"}


def registered(path: Path) -> Iterator[type[Op]]:
    """The classes of ops that a file says something of."""
    module = import_module(f"{rules.__name__}.{path.stem}")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in REGISTERING:
            for given in node.args:
                assert isinstance(given, ast.Name), f"{path.name}:{node.lineno}"
                yield getattr(module, given.id)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_rules_are_in_the_file_that_a_lookup_imports(path: Path) -> None:
    for cls in registered(path):
        assert file_of(cls) == path.stem, cls.__name__


@pytest.mark.slow
def test_what_is_said_of_all_ops_is_found() -> None:
    known = {cls for path in FILES for cls in registered(path)}
    assert len(known) > 90
    assert {cls.__name__ for cls in known} >= OTHER_FILES.keys()
    assert all(known.intersection(cls.__mro__) for cls in OPS.values())


ASKING = """
import sys
from hloscope.indexing import Direction, lookup
from hloscope.ops import OPS, Fft, Reverse, Scan
files = lambda: {name.rpartition(".")[2] for name in sys.modules if ".indexing.rules." in name}
before = files()
assert lookup(Direction.OUTPUT_TO_INPUT, Reverse).rule
print(*sorted(files() - before - {"dependence", "registry"}))  # which rules share
assert lookup(Direction.INPUT_TO_OUTPUT, Scan).rule
print(*sorted(files() & {"reduction", "linalg", "custom_calls"}))
"""


def test_a_lookup_imports_the_rules_of_its_family_and_no_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKING], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.split() == ["elementwise", "shape"]
    assert second.split() == ["reduction"]


THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier
from hloscope.indexing import Direction, lookup
from hloscope.ops import OPS
sys.setswitchinterval(1e-6)
start = Barrier(8)

def ask(seed):
    pairs = [(way, name) for name in OPS for way in Direction]
    Random(seed).shuffle(pairs)
    start.wait()
    found = {pair: lookup(pair[0], OPS[pair[1]]) for pair in pairs}
    assert all(found.values())
    return found

with ThreadPoolExecutor(8) as pool:
    first, *others = pool.map(ask, range(8))
assert all(found[pair] is first[pair] for found in others for pair in first)
print(len(first))
"""


def test_threads_that_ask_at_the_same_time_find_the_same_rules() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{2 * len(OPS)}\n"), done.stderr
