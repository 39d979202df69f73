"""Verification of modules: all errors, with the specification's constraints."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.verifier.expected import expectations as expectations, mismatches as mismatches
    from hloscope.verifier.hlo import (
        verify_hlo as verify_hlo,
        verify_instructions as verify_instructions,
    )
    from hloscope.verifier.hlo.types import Kind as Kind, inferred as inferred, kind_of as kind_of
    from hloscope.verifier.stablehlo.text import (
        first_errors as first_errors,
        verify_text as verify_text,
    )
    from hloscope.verifier.stablehlo.walk import verify_mlir as verify_mlir

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
