"""Options that several commands have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click

from hloscope.api import ALL_DEVICES, DEVICES, GROUPINGS, MEMORY_GROUPINGS, check_grouping
from hloscope.cli.printing import complete_files, json_option
from hloscope.errors import UnknownNameError

F = TypeVar("F", bound=Callable[..., Any])

PICTURES: Final = ("text", "json", "svg", "html")


def device_option(about: str, known: tuple[str, ...] = DEVICES) -> Callable[[F], F]:
    """Add `--device NAME`: a GPU of the table, or a file `NAME.toml` that describes one.

    Args:
        about: Help text before the list of names.
        known: Names of the devices in the help and in completions.
    """
    return _device(about, known, default="h100", show_default=True)


def any_device_option(about: str) -> Callable[[F], F]:
    """Add `--device NAME`: any device of the table, or a file.

    `about` is the help text before the list of names.
    """
    return _device(about, ALL_DEVICES)


def _device(about: str, known: Iterable[str], **settings: Any) -> Callable[[F], F]:
    return click.option(
        "--device",
        metavar="NAME",
        help=f"{about}: {', '.join(known)}; or a file NAME.toml.",
        shell_complete=lambda _, __, begun: [name for name in known if name.startswith(begun)],
        **settings,
    )


def as_if_option(function: F) -> F:
    """Add `--as-if GPU` to a command: the GPU whose thread maps are used."""
    return click.option(
        "--as-if",
        metavar="GPU",
        help="Use the thread maps of this GPU, whatever FILE was compiled for.",
    )(function)


def top_option(about: str, default: int = 20) -> Callable[[F], F]:
    """Add `--top N`, the number of rows; `about` is its help text."""
    return click.option(
        "--top",
        metavar="N",
        type=click.IntRange(1, 10_000),
        default=default,
        show_default=True,
        help=about,
    )


def format_option(about: str = "Output format.") -> Callable[[Callable[..., None]], Any]:
    """Add `--format` and `--json`, passed to the function as `form`; `about` is a help text."""

    def decorated(function: Callable[..., None]) -> Any:
        @click.option(
            "--format",
            "form",
            type=click.Choice(PICTURES),
            default="text",
            show_default=True,
            help=about,
        )
        @json_option
        @wraps(function)
        def with_form(*, form: str, as_json: bool, **given: Any) -> None:
            function(form="json" if as_json else form, **given)

        return with_form

    return decorated


def file_option(*names: str, about: str, multiple: bool = False) -> Callable[[F], F]:
    """Add an option whose value is the name of a file; the shell completes it.

    Args:
        names: Spellings of the option, such as `-o` and `--output`.
        about: Help text.
        multiple: May the option be repeated?
    """
    return click.option(
        *names,
        metavar="FILE",
        type=_FileName(),
        shell_complete=complete_files,
        help=about,
        multiple=multiple,
    )


def _by(groupings: Sequence[str], about: str) -> Callable[[F], F]:
    """Add `--by GROUPING`: one of `groupings`, or `scope:N`.

    `about` is the help text after "Group rows by".
    """

    def grouping(_: click.Context, __: click.Parameter, value: str) -> str:
        try:
            check_grouping(value, groupings)
        except UnknownNameError as error:
            raise click.BadParameter(error.message) from error
        return value

    return click.option(
        "--by",
        metavar="GROUPING",
        callback=grouping,
        default="group",
        show_default=True,
        help=f"Group rows by {about}",
        shell_complete=lambda _, __, begun: [n for n in groupings if n.startswith(begun)],
    )


def by_option(function: F) -> F:
    """Add `--by GROUPING` for kernels to a command."""
    return _by(
        GROUPINGS,
        "group (equal kernels of one source line), kernel, source, scope, scope:N (the first N "
        "parts of the op name), opcode or computation.",
    )(function)


def by_buffers_option(function: F) -> F:
    """Add `--by GROUPING` for buffers to a command."""
    return _by(
        MEMORY_GROUPINGS,
        "group (buffers of one kind, type and source line), buffer, source, scope, scope:N (the "
        "first N parts of the op name), opcode, computation or kind.",
    )(function)


class _FileName(click.ParamType[str]):
    """A file name that is not empty: the value of an unset variable is refused."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value unchanged; an empty one is a usage error."""
        if not value:
            self.fail("the name of a file is empty", param, ctx)
        return str(value)


def limit_option(
    name: str, default: int, about: str, *, metavar: str = "N", least: int | None = None
) -> Callable[[F], F]:
    """Add an option for a limit, an integer.

    Args:
        name: Spelling of the option, with `--`.
        default: Value without the option.
        about: Help text.
        metavar: Name of the value in the help.
        least: Smallest allowed value; `None` for no such check.
    """
    kind = int if least is None else click.IntRange(least)
    return click.option(
        name, metavar=metavar, type=kind, default=default, show_default=True, help=about
    )


class Sizes(click.ParamType[tuple[int, ...]]):
    """Positive integers separated by commas, such as `16,64`."""

    name = "N,N,.."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the integers; an empty text gives none, the sizes of a scalar."""
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"\s*(\d{1,18}(\s*,\s*\d{1,18})*)?\s*", value):
            self.fail(f"`{value}` is not a list of positive integers such as 16,64", param, ctx)
        return tuple([int(n) for n in value.split(",") if n.strip()])
