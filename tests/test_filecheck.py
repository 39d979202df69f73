"""The FileCheck of the tests does what LLVM's does."""

from __future__ import annotations

import pytest

from tests.filecheck import MismatchError, check, directives

OUTPUT = """\
func @f(%arg0: i32)
  %0 = add %arg0, %arg0
  %1 = mul   %0, %arg0

func @g()
  return
"""
GOOD = [
    "CHECK: add\nCHECK: mul",
    "CHECK-LABEL: func @f\nCHECK-NEXT: add\nCHECK-NEXT: %1 = mul %0, %arg0",
    "CHECK: func @f\nCHECK-SAME: i32",
    "CHECK: [[X:%[0-9]+]] = add\nCHECK: mul [[X]]",
    "CHECK: %[[#N:]] = mul",
    "CHECK: {{[[:digit:]]}} = mul {{.*}}, %arg0",
    "CHECK-DAG: mul\nCHECK-DAG: add\nCHECK: func @g",
    "CHECK: add\nCHECK-NOT: sub\nCHECK: mul",
    "CHECK-COUNT-2: %arg0{{,|$}}",
    "CHECK{LITERAL}: (%arg0: i32)",
    "OTHER: nothing",
]
BAD = [
    "CHECK: sub",
    "CHECK: mul\nCHECK: add",
    "CHECK-LABEL: func @f\nCHECK: return\nCHECK-LABEL: func @g",
    "CHECK: func @f\nCHECK-NEXT: mul",
    "CHECK: func @f\nCHECK-SAME: add",
    "CHECK: [[X:%[0-9]+]] = mul\nCHECK: return [[X]]",
    "CHECK: func @f\nCHECK-NOT: add\nCHECK: mul",
    "CHECK-DAG: add\nCHECK-DAG: add",
    "CHECK: [[UNKNOWN]]",
    "CHECK-COUNT-7: %arg0",
]


@pytest.mark.parametrize("source", GOOD)
def test_an_output_as_wanted_passes(source: str) -> None:
    check(OUTPUT, directives(source))


@pytest.mark.parametrize("source", BAD)
def test_another_output_does_not(source: str) -> None:
    with pytest.raises(MismatchError):
        check(OUTPUT, directives(source))
