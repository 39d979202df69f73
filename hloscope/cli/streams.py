"""The standard streams of the command: escaping, colour, pages, progress, and `-o`."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, TypeVar, cast

import click

from hloscope import api
from hloscope.errors import InputError
from hloscope.support.lazy import lazy
from hloscope.support.source import visible
from hloscope.support.whole_files import write_whole

if TYPE_CHECKING:
    import shutil

    from rich import console, progress
else:
    shutil = lazy("shutil")
    console = lazy("rich.console")
    progress = lazy("rich.progress")


# --------------------------------------------------------------------------------------------------
# The standard streams of the command: escaping for terminals, and errors of writing.
#
# A terminal executes control characters. So text of a program reaches a terminal, or the standard
# error, only as visible characters; styled text of hloscope itself (progress) is written to
# `styled_errors`. A pipe or file gets results unescaped; input bytes that are not UTF-8 are written
# unchanged.


CLOSED: Final = "cannot write the standard output: it is closed"
LENIENT: Final = "hloscope.lenient"
"""Name of the error handler for characters that an encoding lacks."""
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Error numbers of a stream that accepts no more output."""


class OutputError(InputError):
    """The standard output cannot be written: it is closed, or its disk is full."""


class _VisibleStream(io.TextIOWrapper):
    """A stream that makes control characters visible."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


class _StandardError(_VisibleStream):
    """The standard error: text that the operating system refuses is discarded."""

    def write(self, text: str, /) -> int:
        with self._discarding_refused():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._discarding_refused():
            super().flush()

    @contextmanager
    def _discarding_refused(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            discard(self)


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, with its buffered output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no file gets their numbers."""
    while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(held)


def _lenient(error: UnicodeError) -> tuple[str | bytes, int]:
    """Handle an error of an encoder: return the replacement, and where encoding continues.

    Surrogates become the bytes that were read, other characters become escapes.
    """
    if isinstance(error, UnicodeEncodeError):
        try:
            return codecs.lookup_error("surrogateescape")(error)
        except UnicodeEncodeError:
            return codecs.lookup_error("backslashreplace")(error)
    raise error


def guard() -> None:
    """Escape control characters and unencodable ones in the output of this process."""
    _open_closed_streams()
    codecs.register_error(
        LENIENT, cast(Callable[[UnicodeError], tuple[str | bytes, int]], _lenient)
    )
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue  # the stream is closed, or was replaced by the caller
        if name == "stdout" and not stream.isatty():
            stream.reconfigure(errors=LENIENT)
            continue
        stream.flush()
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        encoding = "utf-8" if is_ascii else stream.encoding
        made = _StandardError if name == "stderr" else _VisibleStream
        setattr(sys, name, made(stream.buffer, encoding, "backslashreplace", line_buffering=True))


def styled_errors() -> TextIO | None:
    """Return the standard error without `guard`, for styles.

    Text of programs must pass `visible` before it is written.
    """
    return sys.__stderr__ if isinstance(sys.stderr, _VisibleStream) else sys.stderr


def styled_output() -> TextIO | None:
    """Return the standard output without `guard`, for styles.

    Text of programs must pass `visible` before it is written.
    """
    return sys.__stdout__ if isinstance(sys.stdout, _VisibleStream) else sys.stdout


def binary_output() -> BinaryIO:
    """Return the standard output for bytes.

    Raises:
        OutputError: The process has no standard output.
    """
    if sys.stdout is None:
        raise OutputError(CLOSED)
    return sys.stdout.buffer


def finish() -> None:
    """Flush the standard output.

    Raises:
        OutputError: There is no standard output.
    """
    if sys.stdout is None:
        raise OutputError(CLOSED)
    sys.stdout.flush()


# --------------------------------------------------------------------------------------------------
# Colour: the conditions for its use, and printing of styled text.
#
# `--color` decides; with `auto`, the default, a terminal gets colour unless the environment has
# `NO_COLOR` (not empty) or `TERM=dumb`. Text of programs must pass `visible` before it is styled.
#
# Source: https://no-color.org.


COLOUR: Final = "hloscope.colour"
"""Key of `click.Context.meta`: the choice of `--color`; `auto` if it is absent."""


def _set_colour(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[COLOUR] = value


def colour_option(*, hidden: bool = False) -> click.Option:
    """Return the option `--color`; with `hidden`, the help does not list it.

    Every command has it, and only the help of `hloscope` itself lists it.
    """
    return click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        metavar="WHEN",
        is_eager=True,  # before --help, which is styled
        expose_value=False,
        callback=_set_colour,
        hidden=hidden,
        help="Use colour: auto (on a terminal without NO_COLOR), always or never.",
    )


def uses_colour(*, err: bool = False) -> bool:
    """Does the standard output (or with `err` the standard error) get colour?"""
    ctx = click.get_current_context(silent=True)
    choice = ctx.meta.get(COLOUR, "auto") if ctx else "auto"
    if choice != "auto":
        return bool(choice == "always")
    stream = styled_errors() if err else styled_output()
    return is_tty(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_styled(text: str, *, err: bool = False) -> None:
    """Print text with terminal styles, or without them if colour is not used.

    With `err` it is printed on the standard error.
    """
    if uses_colour(err=err):
        click.echo(text, styled_errors() if err else styled_output(), color=True)
    else:
        click.echo(click.unstyle(text), err=err)


def styled_heading(text: str) -> str:
    """Style a text as a heading of help."""
    return click.style(text, bold=True)


def styled_name(text: str) -> str:
    """Style a text as a name of a command or option in help."""
    return click.style(text, fg="cyan")


_LABELS: Final = {"error: ": "red", "warning: ": "yellow", "note: ": "cyan"}


def print_message(message: str) -> None:
    """Print a message on the standard error; its label, such as `error:`, gets a colour."""
    if not uses_colour(err=True):
        click.echo(message, err=True)
        return
    message = visible(message)
    found = [(message.index(label), label) for label in _LABELS if label in message]
    if found:
        at, label = min(found)
        styled = click.style(label.rstrip(), fg=_LABELS[label], bold=True)
        message = f"{message[:at]}{styled} {message[at + len(label) :]}"
    print_styled(message, err=True)


# --------------------------------------------------------------------------------------------------
# Output of long results: through a pager on a terminal, directly elsewhere.


def is_terminal() -> bool:
    """Is the standard output a terminal that can position text?"""
    return is_tty(sys.stdout) and os.environ.get("TERM") != "dumb"


def is_tty(stream: TextIO | None) -> bool:
    """Is the stream a terminal? It is `None` if it was closed when the process started."""
    return stream is not None and stream.isatty()


def width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def print_long(text: str, *, nl: bool = True, is_styled: bool = False) -> None:
    """Print a text; if it is longer than the terminal, through the pager that `PAGER` names.

    Args:
        text: The text.
        nl: Print a line feed after the text.
        is_styled: The text has terminal styles, and its other parts passed `visible`.
    """
    if not is_terminal() or not is_tty(sys.stdin) or _fits(text):
        click.echo(text, styled_output() if is_styled else None, nl=nl)
        return
    os.environ.setdefault("LESS", "FRSX")
    click.echo_via_pager(text if is_styled else visible(text))


def _fits(text: str) -> bool:
    return text.count("\n") + 1 < shutil.get_terminal_size().lines


# --------------------------------------------------------------------------------------------------
# Progress of long runs, on the standard error if it is a terminal.


T = TypeVar("T")

DELAY: Final = 1.0
"""Number of seconds before progress is shown: shorter runs show none."""


def with_progress(items: Sequence[T], label: str, *, printed: bool = True) -> Iterator[T]:
    """Yield the items; after `DELAY` seconds, show a bar with the estimated time left.

    Args:
        items: The items that are processed.
        label: The text before the bar.
        printed: Are results printed meanwhile? Then no bar is shown if they go to a terminal.
    """
    if not is_tty(sys.stderr) or (printed and is_tty(sys.stdout)):
        yield from items
        return
    bar = click.progressbar(length=len(items), label=label, file=styled_errors(), show_pos=True)
    start, done, is_shown = monotonic(), 0, False
    with ExitStack() as shown:
        for item in items:
            yield item
            done += 1
            if not is_shown and monotonic() - start >= DELAY:
                shown.enter_context(bar)
                is_shown = True
            if is_shown:
                bar.update(done)
                done = 0


@contextmanager
def steps_shown(most: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that displays the number of steps done; `None` without a terminal.

    Args:
        most: Steps after which the run ends, if it is limited.
    """
    if not is_tty(sys.stderr):
        yield None
        return
    of = "" if most is None else f" of {most:,} at most"
    text = progress.TextColumn("{task.completed:,} steps" + of)
    display = progress.Progress(
        progress.SpinnerColumn(), text, progress.TimeElapsedColumn(),
        console=console.Console(file=styled_errors()), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = display.add_task("run", total=None)
    timer = Timer(DELAY, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda steps: display.update(task, completed=steps)
    finally:
        timer.cancel()
        timer.join()
        display.stop()


# --------------------------------------------------------------------------------------------------
# Write results to the file of `-o`, or to the standard output.


def _file(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    return None if name == "-" else name


output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    callback=_file,
    help="File to write; `-`, the default, is the standard output.",
)


def write(data: bytes, output: str | None) -> None:
    """Write bytes to a file, or to the standard output.

    Raises:
        InputError: The file cannot be written.
    """
    if output is None:
        binary_output().write(data)
        return
    try:
        write_whole(output, data)
    except OSError as error:
        raise InputError(f"cannot write `{output}`: {error.strerror or error}") from None


def write_text(text: str, output: str | None) -> None:
    """Write a text to a file; without one, print it as `print_long` does.

    Raises:
        InputError: The file cannot be written.
    """
    if output is None:
        print_long(text, nl=False)
    else:
        write(text.encode("utf-8", "surrogateescape"), output)


# --------------------------------------------------------------------------------------------------
# The standard input.


STDIN: Final = "<stdin>"
MOST_OF_A_MAP: Final = 1 << 24
"""Maximum number of bytes of a map, or of a line, since a stream or a line may be endless."""


def read_stdin() -> bytes:
    """Return the bytes of the standard input, decompressed.

    Raises:
        InputError: It is closed, has too many bytes, or is not text.
    """
    return api.read_stream(_stream(), "the standard input")


def read_map() -> bytes:
    """Return the bytes of the standard input, which hold the text of a map.

    Raises:
        InputError: It is closed, or has too many bytes.
    """
    data = _stream().read(MOST_OF_A_MAP + 1)
    if len(data) > MOST_OF_A_MAP:
        raise InputError(f"the standard input has more than {MOST_OF_A_MAP:,} bytes, and no map")
    return data


def stdin_lines() -> Iterator[tuple[int, bytes]]:
    """Yield the lines of the standard input as they arrive, counted from 1; empty ones are skipped.

    Raises:
        InputError: It is closed, or a line is too long.
    """
    stream = _stream()
    number = 0
    while line := stream.readline(MOST_OF_A_MAP + 1):
        number += 1
        if len(line) > MOST_OF_A_MAP:
            most = f"{MOST_OF_A_MAP:,} bytes"
            raise InputError(f"the standard input: line {number} has more than {most}")
        if line.strip():
            yield number, line


def _stream() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("cannot read the standard input: it is closed")
    return sys.stdin.buffer
