"""Tests of rewritten chains: both programs run on numbered elements."""

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
"""Maximum number of elements of all values of a program that is run."""


class Rewriting(Struct, frozen=True):
    """A shorter program for a chain.

    Attributes:
        text: The program in HLO, with the chain's sources as parameters; empty if none is shorter,
            or HLO cannot express it.
        before: The chain as a program in HLO.
        checked: `run` if both programs returned equal results on numbered elements; `proved` if it
            was not run.
        reason: Why there is no program, or why it was not run.
    """

    text: str = ""
    before: str = ""
    checked: str = ""
    reason: str = ""


def rewrite(chain: Chain, *, most: int = MOST_ELEMENTS) -> Rewriting:
    """Return a shorter program, parsed from its text and compared with the chain by running both.

    Args:
        chain: The chain.
        most: Maximum number of elements of all values up to which the programs are run.

    Raises:
        AssertionError: The results differ, which is a bug of this module.
    """
    try:
        found, old = rewritten(chain), as_it_stands(chain)
        before = print_hlo(old, style="short")
        if found is None:
            return Rewriting(before=before, reason="nothing shorter is known")
        text = print_hlo(found, style="short")
        new = parse_hlo(text)
        size = sum(_size(module) for module in (old, new))  # reads the whole program
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
    """Count the elements of all values of the entry."""
    return sum(ins.type.num_elements for ins in module.entry if isinstance(ins.type, TensorType))


def numbered(type_: Any) -> Array:
    """Return an array of row-major positions, modulo the range of the element type."""
    assert isinstance(type_, TensorType)
    numbers = np.arange(type_.num_elements, dtype=np.int64)
    if type_.element.kind == "pred":
        numbers %= 2
    elif type_.element.bits < 8:
        numbers %= 1 << (type_.element.bits - 1)
    with np.errstate(all="ignore"):
        return numbers.astype(dtype_of(type_.element)).reshape(type_.shape)


def same_values(a: Any, b: Any) -> bool:
    """Are two arrays equal bit by bit, with all NaNs equal?"""
    one, other = np.asarray(a), np.asarray(b)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    with np.errstate(all="ignore"):
        nans = (one != one) & (other != other)
        return bool(np.all((one == other) | nans))
