"""Assertions about compiled programs, for test suites.

Each takes a program, its text, a path, a `Lowered` or `Compiled` object of JAX, or a function with
its arguments, which JAX compiles first.

    from hloscope.testing import assert_collectives, assert_no_copies

    def test_step():
        assert_no_copies(step, params, batch, max_bytes="1 MiB")
        assert_collectives(step, params, batch, all_reduce=1)

A failed assertion shows the worst finding as text: the transfers of the kernel, or the neighbours
of the instruction.  With `pytest --hloscope-pages DIR` the whole program is written to a page.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from hloscope.api import Checked, Program, check_one, read
from hloscope.display import line_printer, listed_instructions, neighbourhood, neighbourhood_text
from hloscope.errors import HloscopeError
from hloscope.support.lazy import lazy

MOST_LINES: Final = 40
"""Maximum number of lines about an instruction and its neighbours in a failure's message."""


def program_of(subject: Any, *arguments: Any) -> Program:
    """Return the given program, or the program that JAX compiles for a function and arguments.

    Args:
        subject: A program, text, path, bytes, `Lowered`, `Compiled`, or a function.
        arguments: Arguments of the function: arrays or `jax.ShapeDtypeStruct`.

    Raises:
        TypeError: There are arguments, but the subject is not a function.
    """
    if isinstance(subject, Program):
        found = subject
    elif hasattr(subject, "as_text") or not callable(subject):
        found = read(subject)
    else:
        return read(_compiled(subject, arguments))
    if arguments:
        raise TypeError(f"arguments are for a function, not for a {type(subject).__name__}")
    return found


def _compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Compile a function with JAX for these arguments; return the compiled object."""
    if not hasattr(function, "lower"):
        function = lazy("jax").jit(function)
    return function.lower(*arguments).compile()  # type: ignore[attr-defined]


class CheckFailedError(AssertionError):
    """A program breaks a rule; the message has the findings, and a picture of the worst one.

    Attributes:
        program: The program.
        checked: The findings.
    """

    def __init__(self, program: Program, checked: Checked, picture: str = "") -> None:
        """Create the error; `picture` is the text that shows the worst finding."""
        super().__init__(f"{checked}\n\n{picture}" if picture else str(checked))
        self.program = program
        self.checked = checked

    def __reduce__(self) -> tuple[type[AssertionError], tuple[str]]:
        # A program cannot be sent to another process, so only the message is.
        return AssertionError, (str(self),)


def _require(program: Program, rule: str, **values: Any) -> None:
    __tracebackhide__ = True  # pytest's traceback then ends at the assertion
    found = check_one(program, rule, **values)
    if not found:
        raise CheckFailedError(program, found, _picture(program, found, **values))


def _picture(program: Program, checked: Checked, device: str = "h100", **_: Any) -> str:
    """Return the worst finding as text: transfers of its kernel, or its instruction's neighbours.

    The text is empty if no finding has an instruction. `device` is the name of the GPU.
    """
    placed = [one for one in checked.report.findings if one.instruction]
    worst = max(placed, key=lambda one: one.value, default=None)
    if worst is None:
        return ""
    try:
        view = program[f"{worst.computation}/{worst.instruction}"]
    except HloscopeError:
        return ""  # the name is ambiguous in a query, or is read as a pattern
    if worst.rule == "utilisation":
        return str(view.coalescing(device=device))
    place = view.computation.ir, view.ir
    (found,) = listed_instructions(program.module, [place], line_printer("brief"))
    lines = [*islice(neighbourhood_text(found, neighbourhood(found, 1), False), MOST_LINES + 1)]
    return "\n".join([*lines[:MOST_LINES], "…"] if len(lines) > MOST_LINES else lines)


def picture_of(failed: CheckFailedError) -> tuple[str, str]:
    """Return the contents of a file about a failed check, and its suffix.

    The file is the explorer's page, or the findings and the program as text.

    Returns:
        The contents, and the suffix of the file: `.html` or `.txt`.
    """
    explore = getattr(failed.program, "explore", None)
    if explore is not None:
        return explore().to_html(), ".html"
    return f"{failed.checked}\n\n{failed.program.text()}", ".txt"


def assert_no_copies(subject: Any, *arguments: Any, max_bytes: int | str = 0) -> None:
    """Assert that no copy or transpose writes more than `max_bytes`.

    `subject` is a program, or a function with its `arguments`.

    >>> assert_no_copies("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")

    Raises:
        AssertionError: A copy or transpose writes more; the message names each with its source
            line.
    """
    __tracebackhide__ = True
    _require(program_of(subject, *arguments), "copies", max_bytes=max_bytes)


def assert_collectives(subject: Any, *arguments: Any, **counts: int) -> None:
    """Assert the exact number of collectives of each kind; kinds without a number have none.

    Args:
        subject: A program, or a function.
        arguments: Arguments of the function.
        counts: Numbers such as `all_reduce=2`, and parameters of the rule such as `max_bytes`.

    >>> assert_collectives("ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }")

    Raises:
        AssertionError: A kind has more or fewer collectives.
    """
    __tracebackhide__ = True
    _require(program_of(subject, *arguments), "collectives", **counts)


def assert_coalesced(
    subject: Any, *arguments: Any, min_share: float = 0.5, device: str = "h100"
) -> None:
    """Assert that every access of a fusion has at least a share of the ideal efficiency.

    Args:
        subject: A program, or a function.
        arguments: Arguments of the function.
        min_share: The least share, 1 for the ideal.
        device: Name of the GPU.

    Raises:
        AssertionError: An access has less; the message names the term of the index that causes it.
    """
    __tracebackhide__ = True
    program = program_of(subject, *arguments)
    _require(program, "utilisation", min_share=min_share, device=device)


def assert_fused(subject: Any, *arguments: Any, op_name: str, opcode: str = "*") -> None:
    """Assert that all instructions with an op name are inside fusions.

    Args:
        subject: A program, or a function.
        arguments: Arguments of the function.
        op_name: A part of the framework's op name, or a pattern with `*`.
        opcode: Pattern of the opcodes that are checked.

    Raises:
        AssertionError: An instruction is outside of fusions.
    """
    __tracebackhide__ = True
    program = program_of(subject, *arguments)
    _require(program, "fused", op_name=op_name, opcode=opcode)


def assert_checked(subject: Any, *arguments: Any, rule: str, **values: Any) -> None:
    """Assert that a rule of `hloscope check` has no findings.

    `subject` is a program, or a function with its `arguments`; `values` are the rule's parameters.

    >>> text = "ENTRY e { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }"
    >>> assert_checked(text, rule="types", absent=["f64"])

    Raises:
        AssertionError: The rule has a finding.
    """
    __tracebackhide__ = True
    _require(program_of(subject, *arguments), rule, **values)
