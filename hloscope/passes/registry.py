"""Table of all passes by name, each loaded at its first use.

Upstream's names may be written without `stablehlo-`; a pipeline is a name for several passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.lazy import lazy

if TYPE_CHECKING:
    from hloscope.passes.framework import Pass

_ROWS: Final = """
    dynamism.arguments      REFINE_ARGUMENTS          stablehlo-refine-arguments
    dynamism.refining       REFINE_SHAPES             stablehlo-refine-shapes
    dynamism.canonicalize   CANONICALIZE_DYNAMISM     stablehlo-canonicalize-dynamism
    dynamism.assertions     CHECK_SHAPE_ASSERTIONS    stablehlo-check-shape-assertions
    dynamism.exporting      RECOMPOSE                 stablehlo-ext-chlo-recompose-ops
    dynamism.exporting      EXT_REFINE_SHAPES         stablehlo-ext-refine-shapes
    dynamism.exporting      EXT_CANONICALIZE_DYNAMISM stablehlo-ext-canonicalize-dynamism
    dynamism.exporting      VALIDATE                  validate-static-shapes
    folding                 AGGRESSIVE_FOLDER         stablehlo-aggressive-folder
    simplifying             AGGRESSIVE_SIMPLIFICATION stablehlo-aggressive-simplification
    simplifying             TARGET_INDEPENDENT        stablehlo-target-independent-optimization
    legalizing.shape        PASS                      shape-legalize-to-stablehlo
    legalizing.chlo.legalize PASS                     chlo-legalize-to-stablehlo
    legalizing.deprecated   PASS                      stablehlo-legalize-deprecated-ops
    legalizing.compatibility PASS                     stablehlo-compatibility-expander
    legalizing.composite    PASS                      stablehlo-legalize-composite-to-call
    legalizing.wrapping     PASS                      stablehlo-wrap-in-composite
    legalizing.signless     PASS                      stablehlo-convert-to-signless
    general.canonicalize    PASS                      canonicalize
    general.casts           PASS                      reconcile-unrealized-casts
    general.cse             PASS                      cse
    general.locations       PASS                      strip-debuginfo
    general.symbols         SYMBOL_DCE                symbol-dce
    general.symbols         INLINE                    inline
    legalizing.quantized.to_math PASS                 stablehlo-legalize-quant-to-math
    legalizing.quantized.to_qdq PASS                  stablehlo-legalize-quantized-op-to-qdq
    legalizing.quantized.from_qdq PASS                stablehlo-legalize-qdq-to-quantized-op
    legalizing.complex_math PASS                      stablehlo-complex-math-expander
    legalizing.probe        PASS                      interpreter-instrument-with-probe
"""
"""Columns: module in `hloscope.passes`, variable in it, and one or more names of the pass."""

PIPELINES: Final[dict[str, str]] = {
    "chlo-pre-serialization-pipeline": (
        "chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo,reconcile-unrealized-casts"
    ),
    "stablehlo-remove-dynamism": (
        "stablehlo-refine-arguments{*},stablehlo-refine-shapes,stablehlo-canonicalize-dynamism"
    ),
}
"""Pipelines by name; `*` marks the place of options."""


def _table() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for row in _ROWS.strip().splitlines():
        module, variable, *names = row.split()
        for name in names:
            found[name] = f"hloscope.passes.{module}", variable
    return found


PASSES: Final = _table()
"""Module and variable of each pass, by name."""

_PREFIX: Final = "stablehlo-"


def find_pass(name: str) -> Pass:
    """Return the pass of this name.

    Raises:
        UnknownNameError: No pass has this name.

    >>> find_pass("refine-arguments").name
    'stablehlo-refine-arguments'
    """
    where = PASSES.get(name) or PASSES.get(_PREFIX + name)
    if where is None:
        raise UnknownNameError(f"no pass is called `{name}`{did_you_mean(name, pass_names())}")
    found: Pass = getattr(lazy(where[0]), where[1])
    return found


def find_pipeline(name: str, options: str = "") -> str | None:
    """Return the pipeline text for a name; `None` if the name is not that of a pipeline.

    Without `options`, the passes that would take them are left out.

    Raises:
        UnknownNameError: The pipeline does not take options.

    >>> find_pipeline("remove-dynamism")
    'stablehlo-refine-shapes,stablehlo-canonicalize-dynamism'
    """
    text = PIPELINES.get(name) or PIPELINES.get(_PREFIX + name)
    if text is None:
        return None
    if options:
        if "{*}" not in text:
            raise UnknownNameError(f"`{name}` has no options")
        return text.replace("{*}", f"{{{options}}}")
    return ",".join(each for each in text.split(",") if not each.endswith("{*}"))


def passes_of(name: str) -> list[str]:
    """Return the full names of the passes in a pass or pipeline name, optional ones included.

    Raises:
        UnknownNameError: There is no such pass or pipeline.

    >>> passes_of("cse"), len(passes_of("remove-dynamism"))
    (['cse'], 3)
    """
    text = PIPELINES.get(name) or PIPELINES.get(_PREFIX + name) or name
    return [find_pass(each.removesuffix("{*}")).name for each in text.split(",")]


def is_pass(name: str) -> bool:
    """Is it the name of a pass or a pipeline?"""
    return any(full in held for held in (PASSES, PIPELINES) for full in (name, _PREFIX + name))


def pass_names() -> list[str]:
    """Return the names of all passes and pipelines, sorted, without `stablehlo-`."""
    return sorted(name.removeprefix(_PREFIX) for name in (*PASSES, *PIPELINES))
