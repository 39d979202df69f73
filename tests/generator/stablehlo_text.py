"""Generated programs as StableHLO, in generic form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from tests.generator.program import ASYNC, Node, Program, Region, Spelling, Value, captured

CALLS: Final = {"func.call": "callee = @", "stablehlo.composite": "decomposition = @"}
"""Ops whose region is a function, and the attribute that names it."""


class _Printer:
    """Names values in order; collects the functions that calls need."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.functions: list[str] = []
        self.known: dict[object, str] = {}

    def name(self, value: Value) -> str:
        return self.names.setdefault(value, f"%v{len(self.names)}")

    def listed(self, values: Iterable[Value]) -> str:
        return ", ".join(self.name(value) for value in values)

    def body(self, region: Region, ending: str, indent: str) -> Iterator[str]:
        for node in region.nodes:
            yield from self.node(node, indent)
        types = ", ".join(value.type.mlir() for value in region.results)
        yield f'{indent}"{ending}"({self.listed(region.results)}) : ({types}) -> ()'

    def node(self, node: Node, indent: str) -> Iterator[str]:
        assert node.mlir is not None
        if node.mlir.name.startswith(ASYNC):
            yield from self.asynchronous(node, indent)
            return
        operands, regions = node.operands, node.regions
        attributes = node.mlir.attributes
        if node.mlir.name in CALLS:
            extra = captured(regions[0])
            key = regions[0].function
            called = self.known.get(key) or self.function(regions[0], extra)
            self.known[key] = called
            operands, regions = (*operands, *extra), ()
            attributes = ", ".join(filter(None, [CALLS[node.mlir.name] + called, attributes]))
        given, made = types_of(operands), types_of(node.results)
        left = f"{self.listed(node.results)} = " if node.results else ""
        properties = f" <{{{attributes}}}>" if attributes else ""
        head = f'{indent}{left}"{node.mlir.name}"({self.listed(operands)}){properties}'
        if not regions:
            yield f"{head} : ({given}) -> ({made})"
            return
        yield f"{head} ({{"
        for k, region in enumerate(regions):
            if k:
                yield f"{indent}}}, {{"
            if region.params:
                params = ", ".join(f"{self.name(p)}: {p.type.mlir()}" for p in region.params)
                yield f"{indent}^bb0({params}):"
            yield from self.body(region, "stablehlo.return", indent + "  ")
        yield f"{indent}}}) : ({given}) -> ({made})"

    def asynchronous(self, node: Node, indent: str) -> Iterator[str]:
        """The op in an `async_start`, then what waits for it."""
        (result,), wait = node.results, Value(node.results[0].type)
        params, inner = [Value(o.type) for o in node.operands], Value(result.type)
        alone = replace(
            node,
            operands=tuple(params),
            results=(inner,),
            mlir=Spelling(node.name, node.mlir.attributes if node.mlir else ""),
        )
        future = f"!stablehlo.future<{result.type.mlir()}>"
        operands = self.listed(node.operands)
        yield f'{indent}{self.name(wait)} = "stablehlo.async_start"({operands}) ({{'
        listed = ", ".join(f"{self.name(p)}: {p.type.mlir()}" for p in params)
        yield f"{indent}^bb0({listed}):"
        yield from self.body(Region((), (alone,), (inner,)), "stablehlo.return", indent + "  ")
        yield f"{indent}}}) : ({types_of(node.operands)}) -> {future}"
        waiting = f'{indent}{self.name(result)} = "stablehlo.async_done"({self.name(wait)})'
        yield f"{waiting} : ({future}) -> {result.type.mlir()}"

    def function(self, region: Region, extra: tuple[Value, ...], name: str = "") -> str:
        """The name of a function whose last parameters are what the region captures."""
        inner = _Printer()
        inner.functions, inner.known = self.functions, self.known
        name = name or f"f{len(self.functions)}"
        place = len(self.functions)
        self.functions.append("")
        params = ", ".join(f"{inner.name(p)}: {p.type.mlir()}" for p in (*region.params, *extra))
        results = types_of(region.results)
        lines = "\n".join(inner.body(region, "func.return", "    "))
        scope = "public" if name == "main" else "private"
        self.functions[place] = (
            f"  func.func {scope} @{name}({params}) -> ({results}) {{\n{lines}\n  }}"
        )
        return name


def types_of(values: Iterable[Value]) -> str:
    return ", ".join(value.type.mlir() for value in values)


def stablehlo_text(program: Program) -> str:
    """The program as a module of StableHLO."""
    printer = _Printer()
    printer.function(program.entry, (), "main")
    functions = "\n".join(printer.functions)
    return f"module @program {{\n{functions}\n}}\n"
