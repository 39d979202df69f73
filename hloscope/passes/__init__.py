"""Passes: from a module to a module."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.passes.constant_folding import (
        FOLD_BYTES as FOLD_BYTES,
        FOLD_ELEMENTS as FOLD_ELEMENTS,
        FOLD_STEPS as FOLD_STEPS,
        fold as fold,
    )
    from hloscope.passes.framework import (
        Option as Option,
        Pass as Pass,
        PassError as PassError,
        Run as Run,
    )
    from hloscope.passes.patterns import Pattern as Pattern, Patterns as Patterns
    from hloscope.passes.rewriting import Rewriter as Rewriter

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
