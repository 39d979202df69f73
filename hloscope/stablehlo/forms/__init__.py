"""Pretty forms of the dialects' ops, both directions from one row each.

>>> FORMS["stablehlo"]["stablehlo.add"].read.__name__
'read'
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir.asm import AsmParser, AsmPrinter, Form, Forms, State
from hloscope.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    EnumAttr,
    IntegerAttr,
    StructAttr,
)
from hloscope.mlir.ir import Operation
from hloscope.mlir.types import I32
from hloscope.stablehlo.forms import (
    directives,
    implied,
    loops,
    numbers,
    regions,
    rows,
    special,
    types,
    upstream,
)
from hloscope.stablehlo.forms.language import Context, Directive, compile_form

__all__ = ["FORMS"]

_DIRECTIVES: Final[dict[str, Directive]] = {
    **directives.DIRECTIVES,
    **types.DIRECTIVES,
    **implied.DIRECTIVES,
    **numbers.DIRECTIVES,
    **upstream.DIRECTIVES,
    **regions.DIRECTIVES,
}

_TABLES: Final = {
    "stablehlo": rows.STABLEHLO,
    "chlo": rows.CHLO,
    "check": rows.CHECK,
    "interpreter": rows.INTERPRETER,
    "arith": rows.ARITH,
    "tensor": rows.TENSOR,
    "shape": rows.SHAPE,
    "sdy": rows.SDY,
    **rows.OTHERS,
}

_ACCURACY: Final[dict[str, Attribute]] = {
    "result_accuracy": StructAttr(
        "stablehlo",
        "result_accuracy",
        (("mode", EnumAttr("stablehlo", "result_accuracy_mode", "DEFAULT")),),
    )
}
_ACCURATE: Final = (
    "cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan"
    " tanh"
)
_NO: Final = BoolAttr(False)
_NONE: Final = ArrayAttr(())

DEFAULTS: Final[dict[str, dict[str, Attribute]]] = {
    **{f"stablehlo.{name}": _ACCURACY for name in _ACCURATE.split()},
    "stablehlo.cholesky": {"lower": _NO},
    "stablehlo.composite": {
        "composite_attributes": DictAttr(()),
        "version": IntegerAttr(0, I32),
    },
    "stablehlo.custom_call": {
        "has_side_effect": _NO,
        "api_version": IntegerAttr(1, I32),
        "called_computations": _NONE,
        "output_operand_aliases": _NONE,
    },
}
"""Values of attributes that pretty forms leave out, by op."""


class _Lazy:
    """A form that is compiled when it is first used."""

    __slots__ = ("form", "name", "row")

    def __init__(self, name: str, row: str) -> None:
        self.name, self.row = name, row
        self.form: Form | None = None

    def compiled(self) -> Form:
        form = self.form
        if form is None:
            context = Context(DEFAULTS.get(self.name, {}))
            form = self.form = compile_form(self.row, _DIRECTIVES, context)
        return form

    def read(self, parser: AsmParser, state: State) -> None:
        (self.form or self.compiled()).read(parser, state)

    def write(self, printer: AsmPrinter, op: Operation) -> None:
        (self.form or self.compiled()).write(printer, op)


def _forms(dialect: str) -> dict[str, Form]:
    lazy = (
        _Lazy(f"{dialect}.{name}", row) for row, names in _TABLES[dialect] for name in names.split()
    )
    written = {
        name: form
        for name, form in (special.FORMS | regions.FORMS | loops.FORMS).items()
        if name.startswith(f"{dialect}.")
    }
    return {one.name: Form(one.read, one.write) for one in lazy} | written


FORMS: Final[dict[str, Forms]] = {dialect: _forms(dialect) for dialect in _TABLES}
"""Pretty forms by dialect and the op's full name."""
