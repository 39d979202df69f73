"""Command lines of upstream's tool: `stablehlo-opt FILE --stablehlo-refine-shapes …`.

Source: MLIR's `MlirOptMain.cpp`, `PassPipelineCLParser`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from hloscope.passes.pipeline import PipelineError, Step, parse_pipeline, steps_of
from hloscope.passes.registry import is_pass

_SWITCHES: Final = {
    "split-input-file": "split",
    "verify-diagnostics": "verify_diagnostics",
    "allow-unregistered-dialect": "allow_unregistered",
    "mlir-print-debuginfo": "locations",
    "mlir-print-op-generic": "generic",
    "verify-each": "verify_each",
    "mlir-print-ir-after-all": "print_after_all",
    "mlir-pass-statistics": "statistics",
}
"""Options that are on or off, with the field of `CommandLine` that each sets."""

_WITHOUT_EFFECT: Final = frozenset(
    [
        "mlir-disable-threading",
        "mlir-print-local-scope",
        "mlir-print-op-on-diagnostic",
        "mlir-print-stacktrace-on-diagnostic",
        "no-implicit-module",
    ]
)


_WITH_VALUE: Final = frozenset(["pass-pipeline", "mlir-print-ir-after"])


class CommandLine(Struct):
    """A parsed command line of `stablehlo-opt`.

    Attributes:
        steps: The passes, in order.
        files: Names of the programs' files.
        split: Split each file into several programs?
        verify_diagnostics: Compare errors with those that comments expect?
        allow_unregistered: Accept ops of dialects without a definition?
        locations: Print locations.
        generic: Print all ops in generic form.
        verify_each: Verify after each pass.
        print_after_all: Print the module after each pass.
        print_after: Names of passes after which the module is printed.
        statistics: Print the number of applications by pattern.
    """

    steps: list[Step] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    split: bool = False
    verify_diagnostics: bool = False
    allow_unregistered: bool = False
    locations: bool = False
    generic: bool = False
    verify_each: bool = True
    print_after_all: bool = False
    print_after: list[str] = field(default_factory=list)
    statistics: bool = False


def is_upstreams(word: str) -> bool:
    """Is it an option of upstream's tool, or a pass name as an option?

    >>> is_upstreams("-split-input-file"), is_upstreams("--cse=x"), is_upstreams("--no-such-thing")
    (True, True, False)
    """
    if not word.startswith("-"):
        return False
    name = word.lstrip("-").partition("=")[0]
    return name in _SWITCHES or name in _WITHOUT_EFFECT or name in _WITH_VALUE or is_pass(name)


def parse_command_line(words: Sequence[str] | str) -> CommandLine:
    """Parse the words after `stablehlo-opt`.

    Raises:
        UnknownNameError: No pass has this name, or it does not have such an option.

    >>> line = parse_command_line("%s --stablehlo-refine-arguments='types=tensor<4xf32>'")
    >>> line.files, [step.name for step in line.steps]
    (['%s'], ['stablehlo-refine-arguments'])
    """
    line = CommandLine()
    for word in _split(words) if isinstance(words, str) else words:
        if not word.startswith("-") or word == "-":
            # Upstream accepts options with one dash or two.
            line.files.append(word)
            continue
        name, has_value, value = word.lstrip("-").partition("=")
        if name in _SWITCHES:
            setattr(line, _SWITCHES[name], _is_on(name, value) if has_value else True)
        elif name == "pass-pipeline":
            line.steps += parse_pipeline(value)
        elif name == "mlir-print-ir-after":
            line.print_after += value.split(",")
        elif name not in _WITHOUT_EFFECT:
            line.steps += steps_of(name, value)
    return line


def _is_on(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false", "1", "0"):
        raise PipelineError(f"`{name}` is `{value}`, needs true or false")
    return value.lower() in ("true", "1")


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise PipelineError(f"`{text[:60]}`: {error}") from None
