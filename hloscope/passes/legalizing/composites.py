"""Composites: ops wrapped in composites, composites replaced by calls, and probes of results."""

from __future__ import annotations

from typing import Final

from hloscope.errors import Diagnostic
from hloscope.ir import FunctionType, TensorType, Type
from hloscope.mlir import (
    I32,
    Attribute,
    DictAttr,
    IntegerAttr,
    NameLoc,
    Operation,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    Value,
    resolve_location,
)
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.passes.conversion import Conversion
from hloscope.passes.framework import Option, Pass, Run, names, postorder
from hloscope.passes.patterns import Pattern, Patterns
from hloscope.passes.regions import is_terminator
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.stablehlo import clone, region_of

# --------------------------------------------------------------------------------------------------
# `stablehlo-wrap-in-composite`: replaces ops by composites of functions that hold the op.
#
# Source: StableHLO `StablehloWrapInComposite.cpp`.


def _wrap_ops(run: Run) -> None:
    """Replace the ops that the option `op-names` lists by composites; warn about unknown names."""
    rewriter, names = run.rewriter, frozenset(run.options["op-names"])
    for name in run.options["op-names"]:
        if name not in DEFINITIONS:
            message = f"Unknown op name in opNamesOption: '{name}' is not a registered operation."
            run.diagnostics.append(Diagnostic(message, severity="warning"))
    body = rewriter.module.regions[0].blocks[0] if rewriter.module.regions else None
    # The copies in decompositions have the same op names: only ops that exist now are wrapped.
    existing = frozenset(op for op in rewriter.walk() if op.name in names and _is_value(op))
    if not isinstance(body, OpenBlock) or not existing:
        return
    taken: set[object] = {op.properties.get("sym_name") for op in body}
    last: dict[str, int] = {}
    version = IntegerAttr(run.options["version"], I32)

    def wrap(rewriter: Rewriter, operation: Operation) -> bool:
        """Replace an op by a composite whose decomposition applies the op.

        Ops in decompositions that this run has created are not replaced.
        """
        if operation not in existing:
            return False
        if not _is_closed(run, operation):
            return False
        symbol = _free_name(f"{operation.name}.impl", taken, last)
        _wrap(rewriter, operation, symbol, version, body)
        return True

    rows = [Pattern("wrap", tuple(sorted(names)), wrap)]
    for function in reversed([*run.functions()]):
        run.greedy(function, rows, top_down=False)
        if run.failed:
            return


def _is_value(operation: Operation) -> bool:
    """Is the operation neither a terminator nor the definition of a symbol?"""
    return not is_terminator(operation) and "sym_name" not in operation.properties


def _is_closed(run: Run, operation: Operation) -> bool:
    """Do the op's regions read no values from outside?

    Then the op can be moved to another function.
    """
    if not operation.regions:
        return True
    within = [*run.rewriter.walk(operation)][1:]
    own = set(operation.results)
    for inner in (operation, *within):
        own.update(inner.results)
        own.update(a for block in inner.blocks for a in block.arguments)
    for inner in within:
        if not own.issuperset(inner.operands):
            run.error(inner, "using value defined outside the region")
            return False
    return True


def _free_name(base: str, taken: set[object], last: dict[str, int]) -> str:
    """Return `base`, or `base` with a number at its end, that is not in `taken`; add it there.

    `last` has the last number used for each base; it is updated.
    """
    name = base
    while StringAttr(name.encode()) in taken:
        number = last[base] = last.get(base, -1) + 1
        name = f"{base}_{number}"
    taken.add(StringAttr(name.encode()))
    return name


def _wrap(
    rewriter: Rewriter, operation: Operation, symbol: str, version: IntegerAttr, body: OpenBlock
) -> None:
    """Replace an operation by a composite, and insert its decomposition.

    Args:
        rewriter: The rewriter of the module.
        operation: The operation.
        symbol: Name of the decomposition.
        version: Version of the composite.
        body: Block at whose end the decomposition is inserted.
    """
    rewriter.insert(_implementation(operation, symbol), into=body)
    written = {**operation.properties, **operation.attributes}
    properties: dict[str, Attribute] = {
        "name": StringAttr(operation.name.encode()),
        "composite_attributes": DictAttr(tuple(sorted(written.items()))),
        "decomposition": SymbolAttr(symbol),
        "version": version,
    }
    rewriter.replace_by(operation, "stablehlo.composite", operation.operands, properties)


def _implementation(operation: Operation, symbol: str) -> Operation:
    """Return a private function `symbol` that applies a copy of the operation to its arguments."""
    inputs = tuple([value.type for value in operation.operands])
    results = tuple([value.type for value in operation.results])
    arguments = tuple([Value(type, None, k) for k, type in enumerate(inputs)])
    copy = clone(operation, {})
    copy.operands = arguments
    end = Operation("func.return", copy.results)
    return Operation(
        "func.func",
        (),
        (),
        {
            "sym_name": StringAttr(symbol.encode()),
            "function_type": TypeAttr(FunctionType(inputs, results)),
            "sym_visibility": StringAttr(b"private"),
        },
        regions=(region_of(arguments, (copy, end)),),
    )


WRAP_IN_COMPOSITE: Final = Pass(
    "stablehlo-wrap-in-composite",
    _wrap_ops,
    "Wraps ops of given names in composites; each decomposition holds the op.",
    {
        "op-names": Option((), "Full names of the ops.", names),
        "version": Option(default=0, help="Version of the composites.", read=int),
    },
)


# --------------------------------------------------------------------------------------------------
# `stablehlo-legalize-composite-to-call`: replaces composites by calls of their decomposition.
#
# Source: StableHLO `StablehloLegalizeCompositeToCall.cpp`.


PATTERNS: Final = Patterns()

_COMPOSITE: Final = "stablehlo.composite"


@PATTERNS.on(_COMPOSITE)
def composite(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a `composite` by a call of its decomposition.

    The composite's attributes are dropped.
    """
    callee = op.get("decomposition")
    if not isinstance(callee, SymbolAttr):
        return False
    return rewriter.replace_by(op, "func.call", op.operands, {"callee": callee})


def _call_decompositions(run: Run) -> None:
    excepted = frozenset(run.options["except"])

    def is_legal(operation: Operation) -> bool:
        if operation.name != _COMPOSITE:
            return True
        name = operation.get("name")
        return isinstance(name, StringAttr) and name.text in excepted

    Conversion(run, PATTERNS, is_legal).convert_functions()


COMPOSITE_TO_CALL: Final = Pass(
    "stablehlo-legalize-composite-to-call",
    _call_decompositions,
    "Replaces composites by calls of their decompositions.",
    {"except": Option((), "Names of composites that stay.", names)},
    on_functions=True,
)


# --------------------------------------------------------------------------------------------------
# `interpreter-instrument-with-probe`: adds a probe after every result that can be written.
#
# Source: StableHLO `StablehloInstrumentWithProbe.cpp`.


_KINDS: Final = ("pred", "signed", "unsigned", "float", "complex")


def _is_probed(type: Type) -> bool:
    if not isinstance(type, TensorType) or not type.is_static:
        return False
    return type.element.kind in _KINDS and type.element.name != "index"


def _add_probes(run: Run) -> None:
    rewriter, number = run.rewriter, 0
    for operation in postorder(rewriter.module):
        if operation.name == "stablehlo.constant":
            continue
        for value in operation.results:
            if _is_probed(value.type):
                number += 1
                _probe(rewriter, operation, value, _name(operation, number, run))
                run.fired["probe"] += 1


def _name(operation: Operation, number: int, run: Run) -> str:
    location = resolve_location(operation.location)
    if run.options["useDebugInfo"] and isinstance(location, NameLoc):
        return f"{location.name.partition('@')[0]}.{number}"
    return f"probe{number}"


def _probe(rewriter: Rewriter, operation: Operation, value: Value, name: str) -> None:
    """Insert an `interpreter.probe` of a result of an operation, which all users read instead.

    `name` becomes the identifier of the probe.
    """
    block = operation.parent
    assert isinstance(block, OpenBlock)
    following = block.after(operation)
    new = rewriter.create(
        "interpreter.probe",
        (value,),
        {"probe_id": StringAttr.of(name)},
        before=following,
        into=None if following is not None else block,
        types=(value.type,),
        location=operation.location,
    )
    rewriter.replace_uses(value, new.result, lambda user: user is new)


ADD_PROBES: Final = Pass(
    "interpreter-instrument-with-probe",
    _add_probes,
    "Adds a probe after every result of static shape.",
    {
        "useDebugInfo": Option(
            default=False,
            help="Name probes after the locations of their ops.",
        )
    },
)
