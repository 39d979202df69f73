"""Programs with one fault: a type, a size, an attribute or an operand of one op is changed.

Types are changed consistently: the operand is replaced by a fresh value of the new type, so that
the op itself has to find the fault, not the reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

ELEMENTS = (
    "f32 f64 bf16 i1 i4 i8 i32 i64 ui32 index complex<f32> !quant.uniform<i8:f32,1.0:1>"
    " !quant.uniform<i8:f32:0,{1.0,2.0}>"
).split()
OTHERS = (
    "!stablehlo.token tensor<f32> tensor<*xf32> tuple<tensor<f32>> i32 memref<2xf32>"
    " tensor<2x3xf32>"
).split()
_OP = re.compile(
    r'^(\s*)(?:(%[\w#:]+) = )?"((?:stablehlo|chlo)\.[\w-]+)"\(([^()]*)\)(.*) : \((.*)\) -> (.*)$'
)
_TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)([^#]*?)(, #.*)?>")
_NUMBER = re.compile(r"(?<=[\[ ,:=<])-?\d+(?=[\],> :)}])")


def programs(folder: Path) -> list[tuple[str, str]]:
    """Upstream's accepted programs in generic form, with their names."""
    with (folder / "oracle/verify.jsonl").open() as lines:
        records = map(json.loads, lines)
        return [(r["id"], r["printed_generic"]) for r in records if r.get("printed_generic")]


def mutants(folder: Path, seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield programs with a fault, and the names of those they were made of."""
    random = Random(seed)
    whole = programs(folder)
    while count:
        name, text = random.choice(whole)
        changed = mutate(text, random)
        if changed is not None:
            count -= 1
            yield name, changed


def mutate(text: str, random: Random) -> str | None:
    """The program with one op changed; `None` if that did not work out."""
    lines = text.split("\n")
    places = [(i, m) for i, line in enumerate(lines) if (m := _OP.match(line)) and "({" not in m[5]]
    if not places:
        return None
    at, found = random.choice(places)
    indent, result, name, used, middle, inputs, outputs = found.groups()
    operands, types = split(used), split(inputs)
    results = split(outputs[1:-1] if outputs.startswith("(") else outputs)
    before, after = "", ""
    match random.choices(["operand", "result", "number"], (6, 3, 1))[0]:
        case "operand" if types:
            i = random.randrange(len(types))
            types[i], operands[i] = other_type(types[i], random), "%changed"
            before = f'{indent}%changed = "x.make"() : () -> {types[i]}\n'
        case "result" if results:
            if result:
                after = f'\n{indent}{result} = "x.make"() : () -> ({", ".join(results)})'
                result = "%changed" + result[result.find(":") :] * (":" in result)
            i = random.randrange(len(results))
            results[i] = other_type(results[i], random)
        case _ if numbers := list(_NUMBER.finditer(middle)):
            number = random.choice(numbers)
            n = int(number[0])
            new = random.choice([n + 1, n - 1, -1, 0, 100])
            middle = f"{middle[: number.start()]}{new}{middle[number.end() :]}"
        case _:
            return None
    equals = f"{result} = " if result else ""
    signature = f"({', '.join(types)}) -> ({', '.join(results)})"
    lines[at] = (
        f'{before}{indent}{equals}"{name}"({", ".join(operands)}){middle} : {signature}{after}'
    )
    return "\n".join(lines)


def other_type(text: str, random: Random) -> str:
    """A type much like that one, or quite another."""
    found = _TENSOR.fullmatch(text)
    if found is None or random.random() < 0.03:
        return random.choice(OTHERS)
    sizes, element = found[1].split("x")[:-1], found[2]
    match random.randrange(6):
        case 0 | 1:
            element = random.choice(ELEMENTS)
        case 2:
            sizes.append(random.choice("1234?"))
        case 3 if sizes:
            sizes.pop(random.randrange(len(sizes)))
        case _ if sizes:
            sizes[random.randrange(len(sizes))] = random.choice("??1234589")
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text.replace("->", "\0"):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip().replace("\0", "->") for part in parts if part.strip()]
