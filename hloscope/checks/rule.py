"""Rules: a name, a help text, parameters, and a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.checks.findings import Finding
from hloscope.checks.subject import Subject
from hloscope.errors import InputError, did_you_mean
from hloscope.lazy import pattern

Check: TypeAlias = Callable[..., Iterator[Finding]]

_BYTES: Final = pattern(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*(B|KiB|MiB|GiB|kB|MB|GB)?\s*", re.ASCII)
_UNITS: Final = {
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "GB": 10**9,
}  # fmt: skip


class Parameter(Struct, frozen=True):
    """A parameter of a rule.

    Attributes:
        default: The default value; `None` if the parameter is required.
        help: Its meaning.
        read: Converts a value of a file or of the command line.
    """

    default: Any
    help: str
    read: Callable[[Any], Any]


class Rule(Struct, frozen=True):
    """A rule.

    Attributes:
        name: Name in settings and findings.
        help: The requirement, in a line.
        parameters: The parameters by name, as settings spell them.
        check: Yields the violations.
        of_bytes: Do its findings count bytes, so that their share of the step is their weight?
    """

    name: str
    help: str
    parameters: Mapping[str, Parameter]
    check: Check
    of_bytes: bool = False

    def with_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The function's arguments: the given parameters, and defaults for the others.

        Raises:
            InputError: There is no such parameter, a value does not fit, or one is missing.
        """
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        rest = {}
        for name, value in given.items():
            spelled = name.replace("_", "-")
            parameter = self.parameters.get(spelled)
            if parameter is None and "*" in self.parameters:
                rest[spelled] = self._read("*", value)
            elif parameter is None:
                near = did_you_mean(spelled, self.parameters)
                raise InputError(f"rule `{self.name}` has no parameter `{name}`{near}")
            else:
                values[spelled] = self._read(spelled, value)
        for name, value in values.items():
            if value is None and name != "*":
                raise InputError(f"rule `{self.name}` needs `{name}`: {self.parameters[name].help}")
        if "*" in self.parameters:
            values["*"] = rest
        return {"others" if k == "*" else k.replace("-", "_"): v for k, v in values.items()}

    def _read(self, name: str, value: Any) -> Any:
        try:
            return self.parameters[name].read(value)
        except (ValueError, TypeError) as error:
            raise InputError(f"`{name}` of rule `{self.name}`: {error}") from None

    def run(self, subject: Subject, values: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the violations of the rule."""
        return self.check(subject, **values)


def size(given: Any) -> int:
    """Parse bytes, given as a number or with a unit.

    >>> size("1.5 KiB"), size(64)
    (1536, 64)

    Raises:
        ValueError: These are no bytes.
    """
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    found = _BYTES.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f'bytes such as 4096 or "1 MiB" were expected, found {given!r}')
    return int(Fraction(found[1]) * _UNITS[found[2] or "B"])


def number(given: Any) -> int:
    """Check or parse an integer of at least 0.

    Raises:
        ValueError: It is not such a number.
    """
    if isinstance(given, str) and given.strip().isdecimal():
        return int(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"a number from 0 on was expected, found {given!r}")
    return given


def share(given: Any) -> float:
    """Check or parse a number from 0 to 1.

    Raises:
        ValueError: It is not such a number.
    """
    try:
        value = -1.0 if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"a share from 0 to 1 was expected, found {given!r}")
    return value


def text(given: Any) -> str:
    """Check a text that is not empty.

    Raises:
        ValueError: It is not a text, or is empty.
    """
    if not isinstance(given, str) or not given:
        raise ValueError(f"a text was expected, found {given!r}")
    return given


def texts(given: Any) -> tuple[str, ...]:
    """Check a list of texts, or split a text at commas.

    Raises:
        ValueError: It is not a list of texts.
    """
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"a list of texts was expected, found {given!r}")
    return tuple(given)


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that checks that a value is one of `words`."""

    def read(given: Any) -> str:
        if given not in words:
            raise ValueError(f"one of {', '.join(words)} was expected, found {given!r}")
        return str(given)

    return read
