"""`infer` speaks of HLO's ops by HLO's names."""

from __future__ import annotations

from typing import Any

import pytest

TEXT = """\
ENTRY e { p = f32[4,5] parameter(0)
  d = f32[4,6] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1,0}
  b = f32[4,5,2] broadcast(p), dimensions={0,1}
  x = f32[4,5] exponential-minus-one(p)
  ROOT s = f32[4,5] dynamic-slice(p), dynamic_slice_sizes={4,5} }
"""


def test_ops_have_the_names_of_their_language(run: Any, ask: Any) -> None:
    result = run("infer", "-", stdin=TEXT)
    names = [line.split()[2] for line in result.stdout.splitlines()[1:]]
    assert names == ["dot", "broadcast", "exponential-minus-one", "dynamic-slice"]
    assert "dynamic_slice" not in result.stderr.replace("[dynamic_slice_c", "").replace(
        "dynamic_slice_sizes", ""
    )
    text = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.log_plus_one %x : tensor<2xf32>\n  return %0 : tensor<2xf32> }"  # noqa: E501
    ops = ask("infer", "-", "--json", stdin=text)["ops"]
    assert [op["op"] for op in ops] == ["stablehlo.log_plus_one"]


@pytest.mark.slow
@pytest.mark.timeout(60)  # lines counted from the start for each message would take minutes
def test_a_long_program_is_inferred_in_linear_time(run: Any) -> None:
    body = "\n".join(f"  x{k + 1} = f32[4] negate(x{k})" for k in range(30_000))
    done = run("infer", "-", stdin=f"ENTRY e {{\n  x0 = f32[4] parameter(0)\n{body}\n}}")
    assert done.exit_code == 0
