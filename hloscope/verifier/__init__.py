"""Verification of modules: all errors, each with the violated constraint of the specification."""

from typing import TYPE_CHECKING

from hloscope.support.doors import door

if TYPE_CHECKING:
    from hloscope.verifier.hlo import (
        verify_hlo as verify_hlo,
        verify_instructions as verify_instructions,
    )
    from hloscope.verifier.hlo.types import (
        CheckKey as CheckKey,
        check_key as check_key,
        inferred as inferred,
    )
    from hloscope.verifier.stablehlo.walk import verify_mlir as verify_mlir
    from hloscope.verifier.text import (
        expectations as expectations,
        first_errors as first_errors,
        mismatches as mismatches,
        verify_text as verify_text,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
