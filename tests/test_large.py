"""Deep, long and wide programs through every command: an answer or an own error, without frames.

More than Python has frames where a text may nest so deep; the sizes of `large.KINDS` with --full.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hloscope.api import language_of
from hloscope.cli.app import app
from hloscope.support.source import Source
from tests.large import (
    KINDS,
    call_chain,
    call_tree,
    large_sizes,
    recursion,
    tuple_tree,
    wide_tuple,
)

COMMANDS = """
    verify -
    print -
    ls - --all
    ls - --json
    infer -
    run - --random 1 --max-steps 20000
    opt - --fold
    index -
    index - --json
    index - --to-parameters
    index - --from-operand 0
    index - --linear
    index - --format svg
    index - --format html
    index - --verify
    index - --verify --linear
    index - --to-parameters --verify
    index - --all --to-parameters
    index - --all --verify --seconds 2
    index - --verify --by-execution --seconds 2
    show - *
    ls - --tree
    serialize -
""".strip().splitlines()
OF_STABLEHLO = ["print - --locations"]
SAMPLED = {
    "call chain": 1100,
    "recursion": 40,
    "reduce of chain": 1200,
    "wide tuple": 100,
    "wide result": 60,
}
"""Smaller sizes than of the others, for the time."""


QUADRATIC = {("many parameters", "index - --all --to-parameters"): 800}
"""Sizes where the answer itself grows with the square: each sum reads all parameters before it."""


def invoke(command: str, text: str) -> tuple[int, str]:
    """Exit code and output of a command; any exception is raised."""
    done = CliRunner().invoke(app, command.split(), input=text.encode())
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def own(command: str, text: str) -> str:
    """What the command ends with that is no answer and no own error; empty if that is not so.

    A question that is not understood would test nothing.
    """
    code, output = invoke(command, text)
    return output[-300:] if code in (2, 5) or not output else ""


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("kind", KINDS)
def test_commands_answer_whatever_is_large(kind: str, full: bool) -> None:
    make, size = KINDS[kind]
    if not full:
        size = SAMPLED.get(kind, size if size < 100 else 300)
    texts = {size: make(size)}
    commands = COMMANDS if full else [c for i, c in enumerate(COMMANDS) if i % 3 == len(kind) % 3]
    if language_of(Source("<stdin>", texts[size])) == "stablehlo":
        commands = [*commands, *OF_STABLEHLO]
    wrong = {}
    for command in commands:
        fewer = min(size, QUADRATIC.get((kind, command), size))
        if said := own(command, texts.setdefault(fewer, make(fewer))):
            wrong[command] = said
    assert wrong == {}


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_large_program_is_equal_to_itself(kind: str, full: bool, tmp_path: Path) -> None:
    make, size = KINDS[kind]
    if not full:
        size = SAMPLED.get(kind, size if size < 100 else 300)
    one, other = tmp_path / "one", tmp_path / "other"
    for file in (one, other):
        file.write_text(make(size))
    code, output = invoke(f"equal {one} {other} --seconds 2", "")
    if kind == "large sizes":  # XLA refuses them
        assert code == 3, output
        assert BEYOND.search(output), output
        return
    undecided = 4 if kind == "recursion" else 0  # of what calls itself nothing is known
    assert code == undecided, output


BEYOND = re.compile(r"whose (bytes|number of elements) exceeds? 9223372036854775807")
"""What is said of a type whose size is no `int64`."""
QUESTIONS = ["", "--to-parameters", "--linear"]
"""Options of `index`."""


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("make", "size"), [(call_chain, 1500), (call_tree, 30)])
def test_proofs_walk_into_calls_without_frames(
    make: Callable[[int], str], size: int, question: str
) -> None:
    before = sys.getrecursionlimit()
    code, output = invoke(f"index - {question} --verify --seconds 60", make(size))
    assert code == 0
    assert "proof: isl" in output
    assert sys.getrecursionlimit() == before


@pytest.mark.slow
def test_proofs_of_functions_that_call_themselves_are_undecided() -> None:
    code, output = invoke("index - --all --verify", recursion(3))
    assert code == 0
    assert "refuted" not in output


@pytest.mark.slow
def test_answers_do_not_repeat_long_types() -> None:
    """Each output's section has the type of the operand: it would grow with the square."""
    for command in ("index -", "index - --json"):
        small, large = (len(invoke(command, wide_tuple(n))[1]) for n in (200, 2000))
        assert large < 11 * small
        small, large = (len(invoke(command, tuple_tree(n))[1]) for n in (10, 11))
        assert large < 2.5 * small
    _, told = invoke("index - --output 1 --json", wide_tuple(1025))
    assert "1025 in all" in told
    assert "in all" not in invoke("index - --output 1 --json", wide_tuple(1024))[1]


@pytest.mark.parametrize("modes", ["--to-parameters", "--linear", "--all --linear", "--physical"])
def test_sizes_past_64_bits_are_answered_or_refused(modes: str) -> None:
    for exponent in (31, 32, 62, 63, 64, 66):
        code, output = invoke(f"index - {modes}", large_sizes(exponent))
        assert code in (0, 4), output
        assert output


FAR = {
    "sort": (
        "p = f32[{n}] parameter(0) ROOT r = f32[{n}] sort(p), dimensions={{0}}, to_apply=c",
        "c { a = f32[] parameter(0) b = f32[] parameter(1) "
        "ROOT x = pred[] compare(a, b), direction=LT }",
    ),
    "outer product": (
        "p = f32[{n}] parameter(0) q = f32[{n}] parameter(1) ROOT r = f32[{n},{n}] dot(p, q), "
        "lhs_contracting_dims={{}}, rhs_contracting_dims={{}}",
        "",
    ),
    "fft": (
        "p = c64[{n}] parameter(0) ROOT r = c64[{n}] fft(p), fft_type=FFT, fft_length={{{n}}}",
        "",
    ),
    "reduce of broadcast": (
        "p = f32[] parameter(0) b = f32[{n},{n}] broadcast(p), dimensions={{}} "
        "ROOT r = f32[] reduce(b, p), dimensions={{0,1}}, to_apply=c",
        "c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT x = f32[] add(a, b) }",
    ),
    "all-gather": (
        "p = f32[{n}] parameter(0) ROOT r = f32[{m}] all-gather(p), dimensions={{0}}, "
        "replica_groups={{{{0,1,2,3}}}}",
        "",
    ),
}
"""Programs of sizes `n`, or four times as many, and the computations they call."""
FAR_QUESTIONS = """
    index - --at 0
    index - --at 0,0
    index - --format svg
    index - --format html
    index - --all --verify
    index - --to-parameters --verify
    index - --all --from-operand 0 --verify
    tile - --search
""".strip().splitlines()


@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("exponent", [62, 63, 64, 66])
def test_what_is_asked_of_sizes_past_64_bits_has_own_answers(kind: str, exponent: int) -> None:
    entry, called = FAR[kind]
    text = f"{called}\nENTRY e {{ {entry.format(n=2**exponent, m=2 ** (exponent + 2))} }}"
    for question in FAR_QUESTIONS:
        code, output = invoke(question, text)
        assert code in (0, 2, 4) or (code == 3 and BEYOND.search(output)), (question, output)
        assert "REFUTED" not in output


@pytest.mark.parametrize(
    "attributes",
    ["source_target_pairs={{0,{n}}}", "source_target_pairs={{{n},0}}"],
)
def test_devices_past_64_bits_are_refused(attributes: str) -> None:
    text = (
        "ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] collective-permute(p), "
        + attributes.replace("{n}", str(2**63))
        + " }"
    )
    assert invoke("verify -", text)[0] == 3


def test_positions_past_64_bits_are_not_refuted() -> None:
    tile = ":T(9223372036854775807,9223372036854775807)"
    text = (
        f"ENTRY e {{ p = f32[16,256]{{1,0{tile}}} parameter(0) "
        f"ROOT r = f32[256,16]{{1,0{tile}}} transpose(p), dimensions={{1,0}} }}"
    )
    code, output = invoke("index - --linear --verify", text)
    assert code == 0
    assert "undecided: a position in memory does not fit into 64 bits" in output


def test_labels_of_a_convolution_take_no_memory() -> None:
    dims = "b, 0, 1, f"
    text = (
        "func.func @main(%a: tensor<1x4x4x1xf32>, %k: tensor<3x3x1x1xf32>) -> tensor<1x2x2x1xf32> {"
        f"\n %0 = stablehlo.convolution(%a, %k) dim_numbers = [{dims}]x[0, 1, i, o]->[{dims}], "
        "window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x2x2x1xf32>\n"
        " return %0 : tensor<1x2x2x1xf32>\n}\n"
    )
    assert invoke("ls - --all", text)[0] == 0
    generic = invoke("print - --generic", text)[1]
    pretty = "output_spatial_dimensions = [1, 2]"
    raw = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
    spelled = (
        "raw input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = "
        "[1, 2], kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, "
        "kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, "
        f"output_feature_dimension = 3, {pretty}"
    )
    assert raw in generic
    wrong = generic.replace(raw, spelled.replace(pretty, pretty.replace("2]", "99999999999]")))
    assert "99999999999" in wrong
    for command in ("ls - --all", "index - --all", "show - 0"):
        assert invoke(command, wrong)[0] in (0, 3)


def test_calls_that_are_missing_are_no_crash() -> None:
    text = (
        "func.func @main(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {\n"
        '  %0 = "stablehlo.if"(%p) ({\n    "stablehlo.return"(%a) : (tensor<2xf32>) -> ()\n  })'
        " : (tensor<i1>) -> tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
    )
    for command in ("ls - --all", "index -", "index - --verify", "verify -", "show - 0"):
        assert invoke(command, text)[0] in (0, 1, 3, 4)
