"""Modules, regular expressions and dataclasses that are made when they are first used.

A question about HLO needs no MLIR, no interpreter, no verifier and no proofs, and to load them
would take longer than the answer.  Whoever may need them says so at its top:

    if TYPE_CHECKING:
        from hloscope import interpreter
    else:
        interpreter = lazy("hloscope.interpreter")

In the same way `pattern` stands for `re.compile`, and `dataclass` for the one of the standard
library: to compile the expressions and the methods of all that might be needed takes longer than
to read a short program.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, AnyStr, Final

__all__ = ["dataclass", "lazy", "pattern"]


class _LazyModule:
    """A module that is imported at the first access to one of its names."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._path), name)


def lazy(path: str) -> Any:
    """The module at this path; it is imported when something of it is first used.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return _LazyModule(path)


class LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        """What the compiled expression has of that name, found once."""
        value = getattr(re.compile(self._text, self._flags), name)
        self.__dict__[name] = value
        return value


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The regular expression, compiled when it is first used.

    >>> number = pattern("[0-9]+")
    >>> number.sub("N", "s32[16]")
    'sN[N]'
    """
    return LazyPattern(text, flags)  # type: ignore[return-value]


_GENERATING: Final = RLock()


class _Generated:
    """Stands in a class for what `dataclasses.dataclass` generates, and generates it when used."""

    __slots__ = ("_name", "_options", "_owner", "_plain")

    def __init__(self, plain: type, options: dict[str, bool]) -> None:
        self._plain, self._options = plain, options

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        with _GENERATING:
            stubs = [k for k, v in self._owner.__dict__.items() if isinstance(v, _Generated)]
            if stubs:
                made: type = dataclasses.dataclass(**self._options)(self._plain)
                for name in stubs:
                    setattr(self._owner, name, made.__dict__[name])
        found = self._owner.__dict__[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _refuse(_: object, name: str, *value: object) -> None:
    what = "assign to" if value else "delete"
    raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_ALWAYS: Final = ("__init__", "__match_args__", "__dataclass_fields__", "__dataclass_params__")


def _fields_of(cls: type) -> Iterator[str]:
    """Names of the fields that the body of a class declares."""
    for name, annotation in inspect.get_annotations(cls).items():
        if "ClassVar" not in str(annotation).partition("[")[0]:
            yield name


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, frozen: bool = False, eq: bool = True, weakref_slot: bool = False, **options: bool
    ) -> Callable[[type], type]:
        """`dataclasses.dataclass` with slots, whose methods are generated when one is first used.

        >>> @dataclass(frozen=True, slots=True)
        ... class Size:
        ...     rows: int
        ...     columns: int = 1
        >>> Size(4)
        Size(rows=4, columns=1)
        """
        assert options.pop("slots"), "a dataclass without slots is the standard library's"

        def decorate(cls: type) -> type:
            own = dict(cls.__dict__)
            fields = tuple(_fields_of(cls))
            for name in ("__dict__", "__weakref__", *fields):
                own.pop(name, None)
            if eq and frozen and own.get("__hash__") is None:
                own.pop("__hash__", None)
            names = [*_ALWAYS, *(["__repr__"] if options.get("repr", True) else [])]
            names += ["__eq__"] if eq else []
            names += ["__hash__"] if eq and frozen else []
            given = {"frozen": frozen, "eq": eq, **options}
            own = {name: _Generated(cls, given) for name in names} | own
            if frozen:
                own |= {"__setattr__": _refuse, "__delattr__": _refuse}
                own = {"__getstate__": _get_state, "__setstate__": _set_state} | own
            inherited = {slot for base in cls.__mro__ for slot in getattr(base, "__slots__", ())}
            slots = tuple(name for name in fields if name not in inherited)
            own["__slots__"] = (*slots, "__weakref__") if weakref_slot else slots
            return type(cls)(cls.__name__, cls.__bases__, own)

        return decorate
