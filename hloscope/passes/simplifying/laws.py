"""Algebraic laws as rows, and the patterns they are.

A law says that its left side is its right side.  Terms are written as the ops are called:
`add(x, 0)`.  In them `x`, `y`, `z` are any values, one name the same value; `c` is a constant and
`n` is none; `0`, `1` and `ones` (all bits set) are splats; a new one needs a type of known sizes.
The side condition is made of words, all of which must hold of the result: see `CONDITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from hloscope.ir import ElementType, TensorType
from hloscope.lazy import pattern
from hloscope.mlir import DenseAttr, Operation, Value, to_array
from hloscope.passes.limits import Known, LimitedRewrite, LimitedRewrites, Limits
from hloscope.passes.reading import maker_of, tensor_of
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import becomes_splat, becomes_value
from hloscope.stablehlo import CONSTANTS

_INTEGERS: Final = ("pred", "signed", "unsigned")

CONDITIONS: Final[Mapping[str, Callable[[TensorType], bool]]] = {
    "integer": lambda type: type.element.kind in _INTEGERS,
}
"""What a word of a side condition says of the type of the result."""


class Law(NamedTuple):
    """One law.

    Attributes:
        left: What is looked for.
        right: What takes its place.
        when: Words of `CONDITIONS`.
        merges: Do discardable attributes go over?
        but: The only elements whose value changes, in words; most laws have none.
    """

    left: str
    right: str
    when: str = ""
    merges: bool = False
    but: str = ""

    @property
    def name(self) -> str:
        """By which statistics and tests call it."""
        return f"{self.left} = {self.right}"


class Term(NamedTuple):
    """A term: the name of an op and its operands, or a name and nothing."""

    name: str
    operands: tuple[Term, ...] | None = None


def parse_term(text: str) -> Term:
    """A term.

    >>> parse_term("add(x, 0)")
    Term(name='add', operands=(Term(name='x', operands=None), Term(name='0', operands=None)))
    """
    stack: list[list[Term]] = [[]]
    names: list[str] = []
    for word in _WORD.findall(text):
        match word:
            case "(":
                names.append(stack[-1].pop().name)
                stack.append([])
            case ")":
                operands = tuple(stack.pop())
                stack[-1].append(Term(names.pop(), operands))
            case ",":
                pass
            case _:
                stack[-1].append(Term(word))
    ((term,),) = stack
    return term


_WORD: Final = pattern(r"\w+|[(),]")
_SPLATS: Final = ("0", "1", "ones")
_Bound: TypeAlias = dict[str, Value]


def patterns_of(laws: Iterable[Law]) -> LimitedRewrites:
    """The laws as rewrites, in their order."""
    rewrites = LimitedRewrites()
    for law in laws:
        left = parse_term(law.left)
        rewrites.add(law.name, f"stablehlo.{left.name}", _rewrite_of(law, left))
    return rewrites


def _rewrite_of(law: Law, left: Term) -> LimitedRewrite:
    right, words = parse_term(law.right), [CONDITIONS[word] for word in law.when.split()]
    makers = _makers(left)

    def rewrite(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
        operands = operation.operands
        for place, names in makers:  # most are told apart by these alone
            maker = operands[place].owner if place < len(operands) else None
            if not isinstance(maker, Operation) or maker.name not in names:
                return False
        bound = match(left, operation, limits)
        if bound is None or len(operation.results) != 1:
            return False
        type = tensor_of(operation.results[0])
        if words and (type is None or not all(holds(type) for holds in words)):
            return False
        return _replaced(law, right, rewriter, operation, bound)

    return rewrite


def _makers(left: Term) -> list[tuple[int, Container[str]]]:
    """Places of operands that only some ops make, and the names of those."""
    found: list[tuple[int, Container[str]]] = []
    for place, term in enumerate(left.operands or ()):
        if term.operands is not None:
            found.append((place, (f"stablehlo.{term.name}",)))
        elif term.name in (*_SPLATS, "c"):
            found.append((place, CONSTANTS))
    return found


def _replaced(
    law: Law, right: Term, rewriter: Rewriter, operation: Operation, bound: _Bound
) -> bool:
    if right.operands is not None:  # the same op of others
        operands = [bound[term.name] for term in right.operands]
        if f"stablehlo.{right.name}" != operation.name or operands == [*operation.operands]:
            return False
        rewriter.set_operands(operation, operands)
        return True
    value = bound.get(right.name)
    if value is None:
        return becomes_splat(rewriter, operation, int(right.name))
    return becomes_value(rewriter, operation, value, merges=law.merges)


def match(left: Term, operation: Operation, limits: Limits) -> _Bound | None:
    """The values that names stand for, if the operation is of the form of the term."""
    bound: _Bound = {}
    work: list[tuple[Term, Operation]] = [(left, operation)]
    for term, made in work:
        operands = term.operands or ()
        if len(made.operands) != len(operands):
            return None
        for inner, value in zip(operands, made.operands, strict=True):
            if inner.operands is not None:
                maker = maker_of(value, f"stablehlo.{inner.name}")
                if maker is None:
                    return None
                work.append((inner, maker))
            elif not _fits(inner.name, value, limits, bound):
                return None
    return bound


def _fits(name: str, value: Value, limits: Limits, bound: _Bound) -> bool:
    """May a name stand for a value?  Then it does."""
    if bound.setdefault(name, value) is not value:
        return False
    if name in ("c", "n"):
        return limits.is_constant(value) == (name == "c")
    return name not in _SPLATS or _is_splat_of(name, limits.known(value))


def _is_splat_of(name: str, known: Known | None) -> bool:
    if known is None or not known.is_splat:
        return False
    return name in _splat_names(bytes(known.raw), known.type.element)


@lru_cache(maxsize=1024)
def _splat_names(raw: bytes, element: ElementType) -> tuple[str, ...]:
    """Which of `0`, `1` and `ones` an element is, by its bytes."""
    if element.kind not in (*_INTEGERS, "float"):
        return ()
    value = to_array(DenseAttr(raw, TensorType(element, ()))).item()
    names = tuple([name for name in ("0", "1") if value == int(name)])
    bits = 1 if element.kind == "pred" else element.bits
    is_all = int.from_bytes(raw, "little") == (1 << bits) - 1 and element.kind != "float"
    return (*names, "ones") if is_all else names


__all__ = ["CONDITIONS", "Law", "Term", "match", "parse_term", "patterns_of"]
