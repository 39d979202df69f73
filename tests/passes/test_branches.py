"""`canonicalize` of functions of several blocks; what is expected is what MLIR prints."""

from __future__ import annotations

from collections import Counter

import pytest

from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import Rewriter, find_pass
from hloscope.verifier import verify_mlir

CASES = [
    (
        """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %t = arith.constant true
  %b = stablehlo.abs %a : tensor<2xf32>
  cf.cond_br %t, ^bb1(%b : tensor<2xf32>), ^bb2(%a, %b : tensor<2xf32>, tensor<2xf32>)
^bb1(%x: tensor<2xf32>):
  %c = stablehlo.add %x, %a : tensor<2xf32>
  return %c : tensor<2xf32>
^bb2(%y: tensor<2xf32>, %z: tensor<2xf32>):
  %d = stablehlo.multiply %y, %z : tensor<2xf32>
  return %d : tensor<2xf32>
}""",
        """module {
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.abs %arg0 : tensor<2xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}""",
    ),
    (
        """func.func @main(%a: tensor<2xf32>, %p: i1) -> tensor<2xf32> {
  cf.cond_br %p, ^bb1(%a : tensor<2xf32>), ^bb1(%a : tensor<2xf32>)
^bb1(%x: tensor<2xf32>):
  cf.br ^bb2(%x : tensor<2xf32>)
^bb2(%y: tensor<2xf32>):
  %d = stablehlo.multiply %y, %x : tensor<2xf32>
  return %d : tensor<2xf32>
}""",
        """module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: i1) -> tensor<2xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}""",
    ),
    (
        """func.func @main(%a: tensor<2xf32>, %p: i1) -> tensor<2xf32> {
  %f = arith.constant false
  cf.cond_br %f, ^bb3, ^bb1(%a : tensor<2xf32>)
^bb1(%x: tensor<2xf32>):
  %n = stablehlo.negate %x : tensor<2xf32>
  cf.cond_br %p, ^bb1(%n : tensor<2xf32>), ^bb2
^bb2:
  return %n : tensor<2xf32>
^bb3:
  cf.br ^bb4
^bb4:
  cf.br ^bb3
}""",
        """module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: i1) -> tensor<2xf32> {
    cf.br ^bb1(%arg0 : tensor<2xf32>)
  ^bb1(%0: tensor<2xf32>):  // 2 preds: ^bb0, ^bb1
    %1 = stablehlo.negate %0 : tensor<2xf32>
    cf.cond_br %arg1, ^bb1(%1 : tensor<2xf32>), ^bb2
  ^bb2:  // pred: ^bb1
    return %1 : tensor<2xf32>
  }
}""",
    ),
    (
        """func.func @main(%a: tensor<2xf32>, %p: i1) -> tensor<2xf32> {
  %t = arith.constant true
  cf.assert %t, "fine"
  cf.assert %p, "perhaps"
  cf.br ^bb1
^bb1:
  %q = arith.andi %t, %t : i1
  cf.cond_br %q, ^bb2, ^bb1
^bb2:
  cf.cond_br %p, ^bb3(%a : tensor<2xf32>), ^bb3(%a : tensor<2xf32>)
^bb3(%x: tensor<2xf32>):
  return %x : tensor<2xf32>
}""",
        """module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: i1) -> tensor<2xf32> {
    cf.assert %arg1, "perhaps"
    return %arg0 : tensor<2xf32>
  }
}""",
    ),
]
IDS = ["constant condition", "equal ways", "unreachable circle and a loop", "assertions and chain"]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=IDS)
def test_known_branches_are_taken_and_blocks_joined(text: str, expected: str) -> None:
    after, run = find_pass("canonicalize").apply(parse_mlir(text, dialects=DIALECTS))
    assert print_mlir(after, dialects=DIALECTS).strip() == expected
    assert not verify_mlir(after)
    assert run.fired
    again, run = find_pass("canonicalize").apply(after)
    assert not run.fired
    assert print_mlir(again, dialects=DIALECTS).strip() == expected


def test_what_is_not_known_stays() -> None:
    text = """func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>, %p: i1) -> tensor<2xf32> {
      cf.cond_br %p, ^bb1(%a : tensor<2xf32>), ^bb1(%b : tensor<2xf32>)
    ^bb1(%x: tensor<2xf32>):
      return %x : tensor<2xf32>
    }"""
    after, run = find_pass("canonicalize").apply(parse_mlir(text, dialects=DIALECTS))
    assert not run.fired
    assert "cf.cond_br" in print_mlir(after, dialects=DIALECTS)


def test_in_a_chain_of_blocks_everything_moves_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count, type = 300, "tensor<2xf32>"
    blocks = [
        f"^bb{k}:\n%v{k} = stablehlo.negate %v{k - 1} : {type}\ncf.br ^bb{k + 1}"
        for k in range(1, count)
    ]
    text = "\n".join([
        f"func.func @main(%v0: {type}) -> {type} {{", "cf.br ^bb1", *blocks,
        f"^bb{count}:\nreturn %v{count - 1} : {type}", "}",
    ])  # fmt: skip
    moved: Counter[str] = Counter()
    move = Rewriter.move

    def counted(self: Rewriter, operation: Operation, *, before: Operation) -> None:
        moved[operation.name] += 1
        move(self, operation, before=before)

    monkeypatch.setattr(Rewriter, "move", counted)
    after, run = find_pass("canonicalize").apply(parse_mlir(text, dialects=DIALECTS))
    assert run.fired["merge_blocks"] == count
    assert moved.total() <= 2 * count
    (function,) = after.inside
    assert len(function.regions[0].blocks) == 1
