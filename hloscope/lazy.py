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

What is asked of the types and ops of a program is answered when it is first asked of one:
`once_for_each`.  Tens of thousands of instructions share some hundred of them, the very same
objects, which are told apart by identity.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, AnyStr, Final, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["dataclass", "lazy", "library", "once_for_each", "pattern", "replace"]

T = TypeVar("T")
R = TypeVar("R")


class _LazyModule:
    """A module that is imported at the first access to one of its names."""

    __slots__ = ("_module", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        module = self._module
        if module is None:
            module = self._module = import_module(self._path)
        return getattr(module, name)


def lazy(path: str) -> Any:
    """The module at this path; it is imported when something of it is first used.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return _LazyModule(path)


class _LazyLibrary:
    """A library of others that is imported at the first access; keeps what was asked of it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._path), name)
        self.__dict__[name] = value
        return value


def library(path: str) -> Any:
    """Like `lazy`, for libraries: nobody changes their names, so each is looked up once.

    >>> decimal = library("decimal")
    >>> decimal.Decimal is decimal.Decimal
    True
    """
    return _LazyLibrary(path)


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
_Fields = dict[str, tuple[Any, "dataclasses.Field[Any]"]]
"""Annotation and options of each field."""
_DECLARED: Final[WeakKeyDictionary[type, _Fields]] = WeakKeyDictionary()
"""The fields that a class itself declares."""


class _Generated:
    """Stands in a class for what `dataclasses.dataclass` generates, and generates it when used."""

    __slots__ = ("_name", "_options", "_owner", "_plain")

    def __init__(self, plain: type, options: dict[str, bool]) -> None:
        self._plain, self._options = plain, options

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type) -> Any:
        with _GENERATING:
            if self._owner.__dict__[self._name] is self:
                self._generate()
        found = self._owner.__dict__[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found

    def _generate(self) -> None:
        """Put into the class what is asked for, or everything where that isn't made alone.

        The standard library compiles six methods for each class, which takes a millisecond; a short
        question makes instances of thirty classes and needs little more than that of most of them.
        """
        owner, make = self._owner, _METHODS.get(self._name)
        waiting = [k for k, v in owner.__dict__.items() if isinstance(v, _Generated)]
        if make and (fields := _fields(owner, self._options)) is not None:
            # To find out the fields takes longer than to make all that needs no compilation.
            others = [name for name in waiting if name in _METHODS and name != "__init__"]
            for name in ["__init__"] if make is _init else others:
                setattr(owner, name, _METHODS[name](owner, fields))
            return
        made: type = dataclasses.dataclass(**self._options)(self._plain)
        for name in waiting:
            setattr(owner, name, made.__dict__[name])


def _fields(cls: type, options: dict[str, bool]) -> _Fields | None:
    """All fields of a class in order; nothing where it wants what is not made alone."""
    fields: _Fields = {}
    if options.keys() - {"frozen", "eq", "repr"}:
        return None
    for base in reversed(cls.__mro__):
        if base in _DECLARED:
            fields |= _DECLARED[base]
        elif "__dataclass_fields__" in base.__dict__:
            return None
    required = [_is_required(field) for _, field in fields.values() if field.init]
    special = any("InitVar" in str(kind) or "KW_ONLY" in str(kind) for kind, _ in fields.values())
    return None if special or required != sorted(required, reverse=True) else fields


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


class _Factory:
    """Stands, as a default, for a value that is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY: Final = _Factory()


def _init(cls: type, fields: _Fields) -> Any:
    """`__init__`: each field is set through its slot, which frozen classes allow too."""
    parameters, lines = [], []
    names: dict[str, Any] = {"_FACTORY": _FACTORY}
    for name, (_, field) in fields.items():
        value = name
        names |= {f"_set_{name}": getattr(cls, name).__set__, f"_default_{name}": field.default}
        if field.default_factory is not dataclasses.MISSING:
            names |= {f"_make_{name}": field.default_factory, f"_default_{name}": _FACTORY}
            made_anew = f"_make_{name}()"
            value = f"{made_anew} if {name} is _FACTORY else {name}" if field.init else made_anew
        elif not field.init:
            value = f"_default_{name}"
        if field.init:
            parameters.append(name if _is_required(field) else f"{name}=_default_{name}")
        if field.init or not _is_required(field):
            lines.append(f" _set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    made: dict[str, Any] = {}
    # The text is of names of fields alone, as it is in the standard library.
    exec(
        "\n".join([f"def __init__({', '.join(['self', *parameters])}):", *lines, " pass"]),
        names,
        made,
    )
    annotations = {name: kind for name, (kind, field) in fields.items() if field.init}
    made["__init__"].__annotations__ = {**annotations, "return": None}
    return _named("__init__", cls, made["__init__"])


def _named(name: str, cls: type, method: Any) -> Any:
    """The method, named as one of this class."""
    method.__name__, method.__module__ = name, cls.__module__
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of these fields."""
    match names:
        case []:
            return lambda self: ()
        case [name]:
            return lambda self: (getattr(self, name),)
        case several:
            return attrgetter(*several)


def _eq(cls: type, fields: _Fields) -> Any:
    values = _values_of([name for name, (_, field) in fields.items() if field.compare])

    def eq(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return _named("__eq__", cls, eq)


def _hash(cls: type, fields: _Fields) -> Any:
    counts = {k: f.compare if f.hash is None else f.hash for k, (_, f) in fields.items()}
    values = _values_of([name for name, counted in counts.items() if counted])

    def hash_of(self: Any) -> int:
        return hash(values(self))

    return _named("__hash__", cls, hash_of)


def _match_args(cls: type, fields: _Fields) -> tuple[str, ...]:
    return tuple(name for name, (_, field) in fields.items() if field.init)


_METHODS: Final[dict[str, Callable[[type, _Fields], Any]]] = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__match_args__": _match_args,
}
"""What of a class is made alone, from what its fields are."""


def replace(value: T, **changes: Any) -> T:
    """A dataclass with some fields replaced; `dataclasses.replace` has all methods generated.

    It is for classes all of whose fields are given by position.

    >>> from hloscope.ir import Layout
    >>> replace(Layout((1, 0)), minor_to_major=(0, 1)).minor_to_major
    (0, 1)
    """
    cls: Any = type(value)
    fields = [changes.pop(k) if k in changes else getattr(value, k) for k in cls.__match_args__]
    made: T = cls(*fields, **changes)  # which refuses changes of what is no field
    return made


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


def _declare(cls: type, plain: type, names: tuple[str, ...]) -> None:
    """Note the fields that a class itself declares."""
    annotations = inspect.get_annotations(plain)
    fields: _Fields = {}
    for name in names:
        value = plain.__dict__.get(name, dataclasses.MISSING)
        if value.__class__.__hash__ is None:
            raise ValueError(f"mutable default of field `{name}` of `{plain.__name__}`")
        is_field = isinstance(value, dataclasses.Field)
        fields[name] = annotations[name], value if is_field else dataclasses.field(default=value)
    _DECLARED[cls] = fields


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
            own["__qualname__"] = cls.__qualname__
            own["__slots__"] = (*slots, "__weakref__") if weakref_slot else slots
            made = type(cls)(cls.__name__, cls.__bases__, own)
            _declare(made, cls, fields)
            return made

        return decorate


def once_for_each(function: Callable[[T], R]) -> Callable[[T], R]:
    """The function, which remembers its answers about objects, by identity, and these objects.

    >>> asked = []
    >>> say = once_for_each(lambda value: asked.append(value) or len(asked))
    >>> pair = (1, 2)
    >>> [say(pair), say(pair), say((3, 4)), asked]
    [1, 1, 2, [(1, 2), (3, 4)]]
    """
    known: dict[int, tuple[T, R]] = {}
    look_up = known.get

    def answer(value: T) -> R:
        found = look_up(id(value))
        if found is None:
            found = known[id(value)] = value, function(value)
        return found[1]

    return answer
