"""Pretty forms of ops, read and printed from the text after `~` in a row.

Forms that a row cannot express are in `special`, `regions` and `loops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hloscope.dialects.defaults import elided
from hloscope.dialects.forms import (
    directives,
    implied,
    loops,
    numbers,
    regions,
    special,
    types,
    upstream,
)
from hloscope.dialects.forms.shared import SHARED
from hloscope.mlir import (
    Context,
    Definition,
    Directive,
    Form,
    compile_form,
    lazy_form,
)

_DIRECTIVES: Final[dict[str, Directive]] = {
    **directives.DIRECTIVES,
    **types.DIRECTIVES,
    **implied.DIRECTIVES,
    **numbers.DIRECTIVES,
    **upstream.DIRECTIVES,
    **regions.DIRECTIVES,
}

_TYPED_LAST: Final = frozenset({"<function>", "<same>"})
_CODED: Final = special.FORMS | regions.FORMS | loops.FORMS


def form_of(row: str, get: Callable[[], Definition]) -> Form | None:
    """Return the pretty form of a row's op, or `None`; `get` returns the definition on first use.

    >>> from hloscope.dialects.rows import compile_row
    >>> row = "tanh | operand:FCQ | result_accuracy?:accuracy | result:FCQ | compatible ~unary"
    >>> form_of(row, lambda: compile_row(row, "stablehlo")) is not None
    True
    """
    _, has_form, text = row.partition(" ~")
    if not has_form:
        return None
    coded = _CODED.get(text)
    if coded is not None:
        return coded
    text = SHARED.get(text, text)
    last = text.rpartition(" : ")[2]

    def compiled() -> Form:
        definition = get()
        form = SHARED.get(definition.form, definition.form)
        return compile_form(form, _DIRECTIVES, Context(elided(definition)))

    return lazy_form(compiled, last[1:-1] if last in _TYPED_LAST else "")
