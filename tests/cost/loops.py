"""Random loops in both languages that count their own turns: what the analysis says is compared.

Each loop carries an integer that its body adds 1 to, and returns it.  So the interpreter, which
knows nothing of the analysis, tells how often the body ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

MLIR = {"s": "i", "u": "ui"}
OPS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide",
    "shift-left": "shift_left", "shift-right-logical": "shift_right_logical",
    "shift-right-arithmetic": "shift_right_arithmetic", "xor": "xor", "remainder": "remainder",
    "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or", "not": "not",
    "negate": "negate", "convert": "convert", "copy": "optimization_barrier",
}  # fmt: skip
"""Opcodes of HLO and names of StableHLO."""


@dataclass(frozen=True)
class Loop:
    """A loop, and perhaps one in its body.

    Attributes:
        type: Element type of the counter.
        init: Its first value.
        op: How it changes.
        step: By how much.
        limit: What it is compared with.
        direction: How.
        flipped: The limit is the left operand.
        condition: `plain`, `not`, `and`, `twice` (two comparisons), `or`, or `wide` (of converted
            operands).
        at: Its place in the state.
        others: Arrays in the state.
        update: `plain`, `first` (the constant is the left operand), `twice`, `copied`, `called`.
        carried: The limit is part of the state.
        first: How the first value is made: `constant`, `copy`, `sum`, `convert`, `called`.
        inner: A loop in its body.
        triangle: The limit of the inner loop is this one's counter.
    """

    type: str
    init: int
    op: str
    step: int
    limit: int
    direction: str
    flipped: bool
    condition: str
    at: int
    others: int
    update: str
    carried: bool
    first: str
    inner: Loop | None = None
    triangle: bool = False


def random_loop(random: Random, *, inner: Loop | None = None, type_: str = "") -> Loop:
    """A loop of any kind; most of them end."""
    type_ = type_ or random.choice(["s8", "u8", "s16", "s32", "s32", "u32", "s64"])
    low, high = limits(type_)
    low, high = max(low, -60), min(high, 120)
    op = random.choice(["add"] * 6 + ["subtract"] * 3 + ["multiply", "divide", "shift-left",
                       "shift-right-logical", "shift-right-arithmetic", "xor"])  # fmt: skip
    others = random.randint(1, 3)
    return Loop(
        type=type_,
        init=random.randint(low, high),
        op=op,
        step=random.randint(1, 3) if op.startswith("shift") else random.randint(1, 7),
        limit=random.randint(low, high),
        direction=random.choice(["LT", "LE", "GT", "GE", "NE", "EQ"]),
        flipped=random.random() < 0.4,
        condition=random.choice(["plain"] * 3 + ["not", "and", "twice", "or", "wide"]),
        at=random.randint(0, others),
        others=others,
        update=random.choice(["plain", "first", "twice", "copied", "called"]),
        carried=random.random() < 0.3,
        first=random.choice(["constant", "copy", "sum", "convert", "called"]),
        inner=inner,
        triangle=inner is not None and inner.type == type_ and random.random() < 0.6,
    )


def limits(type_: str) -> tuple[int, int]:
    """Least and greatest value of an element type."""
    bits = int(type_[1:])
    return (0, (1 << bits) - 1) if type_[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Text:
    """Writes instructions of one language, each with a name of its own."""

    def __init__(self, is_hlo: bool) -> None:
        self.is_hlo = is_hlo
        self.count = 0
        self.outside: list[str] = []

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}" if self.is_hlo else f"%v{self.count}"

    def type(self, type_: str) -> str:
        if self.is_hlo:
            return "f32[4]" if type_ == "f32" else f"{type_}[]"
        if type_ == "f32":
            return "tensor<4xf32>"
        return "tensor<i1>" if type_ == "pred" else f"tensor<{MLIR[type_[0]]}{type_[1:]}>"

    def constant(self, lines: list[str], type_: str, value: object) -> str:
        name = self.name()
        if self.is_hlo:
            lines.append(f"{name} = {self.type(type_)} constant({value})")
        else:
            lines.append(f"{name} = stablehlo.constant dense<{value}> : {self.type(type_)}")
        return name

    def op(self, lines: list[str], op: str, type_: str, *args: str, source: str = "") -> str:
        """An op whose operands have the type of its result, or the type `source`."""
        name = self.name()
        if self.is_hlo:
            lines.append(f"{name} = {self.type(type_)} {op}({', '.join(args)})")
        elif source:
            types = f"({self.type(source)}) -> {self.type(type_)}"
            lines.append(f"{name} = stablehlo.{OPS[op]} {', '.join(args)} : {types}")
        else:
            spelled = "sine" if op == "sine" else OPS[op]
            lines.append(f"{name} = stablehlo.{spelled} {', '.join(args)} : {self.type(type_)}")
        return name

    def compare(self, lines: list[str], direction: str, type_: str, a: str, b: str) -> str:
        name = self.name()
        if self.is_hlo:
            lines.append(f"{name} = pred[] compare({a}, {b}), direction={direction}")
        else:
            kind = "SIGNED" if type_[0] == "s" else "UNSIGNED"
            types = f"({self.type(type_)}, {self.type(type_)}) -> tensor<i1>"
            lines.append(f"{name} = stablehlo.compare {direction}, {a}, {b}, {kind} : {types}")
        return name

    def call(self, lines: list[str], type_: str, op: str, a: str, value: int, *, way: str) -> str:
        """An op with a constant, in a computation of its own."""
        name, function = self.name(), self.name().lstrip("%")
        inside: list[str] = []
        if self.is_hlo:
            inside.append(f"a = {self.type(type_)} parameter(0)")
            k = self.constant(inside, type_, value)
            inside.append(f"ROOT r = {self.type(type_)} {op}(a, {k})")
            self.outside.append(f"{function} {{\n" + "\n".join(inside) + "\n}\n")
            called = "to_apply" if way == "call" else "kind=kLoop, calls"
            lines.append(f"{name} = {self.type(type_)} {way}({a}), {called}={function}")
        else:
            k = self.constant(inside, type_, value)
            r = self.op(inside, op, type_, "%a", k)
            signature = f"({self.type(type_)}) -> {self.type(type_)}"
            self.outside.append(
                f"func.func private @{function}(%a: {self.type(type_)}) -> {self.type(type_)} {{\n"
                + "\n".join(inside) + f"\nreturn {r} : {self.type(type_)}\n}}\n"
            )  # fmt: skip
            lines.append(f"{name} = func.call @{function}({a}) : {signature}")
        return name


def program(loop: Loop, *, is_hlo: bool) -> str:
    """A program that returns how often each loop's body runs, the outer one's first."""
    text = Text(is_hlo)
    lines: list[str] = []
    x = text.name() if is_hlo else "%x"
    if is_hlo:
        lines.append(f"{x} = f32[4] parameter(0)")
    zeros = [text.constant(lines, "s32", 0) for _ in range(1 if loop.inner is None else 2)]
    counts = _loop(text, lines, loop, x, zeros, None)
    n = len(counts)
    if is_hlo:
        types = ", ".join(["s32[]"] * n)
        lines.append(f"ROOT r = ({types}) tuple({', '.join(counts)})")
        return "HloModule m\n" + "".join(text.outside) + "ENTRY e {\n" + "\n".join(lines) + "\n}\n"
    types = ", ".join(["tensor<i32>"] * n)
    main = f"func.func public @main(%x: tensor<4xf32>) -> ({types}) {{\n" + "\n".join(lines)
    return f"module {{\n{main}\nreturn {', '.join(counts)} : {types}\n}}\n{''.join(text.outside)}}}"


def _first(text: Text, lines: list[str], loop: Loop) -> str:
    type_, init = loop.type, loop.init
    match loop.first:
        case "copy":
            return text.op(lines, "copy", type_, text.constant(lines, type_, init))
        case "sum":
            one = 1 if init else 0  # so that the other part fits the type as well
            parts = [text.constant(lines, type_, value) for value in (init - one, one)]
            return text.op(lines, "add", type_, *parts)
        case "convert":
            wide = text.constant(lines, "s64", init)
            if type_ == "s64":
                return wide
            return text.op(lines, "convert", type_, wide, source="s64")
        case "called":
            return text.call(lines, type_, "add", text.constant(lines, type_, init), 0, way="call")
    return text.constant(lines, type_, init)


def _condition(text: Text, lines: list[str], loop: Loop, i: str, limit: str) -> str:
    direction, type_ = loop.direction, loop.type
    if loop.condition == "wide" and type_ != "s64":
        i = text.op(lines, "convert", "s64", i, source=type_)
        limit = text.op(lines, "convert", "s64", limit, source=type_)
        type_ = "s64"
    a, b = (limit, i) if loop.flipped else (i, limit)
    if loop.condition == "not":
        opposite = {"LT": "GE", "GE": "LT", "LE": "GT", "GT": "LE", "EQ": "NE", "NE": "EQ"}
        found = text.compare(lines, opposite[direction], type_, a, b)
        return text.op(lines, "not", "pred", found)
    found = text.compare(lines, direction, type_, a, b)
    if loop.condition == "and":
        return text.op(lines, "and", "pred", found, text.constant(lines, "pred", "true"))
    if loop.condition == "or":
        return text.op(lines, "or", "pred", text.constant(lines, "pred", "false"), found)
    if loop.condition == "twice":
        other = text.constant(lines, type_, min(limits(type_)[1], 90))
        return text.op(lines, "and", "pred", found, text.compare(lines, "NE", type_, i, other))
    return found


def _next(text: Text, lines: list[str], loop: Loop, i: str) -> str:
    type_, op, step = loop.type, loop.op, loop.step
    if loop.update == "called":
        return text.call(lines, type_, op, i, step, way="fusion" if text.is_hlo else "call")
    if loop.update == "copied":
        i = text.op(lines, "copy", type_, i)
    if loop.update == "twice" and op in ("add", "subtract"):
        for part in (step // 2, step - step // 2):
            i = text.op(lines, op, type_, i, text.constant(lines, type_, part))
        return i
    k = text.constant(lines, type_, step)
    if loop.update == "first" and op in ("add", "multiply", "xor"):
        return text.op(lines, op, type_, k, i)
    return text.op(lines, op, type_, i, k)


def _loop(
    text: Text, lines: list[str], loop: Loop, x: str, counts: list[str], limit: str | None
) -> list[str]:
    """Write a loop; return the names of the counts after it."""
    types = ["f32"] * loop.others
    types.insert(loop.at, loop.type)
    given = [x] * loop.others
    given.insert(loop.at, _first(text, lines, loop))
    is_carried = loop.carried or (limit is not None and text.is_hlo)
    if is_carried:
        types.append(loop.type)
        given.append(limit or text.constant(lines, loop.type, loop.limit))
    start = len(types)
    types += ["s32"] * len(counts)
    given += counts
    spelled = [text.type(type_) for type_ in types]
    whole = f"({', '.join(spelled)})"
    inside: list[str] = []
    test: list[str] = []
    if text.is_hlo:
        p, q = text.name(), text.name()
        inside.append(f"{p} = {whole} parameter(0)")
        test.append(f"{q} = {whole} parameter(0)")
        parts: list[str] = []
        tested: list[str] = []
        for n, type_ in enumerate(spelled):
            for block, where, found in ((inside, p, parts), (test, q, tested)):
                name = text.name()
                block.append(f"{name} = {type_} get-tuple-element({where}), index={n}")
                found.append(name)
    else:
        parts = tested = [text.name() for _ in types]
    if is_carried:
        bound = tested[start - 1]
    elif limit is not None:
        bound = limit  # the region reads an outer value
    else:
        bound = text.constant(test, loop.type, loop.limit)
    goes_on = _condition(text, test, loop, tested[loop.at], bound)
    i = parts[loop.at]
    new = [text.op(inside, "sine", "f32", part) if type_ == "f32" else part
           for part, type_ in zip(parts, types, strict=True)]  # fmt: skip
    new[loop.at] = _next(text, inside, loop, i)
    new[start] = text.op(inside, "add", "s32", parts[start], text.constant(inside, "s32", 1))
    if loop.inner is not None:
        inner_limit = i if loop.triangle else None
        new[start + 1 :] = _loop(text, inside, loop.inner, new[0 if loop.at else 1],
                                 parts[start + 1 :], inner_limit)  # fmt: skip
    w = text.name()
    if text.is_hlo:
        inside.append(f"ROOT {text.name()} = {whole} tuple({', '.join(new)})")
        last = test.pop()
        test.append(last if last.startswith("ROOT") else f"ROOT {last}")
        body, condition = text.name(), text.name()
        text.outside.append(f"{body} {{\n" + "\n".join(inside) + "\n}\n")
        text.outside.append(f"{condition} {{\n" + "\n".join(test) + "\n}\n")
        t = text.name()
        lines.append(f"{t} = {whole} tuple({', '.join(given)})")
        lines.append(f"{w} = {whole} while({t}), condition={condition}, body={body}")
        after = [text.name() for _ in counts]
        lines += [f"{name} = s32[] get-tuple-element({w}), index={start + n}"
                  for n, name in enumerate(after)]  # fmt: skip
        return after
    header = ", ".join(f"{a} = {b}" for a, b in zip(parts, given, strict=True))
    listed = ", ".join(spelled)
    lines.append(f"{w}:{len(types)} = stablehlo.while({header}) : {listed}\ncond {{")
    lines += [*test, f"stablehlo.return {goes_on} : tensor<i1>", "} do {", *inside]
    lines += [f"stablehlo.return {', '.join(new)} : {listed}", "}"]
    return [f"{w}#{start + n}" for n in range(len(counts))]
