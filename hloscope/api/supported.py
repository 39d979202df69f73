"""What hloscope supports: rules of each op, and JSON Schemas of the command's output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from hloscope.display import OpCoverage
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.indexing import coverage as of_rules
from hloscope.interpreter import coverage as of_evaluations
from hloscope.tiling import tile_coverage

# --------------------------------------------------------------------------------------------------
# Coverage: which ops have indexing rules, tile rules and an evaluation in the interpreter.


def coverage() -> list[OpCoverage]:
    """Return one row for each op, sorted by name.

    >>> next(row for row in coverage() if row.op == "transpose")
    OpCoverage(op='transpose', output_to_input='exact', input_to_output='exact', ...)
    """
    evaluated = {row.op: row.is_evaluated for row in of_evaluations()}
    tiled = {row.op: row for row in tile_coverage()}
    return [
        OpCoverage(
            row.op,
            str(row.output_to_input),
            str(row.input_to_output),
            row.reason,
            tiled[row.op].to_operands,
            tiled[row.op].to_outputs,
            tiled[row.op].reason,
            evaluated[row.op],
            "" if evaluated[row.op] else "it has no evaluation",
        )
        for row in of_rules()
    ]


# --------------------------------------------------------------------------------------------------
# JSON Schemas of the command's JSON output.


_FOLDER: Final = Path(__file__).with_name("schemas")


def schema_names() -> tuple[str, ...]:
    """Return the names of the schemas.

    >>> "index" in schema_names()
    True
    """
    return tuple(sorted([path.stem for path in _FOLDER.glob("*.json")]))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an output.

    Args:
        name: A name from `schema_names`, or a value of the key `schema`: `hloscope.index/3`.

    Returns:
        The schema; its `title` is the value of the key `schema` in such JSON.  Objects may get
        more keys without a new version.

    Raises:
        UnknownNameError: The schema does not exist.

    >>> schema("index")["title"]
    'hloscope.index/3'
    >>> schema("hloscope.equal/1")["required"]
    ['schema', 'verdict', 'compared']
    """
    plain, slash, _ = name.removeprefix("hloscope.").partition("/")
    names = schema_names()
    if plain in names:
        text = (_FOLDER / f"{plain}.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text)
        if not slash or found["title"] == name:
            return found
        raise UnknownNameError(f"no schema `{name}`; this version has `{found['title']}`")
    near = did_you_mean(plain, names) or "; `hloscope schema` lists them"
    raise UnknownNameError(f"no schema `{name}`{near}")
