"""A rewriting tried out: both programs run on numbered elements, and must return the same."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from hloscope.arrays import Array, np
from hloscope.errors import HloscopeError
from hloscope.hlo_parser import parse_hlo, print_hlo
from hloscope.interpreter import call, dtype_of
from hloscope.ir import Module, TensorType
from hloscope.movement.chains import Chain
from hloscope.movement.drafts import as_it_stands, rewritten

MOST_ELEMENTS: Final = 1 << 20
"""Elements of all values of a program that is run."""


class Rewriting(Struct, frozen=True):
    """A shorter program for a chain.

    Attributes:
        text: The program in HLO, with the chain's leaves as arguments; "" if none is shorter, or
            HLO cannot say it.
        before: The chain as a program, in HLO.
        checked: How it is known to be right: `run` on numbered elements, or `proved` only, where
            there are too many elements to run it.
        reason: Why there is none.
    """

    text: str = ""
    before: str = ""
    checked: str = ""
    reason: str = ""


def rewrite(chain: Chain, *, most: int = MOST_ELEMENTS) -> Rewriting:
    """The shorter program, parsed again from its text and run beside the one as it stands.

    Args:
        chain: What to rewrite.
        most: Elements of all values together up to which it is run.

    Raises:
        AssertionError: The two differ, which is a bug of this module.
    """
    try:
        found, old = rewritten(chain), as_it_stands(chain)
        before = print_hlo(old, style="short")
        if found is None:
            return Rewriting(before=before, reason="nothing shorter is known")
        text = print_hlo(found, style="short")
        new = parse_hlo(text)
        size = sum(_size(module) for module in (old, new))  # which reads all of it
    except HloscopeError as error:
        return Rewriting(reason=f"HLO cannot say it: {error.message}")
    if size > most:
        return Rewriting(text, before, "proved")
    arguments = [numbered(p.type) for p in old.entry.parameters]
    by_name = dict(zip([p.name for p in old.entry.parameters], arguments, strict=True))
    try:
        expected = call(old, arguments)
        result = call(new, [by_name[p.name] for p in new.entry.parameters])
    except HloscopeError as error:
        return Rewriting(text, before, "proved", f"not run: {error.message}")
    assert same_values(expected, result), f"a rewriting is wrong:\n{before}\n{text}"
    return Rewriting(text, before, "run")


def _size(module: Module) -> int:
    return sum(ins.type.num_elements for ins in module.entry if isinstance(ins.type, TensorType))


def numbered(type_: Any) -> Array:
    """An array whose elements are their row-major positions, as far as its type can tell them."""
    assert isinstance(type_, TensorType)
    numbers = np.arange(type_.num_elements, dtype=np.int64)
    if type_.element.kind == "pred":
        numbers %= 2
    elif type_.element.bits < 8:
        numbers %= 1 << (type_.element.bits - 1)
    with np.errstate(all="ignore"):
        return numbers.astype(dtype_of(type_.element)).reshape(type_.shape)


def same_values(a: Any, b: Any) -> bool:
    """Are two arrays the same bit for bit, but for which NaN is where?"""
    one, other = np.asarray(a), np.asarray(b)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    with np.errstate(all="ignore"):
        nans = (one != one) & (other != other)
        return bool(np.all((one == other) | nans))
