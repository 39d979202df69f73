"""Generated programs as HLO: regions become computations, and are handed what they capture.

A call is handed it after its operands, a branch as its one operand, a loop as parts of its value
that every iteration hands on.  Bodies of other ops cannot be handed anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from tests.generator.program import Node, Program, Region, Value, captured
from tests.generator.value_types import Tensor, Tuple, Type

Names = dict[Value, str]
_CONTEXT: Final = Tensor("u32")


class HloTextError(Exception):
    """HLO has no such program: the body of an op that hands nothing in captures a value."""


class _Printer:
    """Collects computations; names are unique in the module."""

    def __init__(self) -> None:
        self.computations: list[str] = []
        self.functions: dict[object, str] = {}
        self.used = 0

    def fresh(self, stem: str = "v") -> str:
        self.used += 1
        return f"{stem}{self.used}"

    # ---------------------------------------------------------------------------- computations

    def computation(self, region: Region, extra: tuple[Value, ...] = (), *, entry: str = "") -> str:
        """A computation of one parameter for each of the region's, then of what it captures."""
        writer = _Writer(self)
        params = (*region.params, *extra)
        for number, value in enumerate(params):
            writer.names[value] = writer.line(value.type, f"parameter({number})", stem="p")
        return self.closed(writer, region, entry=entry)

    def packed(self, region: Region, values: tuple[Value, ...], handed_on: bool) -> str:
        """A computation of one tuple of these values, which is handed on where asked for."""
        writer = _Writer(self)
        whole = Tuple(tuple(value.type for value in values))
        param = writer.line(whole, "parameter(0)", stem="p")
        for number, value in enumerate(values):
            writer.names[value] = writer.part(param, value.type, number)
        rest = values[len(region.params) :] if handed_on else ()
        return self.closed(writer, region, rest, is_tuple=handed_on)

    def closed(
        self,
        writer: _Writer,
        region: Region,
        rest: tuple[Value, ...] = (),
        *,
        is_tuple: bool = False,
        entry: str = "",
    ) -> str:
        """End a computation with the region's results, and what is handed on."""
        if unknown := [v for v in captured(region) if v not in writer.names]:
            raise HloTextError(f"captures {len(unknown)} values")
        writer.nodes(region)
        results = (*region.results, *rest)
        if is_tuple or len(results) != 1:
            root = writer.tuple_of(results)
        else:
            (root,) = (writer.names[value] for value in results)
        lines = [
            f"  ROOT {line}" if line.startswith(f"{root} =") else f"  {line}"
            for line in writer.lines
        ]
        name = entry or self.fresh("body")
        head = f"ENTRY {name}" if entry else name
        self.computations.append("\n".join([f"{head} {{", *lines, "}"]))
        return name


class _Writer:
    """The lines of one computation."""

    def __init__(self, printer: _Printer) -> None:
        self.printer = printer
        self.names: Names = {}
        self.lines: list[str] = []

    def line(self, type_: Type, text: str, stem: str = "v") -> str:
        name = self.printer.fresh(stem)
        self.lines.append(f"{name} = {type_.hlo()} {text}")
        return name

    def part(self, whole: str, type_: Type, number: int) -> str:
        return self.line(type_, f"get-tuple-element({whole}), index={number}")

    def tuple_of(self, values: Iterable[Value]) -> str:
        values = tuple(values)
        type_ = Tuple(tuple(value.type for value in values))
        return self.line(type_, f"tuple({self.listed(values)})")

    def listed(self, values: Iterable[Value]) -> str:
        return ", ".join(self.names[value] for value in values)

    def nodes(self, region: Region) -> None:
        for node in region.nodes:
            assert node.hlo is not None
            spelt = SPELT.get(node.hlo.name)
            if spelt is None:
                spelt = started if node.hlo.name.endswith("-start") else plain
            spelt(self, node)

    def emit(self, node: Node, operands: str, calls: Iterable[str]) -> None:
        """The line of a node, and those of the parts of its result."""
        assert node.hlo is not None
        attributes = node.hlo.attributes
        for number, name in enumerate(calls):
            attributes = attributes.replace(f"%{number}", name)
        self.result(node, f"{node.hlo.name}({operands})" + (f", {attributes}" * bool(attributes)))

    def result(
        self, node: Node, text: str, extra: tuple[Value, ...] = (), *, is_tuple: bool = False
    ) -> None:
        """Name the results: one value, or the parts of a tuple; `extra`: more parts."""
        types = [value.type for value in (*node.results, *extra)]
        if len(types) == 1 and not is_tuple:
            self.names[node.results[0]] = self.line(types[0], text)
            return
        whole = self.line(Tuple(tuple(types)), text)
        for number, value in enumerate(node.results):
            self.names[value] = self.part(whole, value.type, number)


def plain(writer: _Writer, node: Node) -> None:
    """An op whose bodies are handed scalars of its operands only."""
    calls = [writer.printer.computation(region) for region in node.regions]
    writer.emit(node, writer.listed(node.operands), calls)


def constant(writer: _Writer, node: Node) -> None:
    """A literal, which is not in the place of attributes."""
    assert node.hlo is not None
    writer.result(node, f"constant({node.hlo.attributes})")


def called(writer: _Writer, node: Node) -> None:
    """`call` and `fusion`: captured values are further operands; a function is written once."""
    region, extra, known = node.regions[0], captured(node.regions[0]), writer.printer.functions
    is_fusion = node.hlo is not None and node.hlo.name == "fusion"
    name = (None if is_fusion else known.get(region.function)) or writer.printer.computation(
        region, extra
    )
    if not is_fusion:
        known[region.function] = name
    writer.emit(node, writer.listed((*node.operands, *extra)), [name])


def asynchronous(writer: _Writer, node: Node) -> None:
    """A call as a chain of `call-start`, `call-update` and `call-done`.

    Its attributes say how many updates there are. The long spelling, `async-start`, needs a
    body of one op, which the region may exceed.
    """
    assert node.hlo is not None
    updates = int(re.findall(r"\d+", node.hlo.attributes)[0])
    extra = captured(node.regions[0])
    name = writer.printer.computation(node.regions[0], extra)
    operands = (*node.operands, *extra)
    parts = tuple(value.type for value in node.results)
    result = parts[0] if len(parts) == 1 else Tuple(parts)
    state = Tuple((Tuple(tuple(v.type for v in operands)), result, Tuple(())))
    state = Tuple((*state.parts[:2], _CONTEXT))
    last = writer.line(state, f"call-start({writer.listed(operands)}), to_apply={name}")
    for _ in range(updates):
        last = writer.line(state, f"call-update({last})")
    writer.result(node, f"call-done({last})")


def started(writer: _Writer, node: Node) -> None:
    """An op as a pair: what starts it, whose state has operands and result, and what waits."""
    assert node.hlo is not None
    name, result = node.hlo.name, node.results[0].type
    operands = tuple(value.type for value in node.operands)
    state: Type = Tuple((Tuple(operands), result, _CONTEXT))
    if name == "all-reduce-start":
        state = result
    elif name == "all-gather-start":
        state = Tuple((*operands, result))
    elif name in ("collective-permute-start", "copy-start"):
        state = Tuple((*operands, result, _CONTEXT, _CONTEXT)[: 4 - (name == "copy-start")])
    attributes = node.hlo.attributes
    for number, region in enumerate(node.regions):
        attributes = attributes.replace(f"%{number}", writer.printer.computation(region))
    text = f"{name}({writer.listed(node.operands)})" + f", {attributes}" * bool(attributes)
    writer.result(node, f"{name.removesuffix('start')}done({writer.line(state, text)})")


def conditional(writer: _Writer, node: Node) -> None:
    """Each branch has one parameter: what it captures, as a tuple."""
    assert node.hlo is not None
    handed, names = [writer.listed(node.operands)], []
    for region in node.regions:
        extra = captured(region)
        if len(extra) == 1:
            handed.append(writer.names[extra[0]])
            names.append(writer.printer.computation(region, extra))
        else:
            handed.append(writer.tuple_of(extra))
            names.append(writer.printer.packed(region, extra, handed_on=False))
    writer.emit(node, ", ".join(handed), names)


def loop(writer: _Writer, node: Node) -> None:
    """The loop's value is a tuple: its parts, then what condition and body capture."""
    condition, body = node.regions
    extra = tuple(dict.fromkeys((*captured(condition), *captured(body))))
    start = writer.tuple_of((*node.operands, *extra))
    names = [
        writer.printer.packed(region, (*region.params, *extra), handed_on=region is body)
        for region in (condition, body)
    ]
    text = f"while({start}), condition={names[0]}, body={names[1]}"
    writer.result(node, text, extra, is_tuple=True)


SPELT: Final[dict[str, Callable[[_Writer, Node], None]]] = {
    "constant": constant,
    "call": called,
    "fusion": called,
    "async-start": asynchronous,
    "conditional": conditional,
    "while": loop,
}


def hlo_text(program: Program) -> str:
    """The program as an HLO module.

    Raises:
        HloTextError: A region captures values that HLO cannot hand in.
    """
    printer = _Printer()
    printer.computation(program.entry, entry="main")
    replicas = f", replica_count={program.replicas}" if program.replicas > 1 else ""
    return "\n\n".join([f"HloModule program{replicas}", *printer.computations]) + "\n"
