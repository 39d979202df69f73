"""Equal expressions are one object, whatever threads build and drop them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from hloscope.affine import Dim, Interval, Range
from hloscope.indexing import Variable

THREADS, ROUNDS, EACH = 4, 60, 60


@pytest.fixture(autouse=True)
def tiny_switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def expressions(round: int) -> list[object]:
    made: list[object] = []
    for j in range(EACH):
        made.append((Dim(round % 5) * (j % 7 + 2) + Range(j % 3)) // 5 % 3)
        if j % 2:
            made.pop(0)  # the last one of its kind dies while another thread makes it
    return made


def variables(round: int) -> list[object]:
    made: list[object] = []
    for j in range(EACH):
        made.append(Variable(Interval(0, 1_000_000 + j % 7), f"tile{round % 5}"))
        if j % 2:
            made.pop(0)
    return made


@pytest.mark.parametrize("build", [expressions, variables])
def test_equal_ones_are_one_object(build: Callable[[int], list[object]]) -> None:
    together = threading.Barrier(THREADS)
    built: list[list[object]] = [[] for _ in range(THREADS)]
    different: list[tuple[object, object]] = []
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round in range(ROUNDS):
                together.wait(60)
                built[number] = build(round)
                together.wait(60)
                if number == 0:
                    for other in built[1:]:
                        pairs = zip(built[0], other, strict=True)
                        different.extend((a, b) for a, b in pairs if a is not b)
                together.wait(60)
                built[number] = []
        except BaseException as error:
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert not different
