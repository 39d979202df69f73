"""Range-aware simplification of integer expressions.

>>> from hloscope.affine import Dim, Interval, parse_expr
>>> box = {Dim(0): Interval(0, 127), Dim(1): Interval(0, 63)}
>>> print(simplify(parse_expr("((d0 * 64 + d1) / 16) mod 4"), box))
d1 / 16
"""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.simplifier.convert import (
        from_sympy as from_sympy,
        to_latex as to_latex,
        to_sympy as to_sympy,
    )
    from hloscope.simplifier.domain import (
        Constraint as Constraint,
        Domain as Domain,
        forget_domains as forget_domains,
        simplify as simplify,
    )
    from hloscope.simplifier.exact import simplify_exact as simplify_exact
    from hloscope.simplifier.isl_relations import (
        BUDGET as BUDGET,
        Builder as Builder,
        Parameters as Parameters,
        System as System,
        UndecidedError as UndecidedError,
        budgeted as budgeted,
        isl_context as isl_context,
        to_isl as to_isl,
    )
    from hloscope.simplifier.isl_sets import (
        Piece as Piece,
        combine as combine,
        count_results as count_results,
        pieces_of as pieces_of,
    )
    from hloscope.simplifier.isl_tables import (
        Body as Body,
        Read as Read,
        Refutation as Refutation,
        StatementSets as StatementSets,
        Witness as Witness,
        clamped as clamped,
        extent as extent,
        refutations as refutations,
        some_point as some_point,
    )
    from hloscope.simplifier.rule import Rule as Rule, Step as Step, Trace as Trace
    from hloscope.simplifier.verdicts import (
        PROVED as PROVED,
        CounterExample as CounterExample,
        Proof as Proof,
        Table as Table,
        Verdict as Verdict,
        as_tuple as as_tuple,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
