"""How questions about a program end: do verification, inference, indexing and evaluation agree?"""

from __future__ import annotations

import json
import re
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from math import inf
from random import Random
from typing import Any, Final

import hloscope
from hloscope.api import Given, InstructionView, Program, arguments_of, rows_of_hlo, rows_of_tree
from hloscope.errors import HloscopeError, ParseError, VerifyError
from hloscope.interpreter.values import EvaluationError
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Type
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.lexer import is_mlir
from hloscope.mlir.text.parser import parse_mlir
from hloscope.ops.control import While
from hloscope.ops.inference import leaves
from hloscope.proof import Prover
from hloscope.support.source import Source

_UNTYPED: Final = ("torch_index_select", "einsum", "unary_einsum", "custom_call")
"""Ops whose declared type upstream's verifier does not compare with their operands."""
_PARTLY_TYPED: Final = ("all_gather", "reduce_scatter", "broadcast_select", "scan")
"""StableHLO ops whose groups, or element types, upstream's verifier does not compare with it."""
_PARTLY_TYPED_HLO: Final = ("all_gather", "bitcast")
"""The same for HLO: of these XLA takes the size of the result as it is declared."""

_BLAMES: Final = ("is not valid", "cannot be computed of", "the program is wrong")
"""What evaluation says of programs that should not have been accepted."""
_MOST_BYTES: Final = 1 << 26
"""Of one value of a program that is run."""


class Disagreement(Exception):  # noqa: N818  (a finding, not an error of ours)
    """Two answers about a program contradict each other."""


def disagreements(text: str, seed: int = 0, *, soon: float = inf) -> list[str]:
    """What is wrong with the answers about a program; nothing if all is as it should be.

    So is taking more than `soon` seconds of the processor.
    """
    begin = time.process_time()
    found = []
    try:
        wrong = hloscope.verify(text)
        questions = _questions(text, bool(wrong), Random(seed))
    except Exception as error:
        return [f"verify: {_said(error)}"]
    for name, ask in questions:
        try:
            ask()
        except VerifyError as error:
            if not wrong:
                found.append(f"{name} refuses what verify accepts: {error.message}")
        except HloscopeError as error:
            if not isinstance(error.message, str) or not error.message:
                found.append(f"{name}: an error without words")
        except Exception as error:
            found.append(f"{name}: {_said(error)}")
    taken = time.process_time() - begin
    return [*found, f"{taken:.1f} s"] if taken > soon else found


def _said(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/hloscope/" in f.filename] or list(frames)
    place = f"{ours[-1].filename.rpartition('/hloscope/')[2]}:{ours[-1].lineno}"
    return f"{type(error).__name__} at {place}: {error}"


def _questions(text: str, is_wrong: bool, c: Random) -> list[tuple[str, Callable[[], Any]]]:
    """Everything that is asked about a program, by name."""
    try:
        program = hloscope.read(text)
        for computation in program.module:
            computation.root  # noqa: B018  (bodies are read late)
    except (ParseError, VerifyError):
        return [] if is_wrong else [("read", lambda: hloscope.read(text).entry.root)]
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("print", lambda: _print(text, program, is_wrong)),
        ("infer", lambda: _infer(text)),
    ]
    views = [view for view in program.entry if view.ir.operands]
    for view in views:
        asked += [(f"index {view.name} {how}", ask) for how, ask in _index(view, is_wrong, c)]
    if not is_wrong:
        asked.append(("run", lambda: _run(program)))
        asked.append(("fold", lambda: _print("", program.fold(), is_wrong)))
    return asked


def _print(text: str, program: Program, is_wrong: bool) -> None:
    printed = program.text()
    if not is_wrong and _prints_other_types(program):
        return
    again = hloscope.verify(printed)
    if bool(again) != is_wrong:
        raise Disagreement(f"{again or 'fine'}: {printed}")


def _prints_other_types(program: Program) -> bool:
    """Has a `while` parameters or results of other types than its operands?

    Its text in StableHLO names the operands' types alone, and MLIR does not read what it prints of
    such a program; a test asks MLIR.
    """
    return is_mlir(program.text()) and any(
        isinstance(ins.op, While) and len({*map(tuple, _loop_types(ins))}) > 1
        for computation in program.module
        for ins in computation
    )


def _loop_types(ins: Instruction) -> Iterator[Sequence[Type]]:
    yield [o.type for o in ins.operands]
    yield leaves(ins.type)
    yield from [callee.arguments for callee in ins.calls]


def _infer(text: str) -> None:
    if is_mlir(text):
        rows = rows_of_tree(parse_mlir(text, dialects=DIALECTS))
    else:
        rows = rows_of_hlo(Source("<string>", text))
    for row in rows:
        if row.error is not None:
            raise row.error


def _index(
    view: InstructionView, is_wrong: bool, c: Random
) -> Iterator[tuple[str, Callable[[], Any]]]:
    order = c.choice(({}, {}, {"physical": True}, {"linear": True}))
    operand = c.randrange(len(view.ir.operands))
    ways: dict[str, Callable[[], Any]] = {
        f"{order}": lambda: view.indexing(None, **order),
        f"--from-operand {operand} {order}": lambda: view.indexing_from(operand, None, **order),
        f"--to-parameters {order}": lambda: view.to_parameters(None, **order),
    }
    shown: dict[str, Callable[[Any], Any]] = {
        "text": str,
        "json": lambda found: json.dumps(found.to_json()),
        "svg": lambda found: found.to_svg(),
        "html": lambda found: found.to_html(),
        "latex": lambda found: found.to_latex(),
        "print_indexing": lambda found: found.to_print_indexing(),
        "verify": _proved,
    }
    for way, ask in ways.items():
        how = c.choice(list(shown))
        yield f"{way} {how}", lambda ask=ask, how=how: shown[how](ask())
    yield "grouped", lambda: [view.grouped(k) for k in range(len(view.outputs))]


def _proved(found: Any) -> None:
    for check in found.prove(prover=Prover(budget=200_000)).checks:
        if check.is_refuted:
            raise Disagreement(f"the maps are refuted: {check.disagreement}")


def _run(program: Program) -> None:
    entry = program.module.entry
    try:
        arguments = arguments_of(entry, Given(random=1), max_bytes=_MOST_BYTES)[0]
    except EvaluationError:
        return  # there are no random values of such a type
    try:
        hloscope.evaluate_grid(
            program, arguments, replicas=2, max_steps=10_000, max_bytes=_MOST_BYTES
        )
    except EvaluationError as error:
        text = program.text()
        open_ops = (*_UNTYPED, *(_PARTLY_TYPED if is_mlir(text) else _PARTLY_TYPED_HLO))
        ops = [
            getattr(ins.op, "wrapped", None) or ins.op for body in program.module for ins in body
        ]
        # Sizes that are known only now, or that upstream's verifier does not look at.
        is_open = any(op.reads_values or op.name.removeprefix("chlo.") in open_ops for op in ops)
        is_open = is_open or re.search(r"<=|\?", text) is not None
        if not is_open and any(blame in error.message for blame in _BLAMES):
            raise Disagreement(error.message) from None
