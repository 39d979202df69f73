"""Chains of data movement, each with its verdict, proof and rewriting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, Final, NoReturn

from hloscope.api.explaining import check_part
from hloscope.api.invalid import Invalid
from hloscope.cost import running
from hloscope.display import (
    Shown,
    chain_html,
    chain_json,
    chain_svg,
    chain_text,
    preformatted,
    styled,
)
from hloscope.errors import UnknownNameError
from hloscope.fusion import StructureIds
from hloscope.ir import Instruction, Module
from hloscope.movement import (
    Chain,
    Figures,
    Flow,
    Kind,
    Rewriting,
    Savings,
    chain_to,
    chains_of,
    rewrite,
)
from hloscope.visible import visible


class Cancellation(Shown):
    """A chain of data movement, and its verdict.

    >>> import hloscope
    >>> program = hloscope.read('''
    ... ENTRY e {
    ...   p = f32[4,8] parameter(0)
    ...   t = f32[8,4] transpose(p), dimensions={1,0}
    ...   ROOT u = f32[4,8] transpose(t), dimensions={1,0}
    ... }''')
    >>> found = program.root.cancellation()
    >>> found.kind, found.bytes_moved, found.bytes_saved
    (<Kind.NO_OP: 'no-op'>, 512, 256)
    >>> print(found.rewriting.text.strip())
    HloModule rewritten
    <BLANKLINE>
    ENTRY main {
      ROOT p = f32[4,8] parameter(0)
    }
    """

    def __init__(self, chain: Chain, module: Module, movement: Callable[[], Movement]) -> None:
        """Take a chain of a module, and a function that finds all data movement of the module."""
        self.chain: Final = chain
        self.module: Final = module
        self._movement: Final = movement

    def __reduce__(self) -> NoReturn:
        raise TypeError("a chain of a program does not cross processes: send `to_json()` instead")

    @property
    def figures(self) -> Figures:
        """Bytes of the chain.

        Chains may share instructions, so all chains of the program are searched.
        """
        return self._movement().by_sink[self.chain.sink]

    @property
    def name(self) -> str:
        """The name of the last op of the chain."""
        return self.chain.sink.name

    @property
    def kind(self) -> Kind:
        """The verdict."""
        return self.chain.kind

    @property
    def bytes_moved(self) -> int:
        """Bytes that the chain's kernels read and write to move data, in all runs."""
        return self.figures.moved

    @property
    def bytes_saved(self) -> int:
        """Bytes of `bytes_moved` that a proved rewriting removes, in all runs."""
        return self.figures.saved

    @property
    def runs(self) -> int:
        """How often the chain runs when the program runs once."""
        return self.figures.runs

    @property
    def blocking(self) -> str | None:
        """The name of the first op after which the bytes are rearranged; `None` if none is."""
        blocking = self.chain.blocking
        return None if blocking is None else blocking.name

    @cached_property  # it is parsed and run; text, page and JSON read it
    def rewriting(self) -> Rewriting:
        """A shorter program with the same result, parsed and run against the original chain."""
        return rewrite(self.chain)

    def to_json(self) -> dict[str, Any]:
        """The answer as JSON, with its rewriting."""
        return chain_json(self.figures, self.rewriting)

    def to_svg(self) -> str:
        """A picture: what each step does to the dimensions."""
        return chain_svg(self.chain, self.figures)

    def to_html(self) -> str:
        """A page with the picture and the rewriting."""
        return chain_html(self.chain, self.rewriting, self.figures)

    def _repr_html_(self) -> str:
        return styled(self.to_svg() + preformatted(str(self)))

    def __str__(self) -> str:
        return visible(chain_text(self.chain, self.rewriting, self.figures))

    __repr__ = __str__


class Movement:
    """All data movement of a program.

    Attributes:
        module: The program.
        places: How often computations run.
        savings: Bytes that are moved, and those that can be saved, chain by chain.
        notes: What is assumed about how often computations run.
    """

    def __init__(
        self,
        module: Module,
        invalid: Invalid | None = None,
        structure_ids: StructureIds | None = None,
    ) -> None:
        """Find the movement of a module; chains begin and end at invalid instructions.

        Args:
            module: The program.
            invalid: What is wrong with it; the whole program is taken as valid if not given.
            structure_ids: The numbers of its computations' structures, where they are known.
        """
        # The chains end at invalid instructions, whose maps mean nothing.
        without = {} if invalid is None else invalid.reasons
        flow, places = Flow(module, structure_ids, without), list(running(module))
        notes = [note for place in places for note in place.notes]
        if invalid is not None and without:
            places = [place for place in places if place.computation not in invalid.hidden]
            notes.append(invalid.note)
        # Savings count all runs, so the computations whose run count is unknown must be gone by
        # now.
        runs = {place.computation: place.times for place in places}
        self.module: Final = module
        self.places: Final = tuple(places)
        self.savings: Final = Savings(flow, list(chains_of(flow)), runs, without)
        self.notes: Final = tuple(dict.fromkeys(notes))

    @property
    def chains(self) -> list[Chain]:
        """The chains, in the order of the text."""
        return [found.chain for found in self.savings.figures if found.chain is not None]

    @cached_property  # each chain of the program looks itself up
    def by_sink(self) -> dict[Instruction, Figures]:
        """The figures of each chain, by its last op."""
        return {found.value: found for found in self.savings.figures if found.chain is not None}


def movement_of(
    module: Module, invalid: Invalid | None = None, structure_ids: StructureIds | None = None
) -> Movement:
    """All data movement of a module, with the bytes that can be saved.

    Args:
        module: The program.
        invalid: What is wrong with it; no chain leads through invalid instructions.
        structure_ids: The numbers of its computations' structures, where they are known.
    """
    return Movement(module, invalid, structure_ids)


def cancellations(module: Module) -> list[Cancellation]:
    """All chains of a module: largest saving first, then largest movement."""
    movement = movement_of(module)
    found = [Cancellation(chain, module, lambda: movement) for chain in movement.chains]
    found.sort(key=lambda c: (-c.bytes_saved, -c.bytes_moved, not c.kind.is_free))
    return found


def cancellation_of(module: Module, wanted: Sequence[Instruction]) -> list[Cancellation]:
    """The chains that end at the given instructions.

    For an instruction where no chain ends, they are the chains that pass it.

    Raises:
        UnknownNameError: No chain of data movement leads through any of them.
        VerifyError: An instruction of a chain is wrong.
    """
    flow = Flow(module)
    values = [flow.source(ins) for ins in wanted]
    ending = {value: chain for value in values if (chain := chain_to(flow, value)) is not None}
    others = [value for value in values if value not in ending]
    passing = list(chains_of(flow, others)) if others else []
    found: dict[Instruction, Chain] = {}
    for value in values:
        chains = [ending[value]] if value in ending else [c for c in passing if value in c.steps]
        found |= {chain.sink: chain for chain in chains}
    if not found:
        names = ", ".join(f"`{ins.name}`" for ins in wanted[:3])
        raise UnknownNameError(f"no chain of data movement leads through {names}")
    for chain in found.values():
        check_part(module, [*[leaf.value for leaf in chain.leaves], *chain.steps])
    # Only the byte figures need the whole program: it is searched once for all chains, and only
    # if a caller asks for bytes.
    movement = cache(lambda: movement_of(module))
    return [Cancellation(chain, module, movement) for chain in found.values()]
