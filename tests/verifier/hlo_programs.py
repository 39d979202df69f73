"""HLO programs of a few instructions: right ones of every opcode, changed ones, free combinations.

A right program is a row of `ROWS`: types of the parameters `a`, `b`, `c` …, then instructions, the
last of which is the root.  A change takes one thing of it: an operand, a type, an attribute, the
opcode, a computation.  A free combination takes opcode, operands, types and attributes from
different rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from tests.verifier.hlo_rows import BINARY, BITS, COMPUTATIONS, ELEMENTS, ROWS, TYPES, UNARY

_WORD: Final = re.compile(r"^(?:(\w+) = )?(.*?) ?([a-z][a-z0-9-]*)\((.*?)\)((?:, [\w-]+=.*)?)$")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_ATTRIBUTE: Final = re.compile(r", ([\w-]+)=(\{.*?\}+(?=, [\w-]+=|$)|[^,]*)")
_NAMES: Final = tuple("abcdefgh")


@dataclass(frozen=True)
class Line:
    """One instruction: a name, a type (empty: not written), opcode, operands and attributes."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    def __str__(self) -> str:
        inside = ", ".join(self.operands)
        return f"{self.name} = {self.type} {self.opcode}({inside}){self.attributes}"


@dataclass(frozen=True)
class Program:
    """Types of the parameters, the instructions, the root last, and what may be called."""

    parameters: tuple[str, ...]
    lines: tuple[Line, ...]
    computations: str = COMPUTATIONS

    @property
    def ops(self) -> tuple[str, ...]:
        """The opcodes."""
        return tuple([line.opcode for line in self.lines])

    def text(self) -> str:
        """The module."""
        named = zip(_NAMES, self.parameters, strict=False)
        body = [f"{n} = {t} parameter({i})" for i, (n, t) in enumerate(named)]
        body += map(str, self.lines)
        body[-1] = "ROOT " + body[-1]
        called = _called("\n".join(body), self.computations)
        return f"HloModule m\n{called}ENTRY e {{\n  " + "\n  ".join(body) + "\n}\n"


def _called(text: str, computations: str) -> str:
    """Those of the computations that the text names."""
    return "".join(
        f"{found[0]}\n"
        for found in _COMPUTATION.finditer(computations)
        if re.search(rf"[={{ ]{found[1]}\b", text)
    )


_COMPUTATION: Final = re.compile(r"^(\w+) \{.*?\}$", re.MULTILINE | re.DOTALL)
_CALLABLE: Final = tuple([found[1] for found in _COMPUTATION.finditer(COMPUTATIONS)])


def _types(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _line(text: str) -> Line:
    found = _WORD.match(text.strip())
    assert found is not None, text
    name, type_, opcode, operands, attributes = found.groups()
    inside = (operands,) if opcode == "constant" else tuple(operands.split(", "))
    return Line(name or "r", type_, opcode, inside if operands else (), attributes)


def _programs() -> Iterator[Program]:
    rows = [row for row in ROWS.split("\n") if row.strip()]
    rows += [f"f32[4,3] | f32[4,3] {opcode}(a)" for opcode in UNARY.split()]
    rows += [f"f32[4,3] f32[4,3] | f32[4,3] {opcode}(a, b)" for opcode in BINARY.split()]
    rows += [f"s32[4] s32[4] | s32[4] {opcode}(a, b)" for opcode in BITS.split()]
    for row in rows:
        parameters, *lines = row.split(" | ") if not row.startswith(" |") else ["", row[3:]]
        yield Program(_types(parameters), tuple(map(_line, lines)))


RIGHT: Final = tuple(_programs())
"""Right programs: every opcode, the asynchronous ones among them."""

OPCODES: Final = tuple(dict.fromkeys(line.opcode for p in RIGHT for line in p.lines))
_LINES: Final = {opcode: [x for p in RIGHT for x in p.lines if x.opcode == opcode]
                 for opcode in OPCODES}  # fmt: skip

# ---------------------------------------------------------------------------------- changes


def _operand_left_out(line: Line, program: Program, c: Random) -> Line:
    if not line.operands:
        return line
    at = c.randrange(len(line.operands))
    return replace(line, operands=line.operands[:at] + line.operands[at + 1 :])


def _operand_repeated(line: Line, program: Program, c: Random) -> Line:
    if not line.operands:
        return line
    return replace(line, operands=line.operands + (c.choice(line.operands),) * c.randint(1, 2))


def _operands_swapped(line: Line, program: Program, c: Random) -> Line:
    return replace(line, operands=tuple(c.sample(line.operands, len(line.operands))))


def _type(line: Line, program: Program, c: Random) -> Line:
    return replace(line, type=other_type(line.type, c))


def _type_left_out(line: Line, program: Program, c: Random) -> Line:
    return replace(line, type="")


def _number(line: Line, program: Program, c: Random) -> Line:
    numbers = list(_NUMBER.finditer(line.attributes))
    if not numbers:
        return line
    one = c.choice(numbers)
    n = int(one[0])
    new = c.choice([n + 1, n - 1, -1, 0, 2, 100])
    text = line.attributes
    return replace(line, attributes=f"{text[: one.start()]}{new}{text[one.end() :]}")


def _number_left_out(line: Line, program: Program, c: Random) -> Line:
    text = line.attributes
    numbers = list(re.finditer(r"(?<=[{,])-?\d+,?|,-?\d+(?=})", text))
    if not numbers:
        return line
    one = c.choice(numbers)
    return replace(line, attributes=text[: one.start()] + text[one.end() :])


def _number_added(line: Line, program: Program, c: Random) -> Line:
    text = line.attributes
    places = list(re.finditer(r"(?<=\d)(?=})", text))
    if not places:
        return line
    at = c.choice(places).start()
    return replace(line, attributes=f"{text[:at]},{c.randrange(4)}{text[at:]}")


def _attribute_left_out(line: Line, program: Program, c: Random) -> Line:
    found = list(_ATTRIBUTE.finditer(line.attributes))
    if not found:
        return line
    one = c.choice(found)
    return replace(line, attributes=line.attributes[: one.start()] + line.attributes[one.end() :])


def _attribute_of_another(line: Line, program: Program, c: Random) -> Line:
    """The value that another program gives an attribute of this name, or one more attribute."""
    other = c.choice(c.choice(RIGHT).lines)
    theirs = list(_ATTRIBUTE.finditer(other.attributes))
    if not theirs:
        return line
    one = c.choice(theirs)
    mine = [m for m in _ATTRIBUTE.finditer(line.attributes) if m[1] == one[1]]
    text = line.attributes
    for m in mine:
        text = text[: m.start()] + text[m.end() :]
    return replace(line, attributes=text + one[0])


def _opcode(line: Line, program: Program, c: Random) -> Line:
    opcode = c.choice(OPCODES)
    attributes = c.choice(_LINES[opcode]).attributes if c.random() < 0.7 else line.attributes
    return replace(line, opcode=opcode, attributes=attributes)


def _asynchronous(line: Line, program: Program, c: Random) -> Line:
    step = c.choice(("start", "update", "done"))
    base = line.opcode.removesuffix("-start").removesuffix("-done").removesuffix("-update")
    return replace(line, opcode=f"{base}-{step}")


def _computation(line: Line, program: Program, c: Random) -> Line:
    used = [name for name in _CALLABLE if re.search(rf"[={{ ]{name}\b", line.attributes)]
    if not used:
        return line
    new = c.choice(_CALLABLE)
    text = re.sub(rf"(?<=[={{ ]){c.choice(used)}\b", new, line.attributes)
    return replace(line, attributes=text)


def _operand_of_another(line: Line, program: Program, c: Random) -> Line:
    known = [*_NAMES[: len(program.parameters)], *(x.name for x in program.lines)]
    before = known[: known.index(line.name)] if line.name in known else known
    if not before or not line.operands:
        return line
    at = c.randrange(len(line.operands))
    return replace(line, operands=(*line.operands[:at], c.choice(before), *line.operands[at + 1 :]))


_CHANGES: Final[tuple[Callable[[Line, Program, Random], Line], ...]] = (
    _operand_left_out,
    _operand_repeated,
    _operands_swapped,
    _operand_of_another,
    _type,
    _type,
    _type_left_out,
    _number,
    _number,
    _number_left_out,
    _number_added,
    _attribute_left_out,
    _attribute_of_another,
    _opcode,
    _asynchronous,
    _computation,
)


def other_type(text: str, c: Random) -> str:
    """A type much like that one, or quite another."""
    found = re.fullmatch(r"(\w+)\[([^]]*)\](.*)", text)
    if c.random() < 0.25:
        return c.choice(TYPES)
    if found is None or text.startswith("token"):
        parts = re.findall(r"\w+\[[^]]*\](?:\{[^}]*\})?", text)
        match c.randrange(4):
            case 0 if parts:
                return c.choice(parts)
            case 1 if parts:
                return f"({', '.join(c.sample(parts, c.randint(0, len(parts))))})"
            case 2 if parts:
                one = c.choice(parts)
                return text.replace(one, other_type(one, c), 1)
            case _:
                return f"({text})"
    element, inside, layout = found.groups()
    sizes = inside.split(",") if inside else []
    match c.randrange(7):
        case 0 | 1:
            element = c.choice((*ELEMENTS, "f32", "s32", "pred", "c64", "token"))
        case 2:
            sizes.insert(c.randint(0, len(sizes)), c.choice("0 1 2 3 4 <=4 ?".split()))
            layout = ""
        case 3 if sizes:
            sizes.pop(c.randrange(len(sizes)))
            layout = ""
        case 4:
            return f"({text})"
        case _ if sizes:
            sizes[c.randrange(len(sizes))] = c.choice("0 1 2 3 4 5 8 <=4 <=3 ?".split())
    return f"{element}[{','.join(sizes)}]{layout}"


_ARRAY: Final = re.compile(r"\b([a-z]\w*)\[([^]\[]*)\](\{[^}]*\})?")


def everywhere(program: Program, c: Random) -> Program:
    """The program with one element type or size replaced wherever it occurs, or of higher rank.

    Much of what comes of it is right: types that no row has.
    """
    arrays = _ARRAY.findall(" ".join([*program.parameters, *(x.type for x in program.lines)]))
    if not arrays:
        return program
    element, inside, _ = c.choice(arrays)
    size, other = c.choice(inside.split(",")), c.choice("0 1 7 <=4 ?".split())
    new, how = c.choice(ELEMENTS), c.randrange(4)
    front = ",".join(c.choices("12", k=c.randint(1, 6)))

    def array(found: re.Match[str]) -> str:
        name, sizes, layout = found[1], found[2].split(",") if found[2] else [], found[3] or ""
        if name == "token":
            return found[0]
        match how:
            case 0 | 1:
                name = new if name == element else name
            case 2:
                sizes = [other if x == size else x for x in sizes]
            case _ if sizes:
                sizes, layout = [front, *sizes], ""
        return f"{name}[{','.join(sizes)}]{layout}"

    def text(old: str) -> str:
        return _ARRAY.sub(array, old)

    lines = [replace(x, type=text(x.type), attributes=text(x.attributes)) for x in program.lines]
    parameters = tuple(map(text, program.parameters))
    return Program(parameters, tuple(lines), text(program.computations))


def changed(program: Program, c: Random) -> Program:
    """The program with one thing changed."""
    if program.parameters and c.random() < 0.3:
        at = c.randrange(len(program.parameters))
        types = list(program.parameters)
        types[at] = other_type(types[at], c).replace(" ", "")
        return replace(program, parameters=tuple(types))
    at = c.randrange(len(program.lines))
    line = c.choice(_CHANGES)(program.lines[at], program, c)
    return replace(program, lines=(*program.lines[:at], line, *program.lines[at + 1 :]))


def combined(c: Random) -> Program:
    """Opcode, operands, types and attributes from anywhere."""
    opcode = c.choice(OPCODES)
    parameters = tuple(c.choice(TYPES) for _ in range(c.randrange(5)))
    if c.random() < 0.5:
        parameters = (c.choice(TYPES),) * c.randrange(5)
    names = _NAMES[: len(parameters)]
    operands = (
        names if c.random() < 0.6 else tuple(c.choices(names, k=c.randrange(6)) if names else ())
    )
    attributes = c.choice(_LINES[opcode]).attributes
    type_ = c.choice([*TYPES, *parameters, *parameters, "", ""])
    return Program(parameters, (Line("r", type_, opcode, tuple(operands), attributes),))


def begun(program: Program) -> Program:
    """The program with its last op begun, updated and ended, as any op of HLO can be."""
    *before, last = program.lines
    named = zip(_NAMES, program.parameters, strict=False)
    types = dict(named) | {line.name: line.type for line in before}
    given = ", ".join(types[name] for name in last.operands)
    whole = f"(({given}), {last.type}, u32[])"
    start = replace(last, name="s", type=whole, opcode=f"{last.opcode}-start")
    update = Line("u", whole, f"{last.opcode}-update", ("s",), "")
    done = Line(last.name, last.type, f"{last.opcode}-done", ("u",), "")
    return replace(program, lines=(*before, start, update, done))


_NOT_UPDATED: Final = ("all-gather", "all-reduce", "collective-permute", "copy")
"""Opcodes with a start and a done of their own, and no update."""

_BEGUN: Final = tuple(
    begun(p) for p in RIGHT if len(p.lines) == 1 and p.parameters and p.ops[0] not in _NOT_UPDATED
)
"""Right programs, asynchronous by the general form of every opcode."""


def program_of(seed: int) -> Program:
    """A right program with other types, one to three changes, or both; or a free combination."""
    c = Random(seed)
    if c.random() < 0.2:
        return combined(c)
    right = _BEGUN if c.random() < 0.1 else RIGHT
    program, changes = c.choice(right), c.choice((1, 1, 1, 2, 3))
    if c.random() < 0.5:
        program, changes = everywhere(program, c), c.choice((0, 0, 0, 1, 2))
    for _ in range(changes):
        program = changed(program, c)
    return program
