"""The exceptions that this package raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from msgspec import Struct

from hloscope.support.lazy import lazy
from hloscope.support.source import Span, visible

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")


_LONG_NAME: Final = 300
"""Maximum length of a name for which similar names are searched."""
_LONG_MESSAGE: Final = 4000
"""Maximum number of characters of a message that are printed; a name may be very long."""


def _shown(message: str) -> str:
    """Return the message; if it is long, only its start and its end.

    >>> len(_shown("x" * 10_000_000))
    4000
    """
    if len(message) <= _LONG_MESSAGE:
        return message
    return f"{message[: _LONG_MESSAGE - 503]} … {message[-500:]}"


class Name(str):
    """The name of an op in a message; each language has its own spelling of it."""

    __slots__ = ()


class Label(str):
    """A program's own name for an instruction or computation.

    Equal programs may have different names.
    """

    __slots__ = ()


Formatter: TypeAlias = Callable[[object, str], str]
"""Function that formats a type or a `Name` in a language.

The second argument is `bare` for text without quotes, else empty.
"""


def plain(value: object, form: str = "") -> str:
    """Format a value without regard to a language; this is the default `Formatter`."""
    return str(value)


class MessageTemplate(Struct, frozen=True):
    """A message with placeholders for types and names, which each language spells in its own way.

    Attributes:
        template: The text, with `{}` for a quoted value and `{:bare}` for one without quotes.
        values: Types, names, or other messages.
    """

    template: str
    values: tuple[object, ...]

    def text(self, spell: Formatter = plain) -> str:
        """Return the message with its values formatted by `spell`."""
        return self.template.format(*[_Place(value, spell) for value in self.values])

    def __format__(self, form: str) -> str:
        raise TypeError("a message within a message is one of its values")


def message_of(template: str, *values: object) -> MessageTemplate:
    """Return a message; `template` has a placeholder for each of `values`, types and names.

    `{}` quotes the value, `{:bare}` does not.

    >>> needs = message_of("needs {}, found {:bare}", "f32", "s32")
    >>> needs.text(lambda value, form: form or f"<{value}>")
    'needs <f32>, found bare'
    """
    return MessageTemplate(template, values)


class _Place:
    """A value in a message, which `__format__` writes in a language by the function `spell`."""

    __slots__ = ("spell", "value")

    def __init__(self, value: object, spell: Formatter) -> None:
        self.value, self.spell = value, spell

    def __format__(self, form: str) -> str:
        value = self.value
        return (
            value.text(self.spell)
            if isinstance(value, MessageTemplate)
            else self.spell(value, form)
        )


class HloscopeError(Exception):
    """Base class: a message, its source position, and the violated rule.

    `exit_code` is the exit status of the command after such an error: 1 a check failed, 2 usage, 3
    the input does not parse or verify, 4 undecided, 5 a proof disagrees.
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self, message: str | MessageTemplate, *, span: Span | None = None, rule: str = ""
    ) -> None:
        """Create an error.

        Args:
            message: The text, or a template whose types and names each language formats.
            span: Source position; `None` if unknown.
            rule: Label of the violated rule, or empty.
        """
        super().__init__(message)  # args = (message,): the exception survives pickling
        self.said, self.span, self.rule = message, span, rule
        self.spell: Formatter = plain

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses have other parameters of `__init__`, so it cannot be called again.
        return _unpickled, (type(self), self.args, self.__dict__)

    @property
    def message(self) -> str:
        """Return the error's text, with types and names formatted by `spell`.

        A front end sets `spell` to the formatter of its language.
        """
        return self.message_in(self.spell)

    def message_in(self, spell: Formatter) -> str:
        """Return the error's text, with types and names formatted by the given function."""
        return self.said if isinstance(self.said, str) else self.said.text(spell)

    def __str__(self) -> str:
        tag = f" [{self.rule}]" if self.rule else ""
        if self.span is None:
            return visible(f"error: {_shown(self.message)}{tag}")
        line, col = self.span.line_col
        where = f"{self.span.source.name}:{line}:{col}"
        return visible(f"{where}: error: {_shown(self.message)}{tag}\n{self.span.render()}")


def _unpickled(
    kind: type[HloscopeError], args: tuple[object, ...], fields: dict[str, object]
) -> HloscopeError:
    """Return an error that another process raised, without calling `__init__`.

    Args:
        kind: Class of the error.
        args: Arguments of the exception.
        fields: Attributes of the error.
    """
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class Diagnostic(Struct, frozen=True):
    """One finding about a program.

    Attributes:
        message: What was found and what is needed.
        span: Source position; `None` if unknown.
        rule: Label of the broken constraint, `slice_c3`, or empty.
        severity: `error`, `warning` or `remark`.
        notes: Related positions, such as where a value is defined.
    """

    message: str
    span: Span | None = None
    rule: str = ""
    severity: str = "error"
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        tag = f" [{self.rule}]" if self.rule else ""
        notes = "".join(f"\n{note}" for note in self.notes)
        if self.span is None:
            return visible(f"{self.severity}: {_shown(self.message)}{tag}{notes}")
        line, col = self.span.line_col
        where = f"{self.span.source.name}:{line}:{col}"
        text = f"{where}: {self.severity}: {_shown(self.message)}{tag}"
        return visible(f"{text}\n{self.span.render()}{notes}")


class ParseError(HloscopeError):
    """The text cannot be parsed, or it refers to a name that does not exist."""


class VerifyError(HloscopeError):
    """The program breaks a rule of the specification; `rule` is its label, e.g. `slice_c3`."""


class NoFunctionError(VerifyError):
    """A valid module has no function where one is needed."""


class InputError(HloscopeError):
    """A file or argument cannot be used: a file is missing, a directory, empty, or not text."""


class UnknownNameError(HloscopeError):
    """No object has that name or number: an instruction, computation, operand or option."""

    exit_code = 2


class UnsupportedError(HloscopeError):
    """Valid input that this package cannot handle yet; never an error in the input."""

    exit_code = 4


class TooLargeError(UnsupportedError, ValueError):
    """A number does not fit into 64 bits, which is the range of this package's calculations."""


class OutOfTimeError(UnsupportedError):
    """The time limit was reached before there was a result."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` with the most similar known names, or "" if none is similar.

    >>> did_you_mean("fusoin.1", ["fusion.1", "add"])
    '; did you mean `fusion.1`?'
    >>> did_you_mean("fusion", ["fusion.12", "wrapped_fusion", "add.3"])
    '; did you mean `fusion.12` or `wrapped_fusion`?'
    """
    if len(name) > _LONG_NAME:
        return ""  # the time of a comparison grows with the square of the length
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names[:20_000], n=3)
    if len(name) > 2:
        near += sorted((n for n in names if name in n and n not in near), key=len)
    quoted = [f"`{n}`" for n in near[:3]]
    *most, last = quoted or [""]
    return f"; did you mean {', '.join(most)}{' or ' if most else ''}{last}?" if last else ""
