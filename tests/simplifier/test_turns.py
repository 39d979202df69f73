"""The benchmark in turns: every round asks all, and each problem has its best and its median."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import simplify_turns
from benchmarks.simplify import FRESH, file_of
from benchmarks.simplify_turns import OURS, Solver, Times, in_turn


def test_times_are_the_best_and_the_median_of_all_rounds() -> None:
    asked: list[str] = []

    class Two(Solver):
        def __init__(self, name: str, turns: list[list[list[float]]]) -> None:
            self.name, self.turns = name, iter(turns)

        def turn(self) -> list[list[float]]:
            asked.append(self.name)
            return next(self.turns)

        def close(self) -> None:
            asked.append("end")

    a = Two("a", [[[3.0, 1.0], [5.0, 5.0]], [[2.0, 9.0], [4.0, 6.0]]])
    b = Two("b", [[[1.0], [1.0]], [[3.0], [1.0]]])
    assert in_turn([a, b], 2) == [Times([1.0, 4.0], [2.5, 5.0]), Times([1.0, 1.0], [2.0, 1.0])]
    assert asked == ["a", "b", "b", "a", "end", "end"]


def test_a_solver_answers_each_turn_with_all_problems(tmp_path: Path) -> None:
    file = file_of(f"{FRESH}:3", tmp_path)
    problems = json.loads(file.read_text())["problems"][::64]
    file.write_text(json.dumps({"problems": problems}))
    solver = Solver(OURS, file, Path(simplify_turns.__file__).parents[1], tmp_path)
    try:
        for _ in range(2):
            times = solver.turn()
            assert [len(t) for t in times] == [simplify_turns.REPETITIONS - 1] * len(problems)
            assert min(map(min, times)) > 0
    finally:
        solver.close()
