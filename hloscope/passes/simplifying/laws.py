"""Algebraic laws as rows, and the patterns that apply them.

A law states that its left side equals its right side.  Terms are written with op names:
`add(x, 0)`.  In terms, `x`, `y`, `z` are any values, equal for equal names; `c` is a constant
and `n` is not; `0`, `1` and `ones` (all bits set) are splats.  A new splat requires a static
type.  The side condition is a list of words of `CONDITIONS`, all true of the result's type.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
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
"""Predicates of the result's type, by the word of a side condition."""


class Law(NamedTuple):
    """One law.

    Attributes:
        left: Term to match.
        right: Replacement.
        when: Words of `CONDITIONS`.
        merges: Copy discardable attributes to the replacement?
        but: Exception: the only elements whose value changes, in words; empty for most laws.
    """

    left: str
    right: str
    when: str = ""
    merges: bool = False
    but: str = ""

    @property
    def name(self) -> str:
        """Name of the law in statistics and tests."""
        return f"{self.left} = {self.right}"


class Term(NamedTuple):
    """A term: an op with operands, or the name of a value with `None`."""

    name: str
    operands: tuple[Term, ...] | None = None


def parse_term(text: str) -> Term:
    """Parse a term.

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
    """Return the laws as rewrites, in their order."""
    rewrites = LimitedRewrites()
    for law in laws:
        left = parse_term(law.left)
        rewrites.add(law.name, f"stablehlo.{left.name}", _rewrite_of(law, left))
    return rewrites


def _rewrite_of(law: Law, left: Term) -> LimitedRewrite:
    """Return the rewrite of a law: match its left side, check its condition, replace."""
    right, words = parse_term(law.right), [CONDITIONS[word] for word in law.when.split()]
    makers = _makers(left)

    def rewrite(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
        operands = operation.operands
        for place, names in makers:  # rejects most operations before the full match
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
    """Return positions of operands that only certain ops produce, with the names of those ops."""
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
    if right.operands is not None:  # the same op with other operands
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
    """Return the value of each name in `left`; `None` if the operation does not match."""
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
    """Bind a name to a value; false if the name is bound to another or does not allow the value."""
    if bound.setdefault(name, value) is not value:
        return False
    if name in ("c", "n"):
        return limits.is_constant(value) == (name == "c")
    return name not in _SPLATS or _is_splat_of(name, limits.known(value))


def _is_splat_of(name: str, known: Known | None) -> bool:
    if known is None or not known.is_splat:
        return False
    return name in _splat_names(bytes(known.raw), known.type.element)


def _splat_names(raw: bytes, element: ElementType) -> tuple[str, ...]:
    """Return which of `0`, `1` and `ones` an element is, given its bytes."""
    if element.kind not in (*_INTEGERS, "float"):
        return ()
    value = to_array(DenseAttr(raw, TensorType(element, ()))).item()
    names = tuple([name for name in ("0", "1") if value == int(name)])
    bits = 1 if element.kind == "pred" else element.bits
    is_all = int.from_bytes(raw, "little") == (1 << bits) - 1 and element.kind != "float"
    return (*names, "ones") if is_all else names


__all__ = ["CONDITIONS", "Law", "Term", "match", "parse_term", "patterns_of"]
