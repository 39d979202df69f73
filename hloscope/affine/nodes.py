"""Expression nodes: exact, immutable, one live object per value, in one normal form.

`Const`, the variables `Dim`, `Range`, `Runtime`, and `Sum`, `Product`, `FloorDiv`, `CeilDiv`,
`Mod`, `Min`, `Max`.  Equal expressions are the same object, so `==` and `hash` are identity and
cost nothing.  Expressions are built with operators, which bring them into normal form:

    >>> d0, s0 = Dim(0), Range(0)
    >>> (d0 * 2 + s0) * 3 - d0 is 5 * d0 + s0 * 3
    True
    >>> print((d0 * 8 + s0) // 4 % 2)
    ((d0 * 8 + s0) / 4) mod 2

The class constructors intern but do not normalise; only this module and `build` call them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from math import gcd as _gcd
from typing import Any, ClassVar, Final, SupportsIndex, TypeAlias, TypeVar, final, get_args
from weakref import ref

from hloscope.affine.order import DEEP, STORED, DeepKey, OrderKey, by_key, compare, order_key
from hloscope.support.system import shared_lock

_N = TypeVar("_N", bound="Node")
_V = TypeVar("_V", bound="Variable")
_A = TypeVar("_A", bound="_Args")
_D = TypeVar("_D", bound="_Division")

_LOCK: Final = shared_lock()
_new: Final[Callable[[type], Any]] = object.__new__


def _forget(table: dict[Any, Any], key: object, entry: object, lock: Any = _LOCK) -> None:
    """Remove `table[key]` if it still is `entry`, the weak reference of a dead node.

    Runs as the callback of that weak reference. A new node may have replaced the entry.
    """
    with lock:  # a node of the same value may be entered between the question and the removal
        # Another thread may have entered a node of equal value after the old one died.
        if table.get(key) is entry:
            del table[key]


class Node:
    """Base of all expressions: operators, interning and order. Only this module has subclasses."""

    __slots__ = ("__weakref__", "_divisions", "_key")
    _key: OrderKey | None
    _divisions: int
    by: int = 0
    """The divisor of a floor division by a positive constant; 0 for any other node."""
    _live: ClassVar[dict[Any, ref[Any]]]
    _writers: ClassVar[tuple[Callable[[Any, Any], None], ...]]
    """The setters of the slots, in the order of `_build`. They are the only way to set a field."""
    text_of: ClassVar[Callable[[Any], str]]

    def __init_subclass__(cls) -> None:
        cls._live = {}
        names = ("_key", "_divisions", *getattr(cls, "__match_args__", ()))
        cls._writers = tuple([getattr(cls, name).__set__ for name in names])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"expressions are immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"expressions are immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:  # copy and pickle re-intern
        cls: Any = type(self)
        return cls, tuple(getattr(self, name) for name in cls.__match_args__)

    def __copy__(self: _N) -> _N:
        return self

    def __deepcopy__(self: _N, memo: object) -> _N:
        return self

    def __str__(self) -> str:
        return Node.text_of(self)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __lt__(self, other: Node) -> bool:
        """Compare in printing order, so that `sorted(expressions)` is the same in every run."""
        return compare(self, other) < 0

    def __add__(self, other: ExprLike) -> Expr:
        return linear((self, 1), (other, 1))

    def __radd__(self, other: SupportsIndex) -> Expr:
        return linear((self, 1), (other, 1))

    def __sub__(self, other: ExprLike) -> Expr:
        return linear((self, 1), (other, -1))

    def __rsub__(self, other: SupportsIndex) -> Expr:
        return linear((self, -1), (other, 1))

    def __neg__(self) -> Expr:
        return linear((self, -1))

    def __pos__(self) -> Expr:
        return self  # type: ignore[return-value]  # every Node is one of the union

    def __mul__(self, other: ExprLike) -> Expr:
        return product(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: ExprLike) -> Expr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: SupportsIndex) -> Expr:
        return floordiv(other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return mod(self, other)

    def __rmod__(self, other: SupportsIndex) -> Expr:
        return mod(other, self)


def _build(cls: type[_N], key: Any, *fields: Any) -> _N:
    """Build a node with these fields, and return the live node of its key.

    That is the new node, or an equal one that another thread entered first.

    Args:
        cls: Class of the node.
        key: Key of the node in the table of its class.
        fields: Order key, number of divisions, then the fields in `__match_args__`.
    """
    node = _new(cls)
    for write, value in zip(cls._writers, fields, strict=True):
        write(node, value)
    live = cls._live
    entry = ref(node, partial(_forget, live, key))
    # `setdefault` is atomic: if two threads built the same node, one of them wins and both return
    # it.
    return node if live.setdefault(key, entry) is entry else _enter_late(live, key, node, entry)  # type: ignore[no-any-return]


def _enter_late(live: dict[Any, ref[Any]], key: Any, node: Any, entry: ref[Any]) -> Any:
    """Return the live node of a key that has an entry in the table `live`.

    If the entry's node is dead, `node` becomes the node of the key, and `entry`, a weak reference
    to it, its entry.
    """
    with _LOCK:
        old = live.get(key)
        # The weak reference may be dead already, though its callback has not run: then this node
        # replaces it.
        found = old() if old is not None else None
        if found is not None:
            return found
        live[key] = entry
    return node


def plain_int(x: SupportsIndex) -> int:
    """Return an integer-like value as `int`: accepts numpy integers and `bool`, refuses floats."""
    return int(operator.index(x))


def expr(x: ExprLike) -> Expr:
    """Return `x` if it is an expression, else the constant of the integer."""
    if isinstance(x, Node):
        return x  # type: ignore[return-value]
    return Const(operator.index(x))


@final
class Const(Node):
    """An integer."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: int

    def __new__(cls, value: SupportsIndex) -> Const:
        if type(value) is not int:  # True == 1 would share this node: keep plain ints only
            value = plain_int(value)
        entry = cls._live.get(value)
        if entry is not None and (node := entry()) is not None:
            return node  # type: ignore[no-any-return]
        return _build(cls, value, (8, value), 0, value)


class Variable(Node):
    """Base of the three kinds of variables; `index` counts within one kind, from 0."""

    __slots__ = ("index",)
    __match_args__ = ("index",)
    index: int
    _order: ClassVar[int]

    def __new__(cls: type[_V], index: SupportsIndex) -> _V:
        if type(index) is not int:
            index = plain_int(index)
        entry = cls._live.get(index)
        if entry is not None and (node := entry()) is not None:
            return node  # type: ignore[no-any-return]
        if index < 0:
            raise ValueError(f"a variable's position cannot be negative, got {index}")
        return _build(cls, index, (7, cls._order, index), 0, index)


@final
class Dim(Variable):
    """A dimension variable, `d0`: one coordinate of the index that a map starts from."""

    __slots__ = ()
    _order = 0


def first_dims(count: int) -> tuple[Dim, ...]:
    """Return the tuple `(d0, …, d{count - 1})`."""
    return tuple([Dim(i) for i in range(count)])


@final
class Range(Variable):
    """A range variable, `s0`: takes every value of its interval."""

    __slots__ = ()
    _order = 1


@final
class Runtime(Variable):
    """A runtime variable, `rt0`: a value read from a tensor."""

    __slots__ = ()
    _order = 2


@final
class Sum(Node):
    """`t0*c0 + t1*c1 + ... + const`; terms sorted and distinct, coefficients nonzero.

    No term is a sum or a constant.  A scaled term `t * c` is a sum of one term.  Terms are stored
    in the order of `t`; they are printed in the order of `t * c`, see `printed_terms`.
    """

    __slots__ = ("const", "terms")
    __match_args__ = ("terms", "const")
    terms: tuple[tuple[Expr, int], ...]
    const: int

    def __new__(cls, terms: tuple[tuple[Expr, int], ...], const: int) -> Sum:
        key = terms, const
        entry = cls._live.get(key)
        if entry is not None and (node := entry()) is not None:
            return node  # type: ignore[no-any-return]
        divisions = 0
        for t, _ in terms:
            divisions += t._divisions
        return _build(cls, key, None, divisions, terms, const)


class _Args(Node):
    """Base of nodes with a tuple of operands."""

    __slots__ = ()
    _kind: ClassVar[int]

    @classmethod
    def _of(cls: type[_A], args: tuple[Expr, ...]) -> _A:
        entry = cls._live.get(args)
        if entry is not None and (node := entry()) is not None:
            return node  # type: ignore[no-any-return]
        divisions = 0
        order: OrderKey = ()
        for x in args:  # seen as a tree of binary operations, associated to the left
            divisions += x._divisions
            key = x._key or order_key(x)
            order = (cls._kind, order, key) if order else key
        return _build(cls, args, order, divisions, args)


@final
class Product(_Args):
    """The product of at least two factors, sorted, none of them a constant."""

    __slots__ = ("factors",)
    _kind = 1
    __match_args__ = ("factors",)
    factors: tuple[Expr, ...]

    def __new__(cls, factors: tuple[Expr, ...]) -> Product:
        return cls._of(factors)


@final
class Min(_Args):
    """The smallest of at least two operands, sorted and distinct."""

    __slots__ = ("args",)
    _kind = 6
    __match_args__ = ("args",)
    args: tuple[Expr, ...]

    def __new__(cls, args: tuple[Expr, ...]) -> Min:
        return cls._of(args)


@final
class Max(_Args):
    """The largest of at least two operands, sorted and distinct."""

    __slots__ = ("args",)
    _kind = 5
    __match_args__ = ("args",)
    args: tuple[Expr, ...]

    def __new__(cls, args: tuple[Expr, ...]) -> Max:
        return cls._of(args)


class _Division(Node):
    """Base of nodes with a numerator and a denominator."""

    __slots__ = ("den", "num")
    __match_args__ = ("num", "den")
    num: Expr
    den: Expr
    _kind: ClassVar[int]

    def __new__(cls: type[_D], num: ExprLike, den: ExprLike) -> _D:
        if not (isinstance(num, Node) and isinstance(den, Node)):
            num, den = expr(num), expr(den)
        key = num, den
        entry = cls._live.get(key)
        if entry is not None and (node := entry()) is not None:
            return node  # type: ignore[no-any-return]
        divisions = 1 + num._divisions + den._divisions
        order: OrderKey = cls._kind, num._key or order_key(num), den._key or order_key(den)  # type: ignore[arg-type]
        if divisions > DEEP:
            order = DeepKey(order)
        return _build(cls, key, order, divisions, num, den)


@final
class FloorDiv(_Division):
    """`num / den` rounded towards minus infinity."""

    __slots__ = ()
    _kind = 2

    @property
    def by(self) -> int:  # type: ignore[override]
        """The divisor, if it is a positive constant; else 0."""
        return max(0, self.den.value) if type(self.den) is Const else 0


@final
class CeilDiv(_Division):
    """`num / den` rounded towards plus infinity."""

    __slots__ = ()
    _kind = 3


@final
class Mod(_Division):
    """`num - |den| * floor(num / |den|)`: in `[0, |den|)`, whatever the signs."""

    __slots__ = ()
    _kind = 4


Var: TypeAlias = Dim | Range | Runtime
Expr: TypeAlias = (
    Const | Dim | Range | Runtime | Sum | Product | FloorDiv | CeilDiv | Mod | Min | Max
)
ExprLike: TypeAlias = "Node | SupportsIndex"
_KINDS: Final = frozenset(get_args(Expr))
ZERO: Final[Expr] = Const(0)
ONE: Final[Expr] = Const(1)

# ------------------------------------------------------------------------------------- parts


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the operands of `e`; of a sum, its terms without coefficients and constant.

    >>> children(Dim(0) // 4)
    (<d0>, <4>)
    """
    cls = type(e)
    if cls is Sum:
        return tuple([t for t, _ in e.terms])  # type: ignore[union-attr]
    if cls is FloorDiv or cls is Mod or cls is CeilDiv:
        return e.num, e.den  # type: ignore[union-attr]
    if cls is Product:
        return e.factors  # type: ignore[union-attr]
    if cls is Min or cls is Max:
        return e.args  # type: ignore[union-attr]
    return ()


def divisions(e: Expr) -> int:
    """Return the number of `floordiv`, `ceildiv` and `mod` in the printed expression.

    Shared parts count each time.

    >>> d0 = Dim(0)
    >>> divisions(d0 // 4 % 2 + d0 // 4)
    3
    """
    return e._divisions


# ---------------------------------------------------------------------------- normal forms


def linear(*parts: tuple[ExprLike, int]) -> Expr:
    """Return the normal form of the sum of `coefficient * expression` over all parts.

    >>> print(linear((Dim(0), 2), (Dim(1) + 1, 3), (5, -1)))
    d0 * 2 + d1 * 3 - 2
    """
    coeffs: dict[Expr, int] = {}
    const = sorted_terms = 0
    get = coeffs.get
    for part, k in parts:
        kind = type(part)
        if kind is Sum:
            const += k * part.const  # type: ignore[union-attr]
            # The terms of a sum are sorted: if no other part adds a term, they need no sorting
            # again.
            if k == 1 and not coeffs:
                coeffs.update(part.terms)  # type: ignore[union-attr]
                sorted_terms = len(coeffs)
            else:
                for term, c in part.terms:  # type: ignore[union-attr]
                    coeffs[term] = get(term, 0) + k * c
        elif kind is Const:
            const += k * part.value  # type: ignore[union-attr]
        elif kind is int:
            const += k * part  # type: ignore[assignment, operator]
        elif kind in _KINDS:
            coeffs[part] = get(part, 0) + k  # type: ignore[index, call-overload]
        else:
            const += k * plain_int(part)  # type: ignore[arg-type]
    # No key was added after the sorted terms of the first sum. Terms that cancel are removed, and
    # the others keep their order.
    in_order = sorted_terms == len(coeffs)
    if 0 in coeffs.values():
        coeffs = {t: c for t, c in coeffs.items() if c}
    if in_order and len(coeffs) > 1:
        return Sum(tuple(coeffs.items()), const)
    return sum_of(coeffs, const)


def from_terms(terms: Sequence[tuple[Expr, int]], const: int) -> Expr:
    """Return the sum of distinct terms with nonzero coefficients; no term is a sum or constant."""
    return sum_of(dict(terms), const)


def sum_of(coeffs: dict[Expr, int], const: int) -> Expr:
    """Return the sum of terms with nonzero coefficients.

    Takes ownership of `coeffs` and does not copy it.

    >>> print(sum_of({Dim(1): 2, Dim(0): 1}, 3))
    d1 * 2 + d0 + 3
    """
    if len(coeffs) < 2:
        for t, c in coeffs.items():
            return t if c == 1 and not const else Sum(((t, c),), const)
        return Const(const)
    return Sum(tuple([(t, coeffs[t]) for t in by_key([*coeffs], STORED)]), const)


def product(*factors: ExprLike) -> Expr:
    """Return the product in normal form.

    Constants become the coefficient, and common factors of sums are taken out.

    >>> print(product(Dim(0), 2, Dim(1)), "|", product(Dim(0) * 2 + 4, Dim(1)))
    d0 * d1 * 2 | (d0 + 2) * d1 * 2
    """
    scale = 1
    rest: list[Expr] = []
    for factor in factors:
        e = expr(factor)
        match e:
            case Const(value):
                scale *= value
            case Product(parts):
                rest += parts
            case _:
                rest.append(e)
    # `primitive` makes `(2 * x + 2) * y` and `2 * ((x + 1) * y)` the same node.
    if len(rest) > 1:
        flat: list[Expr] = []
        for e in rest:
            if type(e) is Sum:
                content, e = primitive(e)
                scale *= content
            flat += e.factors if type(e) is Product else (e,)
        return linear((Product(tuple(by_key(flat, order_key))), scale)) if scale else ZERO
    return linear((rest[0], scale)) if rest else Const(scale)


def primitive(e: Sum) -> tuple[int, Expr]:
    """Return `(content, rest)` with `e = content * rest` and the largest integer `content`.

    The first coefficient of `rest` is positive.
    """
    content = abs(e.const)
    for _, c in e.terms:
        content = _gcd(content, c)
    if e.terms[0][1] < 0:
        content = -content
    if content == 1:
        return 1, e
    return content, from_terms([(t, c // content) for t, c in e.terms], e.const // content)


def operators(e: Expr) -> int:
    """Return the number of operators of the printed expression; shared parts count each time.

    >>> operators(Dim(0) // 4 * 3 + Dim(1) - 1), operators(Dim(0))
    (4, 0)
    """
    known: dict[Expr, int] = {}
    stack = [e]
    while stack:
        x = stack[-1]
        below = children(x)
        if missing := [y for y in below if y not in known]:
            stack += missing
            continue
        stack.pop()
        count = sum([known[y] for y in below])
        if type(x) is Sum:
            count += len(x.terms) - 1 + (x.const != 0)
            count += sum([c != 1 and c != -1 for _, c in x.terms])
        elif below:
            count += len(below) - 1
        known[x] = count
    return known[e]


def floordiv(num: ExprLike, den: ExprLike) -> Expr:
    """Return `num / den` rounded down.

    A division by constant zero stays an expression without a value.

    >>> print(floordiv(Dim(0), 8), floordiv(-7, 2), floordiv(Dim(0), -1))
    d0 / 8 -4 -d0
    """
    num, den = expr(num), expr(den)
    if type(den) is Const and (d := den.value):
        if type(num) is Const:
            return Const(num.value // d)
        if d == 1 or d == -1:
            return linear((num, d))
    return FloorDiv(num, den)


def ceildiv(num: ExprLike, den: ExprLike) -> Expr:
    """Return `num / den` rounded up.

    >>> print(ceildiv(Dim(0), 8), ceildiv(7, 2))
    d0 ceildiv 8 4
    """
    num, den = expr(num), expr(den)
    if type(den) is Const and (d := den.value):
        if type(num) is Const:
            return Const(-(-num.value // d))
        if d == 1 or d == -1:
            return linear((num, d))
    return CeilDiv(num, den)


def mod(num: ExprLike, den: ExprLike) -> Expr:
    """Return `num` modulo `|den|`, in `[0, |den|)`.

    >>> print(mod(Dim(0), 8), mod(-7, 4), mod(-7, -4))
    d0 mod 8 1 1
    """
    num, den = expr(num), expr(den)
    if type(den) is Const and (d := den.value):
        if type(num) is Const:
            return Const(num.value % abs(d))
        if d == 1 or d == -1:
            return ZERO
        if d < 0:  # equal, and a map with it can be printed and read again
            return Mod(num, Const(-d))
    return Mod(num, den)
