"""Which parts of the result may take the memory of parameters, as the header says it.

Source: XLA `hlo_parser.cc` (`ParseAliasing`, `ParseBufferDonor`), `HloInputOutputAliasConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hloscope.errors import Diagnostic
from hloscope.hlo_parser import print_type
from hloscope.ir import Module, TupleType, Type
from hloscope.lazy import pattern

_INDEX: Final = r"\{\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\}"
_BUFFER: Final = rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*(?:,\s*(may-alias|must-alias)\s*)?\)"
_ALIAS: Final = pattern(rf"\s*{_INDEX}\s*:\s*{_BUFFER}\s*(?:,|$)")
_DONOR: Final = pattern(rf"\s*{_BUFFER}\s*(?:,|$)")


def check_aliasing(module: Module) -> Iterator[Diagnostic]:
    """Do `input_output_alias` and `buffer_donor` name what there is, and in the grammar?"""
    extras = dict(module.extras)
    for name, entry in (("input_output_alias", _ALIAS), ("buffer_donor", _DONOR)):
        text = extras.get(name)
        if text is not None:
            yield from _check_entries(module, name, text, entry)


def _check_entries(
    module: Module, name: str, text: str, entry: re.Pattern[str]
) -> Iterator[Diagnostic]:
    span, inside = module.entry.span, text.strip()[1:-1]
    at = 0
    while inside[at:].strip():
        found = entry.match(inside, at)
        if found is None:
            form = (
                "{index}: (parameter, {index}, kind)" if entry is _ALIAS else "(parameter, {index})"
            )
            yield Diagnostic(f"{name}: expected {form}, found `{inside[at:].strip()[:40]}`", span)
            return
        at = found.end()
        *outputs, parameter, index, _ = found.groups()
        if outputs:
            yield from _missing(module, name, "the result", module.entry.root.type, outputs[0])
        taken = module.entry.arguments
        if len(parameter) > _DIGITS or int(parameter) >= len(taken):
            message = f"{name}: there is no parameter {parameter}, the entry has {len(taken)}"
            yield Diagnostic(message, span)
        else:
            what = f"parameter {parameter}"
            yield from _missing(module, name, what, taken[int(parameter)], index)


_DIGITS: Final = 9
"""No program has parameters, and no tuple parts, whose numbers have more digits."""


def _missing(module: Module, name: str, what: str, type_: Type, index: str) -> Iterator[Diagnostic]:
    """What an index of a tuple names that is not there."""
    part = type_
    for number in re.findall(r"\d+", index):
        size = len(part.elements) if isinstance(part, TupleType) else 0
        if len(number) > _DIGITS or int(number) >= size:
            text = print_type(type_, layout=False)
            message = f"{name}: {what}, {text}, has no part {{{index}}}"
            yield Diagnostic(message, module.entry.span)
            return
        assert isinstance(part, TupleType)
        part = part.elements[int(number)]
