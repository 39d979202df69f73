"""Verification: what is wrong with a module, every finding."""

from typing import TYPE_CHECKING

from hloscope.doors import door

if TYPE_CHECKING:
    from hloscope.verifier.hlo.types import inferred as inferred

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__)
