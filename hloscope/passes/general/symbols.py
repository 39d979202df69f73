"""`symbol-dce` and `inline`: unused private symbols, calls of functions with one block.

Source: MLIR's `SymbolDCE.cpp`, `Inliner.cpp`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hloscope.mlir import ArrayAttr, Attribute, DictAttr, Operation, StringAttr, SymbolAttr, Value
from hloscope.passes.framework import Pass, Run
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.walks import needed_first

MOST_INLINED: Final = 1 << 18
"""Largest number of operations that inlining adds in all; other calls stay."""


def _symbols_in(operation: Operation) -> Iterator[str]:
    """Yield the symbols that an operation's attributes name."""
    work: list[Attribute] = [*operation.properties.values(), *operation.attributes.values()]
    while work:
        match work.pop():
            case SymbolAttr(root):
                yield root
            case ArrayAttr(parts):
                work += parts
            case DictAttr(entries):
                work += [value for _, value in entries]
            case _:
                pass


def _symbols_by_name(rewriter: Rewriter) -> dict[str, Operation]:
    """Return the operations of the module by the symbol they define."""
    found: dict[str, Operation] = {}
    for operation in rewriter.module.inside:
        name = operation.get("sym_name")
        if isinstance(name, StringAttr):
            found.setdefault(name.text, operation)
    return found


def _is_private(operation: Operation) -> bool:
    return operation.get("sym_visibility") in (StringAttr(b"private"), StringAttr(b"nested"))


def remove_unused(run: Run) -> None:
    """Erase private symbols that no public one uses, directly or through others."""
    rewriter = run.rewriter
    named = _symbols_by_name(rewriter)
    roots = [op for op in rewriter.module.regions[0].blocks[0]] if rewriter.module.regions else []
    work = [op for op in roots if not _is_private(op)]
    kept = set(work)
    # `work` grows while it is traversed: a used symbol uses others.
    for operation in work:
        for inner in rewriter.walk(operation):
            for name in _symbols_in(inner):
                target = named.get(name)
                if target is not None and target not in kept:
                    kept.add(target)
                    work.append(target)
    for operation in roots:
        if operation not in kept and isinstance(operation.get("sym_name"), StringAttr):
            rewriter.erase(operation)
            run.fired["unused symbol"] += 1


def _callee(operation: Operation, named: dict[str, Operation]) -> Operation | None:
    """Return the called function; `None` if the op is not a call that can be inlined."""
    if operation.name != "func.call" or "no_inline" in operation.properties:
        return None
    symbol = operation.get("callee")
    target = named.get(symbol.root) if isinstance(symbol, SymbolAttr) else None
    if target is None or target.name != "func.func" or "no_inline" in target.properties:
        return None
    blocks = target.regions[0].blocks if target.regions else ()
    if len(blocks) != 1 or blocks[0].operations[-1:] == ():
        return None
    types = [value.type for value in blocks[0].arguments]
    if types != [value.type for value in operation.operands]:
        return None
    last = blocks[0].operations[-1]
    if last.name != "func.return":
        return None
    results = [value.type for value in last.operands]
    return target if results == [value.type for value in operation.results] else None


def _order(rewriter: Rewriter, named: dict[str, Operation]) -> list[Operation]:
    """Return the functions, callees before callers; a cycle is cut at one of its functions."""
    calls = {
        op: [t for inner in rewriter.walk(op) if (t := _callee(inner, named)) is not None]
        for op in named.values()
        if op.name == "func.func"
    }
    return [*needed_first(calls, calls.__getitem__)]


def _inline(run: Run) -> None:
    """Inline calls, callees before callers, and erase functions that became unused."""
    rewriter = run.rewriter
    named = _symbols_by_name(rewriter)
    order = _order(rewriter, named)
    # A function is inlined only after its own calls were, so that its copies need no more work.
    place = {operation: k for k, operation in enumerate(order)}
    sizes: Counter[Operation] = Counter()
    left = MOST_INLINED
    for function in order:
        for call in [*rewriter.walk(function)]:
            target = _callee(call, named)
            # Only functions earlier in the order are complete.  The others are part of a cycle.
            if target is None or place[target] >= place[function] or sizes[target] > left:
                continue
            left -= sizes[target]
            _replace_call(rewriter, call, target)
            run.fired["inline"] += 1
        sizes[function] = sum(1 for _ in rewriter.walk(function))
    remove_unused(run)


def _replace_call(rewriter: Rewriter, call: Operation, target: Operation) -> None:
    """Replace a call by a copy of the function's body."""
    body = target.regions[0].blocks[0]
    assert isinstance(body, OpenBlock)
    values: dict[Value, Value] = dict(zip(body.arguments, call.operands, strict=True))
    for operation in body.operations[:-1]:
        rewriter.copy(operation, values, before=call)
    returned = body.operations[-1].operands
    rewriter.replace(call, [values.get(value, value) for value in returned])


SYMBOL_DCE: Final = Pass(
    "symbol-dce", remove_unused, "Erases private functions that no public one uses."
)
INLINE: Final = Pass(
    "inline", _inline, "Inlines calls of functions with one block; then `symbol-dce`."
)
