"""Single faults planted in HLO dumps: a size, an element type, an operand, an attribute."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_LINE = re.compile(
    r"^  (?:ROOT )?%?(?P<name>[\w.-]+) = (?P<type>[a-z]\w*\[[^ ]*) (?P<opcode>[\w-]+)"
    r"\((?P<operands>[^()]*)\)(?P<attributes>.*)$",
    re.MULTILINE,
)
_NAME = re.compile(r"%[\w.-]+")


class Fault(NamedTuple):
    """A text with one thing wrong.

    Attributes:
        kind: `size`, `element`, `operand`, `missing`, `attribute`.
        line: The faulty line.
        text: The whole module.
    """

    kind: str
    line: str
    text: str


def faults(text: str, seed: int) -> Iterator[Fault]:
    """Plant faults, one at a time, in random instructions of a module in XLA's own print."""
    rng = random.Random(seed)
    lines = [m for m in _LINE.finditer(text) if m["opcode"] not in ("parameter", "constant")]
    kinds = list(_KINDS)
    while lines:
        kind, found = rng.choice(kinds), rng.choice(lines)
        line = _KINDS[kind](found, lines, rng)
        if line is not None and line != found[0]:
            yield Fault(kind, line, text[: found.start()] + line + text[found.end() :])


def _replaced(found: re.Match[str], group: str, new: str) -> str:
    start, end = (at - found.start() for at in found.span(group))
    return found[0][:start] + new + found[0][end:]


def _numbers(text: str) -> list[re.Match[str]]:
    return list(re.finditer(r"(?<![\w.])\d+(?!\w)", text))


def _more(text: str, rng: random.Random) -> str | None:
    """One number of the text, one larger."""
    numbers = _numbers(text)
    if not numbers:
        return None
    one = rng.choice(numbers)
    return text[: one.start()] + str(int(one[0]) + 1) + text[one.end() :]


def _size(found: re.Match[str], _: object, rng: random.Random) -> str | None:
    sizes, bracket, layout = found["type"].partition("]")
    element, opening, inside = sizes.partition("[")
    changed = _more(inside, rng)
    if changed is None:
        return None
    return _replaced(found, "type", element + opening + changed + bracket + layout)


def _element(found: re.Match[str], _: object, rng: random.Random) -> str | None:
    if found["opcode"] in ("convert", "bitcast-convert", "custom-call", "iota"):
        return None
    element, opening, rest = found["type"].partition("[")
    other = rng.choice([e for e in ("pred", "s32", "c64", "f32") if e[0] != element[0]])
    return _replaced(found, "type", other + opening + rest)


def _operand(found: re.Match[str], lines: list[re.Match[str]], rng: random.Random) -> str | None:
    used = list(_NAME.finditer(found["operands"]))
    body = found.string.rfind("{\n", 0, found.start())
    others = [m for m in lines if body < m.start() < found.start()]
    if not used or not others:
        return None
    one, other = rng.choice(used), rng.choice(others)
    before = re.search(rf"^  (?:ROOT )?{re.escape(one[0])} = (\S+)", found.string[body:], re.M)
    shape = other["type"].partition("{")[0]
    if before is None or before[1].partition("{")[0] == shape:
        return None
    text = found["operands"]
    return _replaced(found, "operands", f"{text[: one.start()]}%{other['name']}{text[one.end() :]}")


def _missing(found: re.Match[str], _: object, rng: random.Random) -> str | None:
    used = found["operands"].split(", ")
    if len(used) < 2 or found["opcode"] in ("custom-call", "concatenate"):
        return None
    del used[rng.randrange(len(used))]
    return _replaced(found, "operands", ", ".join(used))


_ATTRIBUTE = re.compile(
    r"\b(?:dimensions|lhs_contracting_dims|rhs_contracting_dims|lhs_batch_dims|slice|padding|index"
    r"|iota_dimension|dynamic_slice_sizes|offset_dims|collapsed_slice_dims|start_index_map|"
    r"index_vector_dim|slice_sizes|update_window_dims|inserted_window_dims|"
    r"scatter_dims_to_operand_dims|dim_labels|source_target_pairs)=(\{[^}]*\}|\[[^]]*\]|[\w>-]+)"
)


def _attribute(found: re.Match[str], _: object, rng: random.Random) -> str | None:
    known = list(_ATTRIBUTE.finditer(found["attributes"]))
    if not known:
        return None
    one = rng.choice(known)
    changed = _more(one[1], rng)
    if changed is None:
        return None
    text = found["attributes"]
    return _replaced(found, "attributes", text[: one.start(1)] + changed + text[one.end(1) :])


_KINDS: dict[str, Callable[[re.Match[str], list[re.Match[str]], random.Random], str | None]] = {
    "size": _size,
    "element": _element,
    "operand": _operand,
    "missing": _missing,
    "attribute": _attribute,
}
