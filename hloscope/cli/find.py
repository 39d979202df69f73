"""Find an instruction by the name a person types."""

from __future__ import annotations

from typing import NamedTuple

from hloscope.cli.near import suggestion
from hloscope.errors import UnknownNameError
from hloscope.ir.graph import Computation, Instruction, Module


class Found(NamedTuple):
    """An instruction and the computation it is in."""

    computation: Computation
    instruction: Instruction


def find(module: Module, name: str) -> Found:
    """The instruction `name`, or `computation/name`, with or without `%`.

    The entry computation comes first, then the others in text order.

    Raises:
        UnknownNameError: There is none, or several outside the entry computation.
    """
    where, slash, plain = name.replace("%", "").rpartition("/")
    if slash:
        if where not in module.computations:
            near = suggestion(where, module.computations)
            raise UnknownNameError(f"no computation `{where}`{near}")
        computation = module.computations[where]
        if plain not in computation.body.by_name:
            near = suggestion(plain, computation.body.by_name)
            raise UnknownNameError(f"no instruction `{plain}` in `{where}`{near}")
        return Found(computation, computation[plain])
    if plain in module.entry.body.by_name:
        return Found(module.entry, module.entry[plain])
    places = [c for c in module if plain in c.body.by_name]
    if not places:
        near = suggestion(plain, (i.name for c in [module.entry, *module] for i in c))
        raise UnknownNameError(f"no instruction `{plain}` in {module.name}{near}")
    if len(places) > 1:
        names = ", ".join(f"`{c.name}/{plain}`" for c in places[:4])
        raise UnknownNameError(f"several computations have an instruction `{plain}`; say {names} …")
    return Found(places[0], places[0][plain])
