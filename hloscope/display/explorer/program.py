"""A program as columns of data: the properties of its instructions, and facts on its kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hloscope.cost import Footprint
from hloscope.display import (
    Provenance,
    coalescing_json,
    footprint_json,
    line_printer,
    opcodes,
    provenance_of,
)
from hloscope.display.explorer.page import (
    NOTHING,
    Shared,
    Written,
    in_sequence,
    numbers,
    written,
    written_object,
)
from hloscope.errors import HloscopeError
from hloscope.fusion import StructureIds, leaf_types
from hloscope.hlo_parser import STYLES, TextInstruction, brief_type, rest_printer, unscheduled_key
from hloscope.ir import Computation, Instruction, Module, TensorType, Type, captured
from hloscope.memory import ArrayUse, Coalescing
from hloscope.movement import Chain, Figures
from hloscope.ops import Constant, CustomCall, Fusion, Parameter
from hloscope.support.lazy import once_for_each, pattern
from hloscope.support.source import visible
from hloscope.tiling import Refusal, SymbolicTiles

# --------------------------------------------------------------------------------------------------
# A program as columns: one list for each property of its instructions.
#
# Columns compress far better than lines, and a page reads only those that it shows.


_STYLE: Final = replace(STYLES["short"], control=True, large_constants=False)
_SHORT: Final = 24
MOST_TEXT: Final = 1 << 14
"""Maximum number of characters of an instruction's attributes; a note replaces the rest."""
MOST_OPS: Final = 16
"""Maximum number of ops of a region that is printed with its op.

The page lists the ops of every region.
"""
MOST_NAMED: Final = 1 << 10
"""Maximum number of instructions of each called computation whose names in a text become links."""
_NAME: Final = pattern(r"%([\w$.-]+(?:#\d+)?)")
MOST_LEAVES: Final = 1 << 12
"""Maximum number of tensors of a tuple that the page has."""


class Numbering:
    """Numbers of all instructions of a module, computation by computation.

    Attributes:
        first: For each computation, the index of the first computation with equal structure; its
            own index if there is none before it.
    """

    def __init__(self, module: Module, structure_ids: StructureIds) -> None:
        self.module: Final = module
        self.computations: Final = tuple(module)
        self.numbers: Final[dict[Instruction, int]] = {}
        self.starts: Final[list[int]] = []
        for computation in self.computations:
            self.starts.append(len(self.numbers))
            for ins in computation:
                self.numbers.setdefault(ins, len(self.numbers))
        self.places: Final = {c: k for k, c in enumerate(self.computations)}
        self.first: Final = self._first_equal(structure_ids)

    def __len__(self) -> int:
        return len(self.numbers)

    def _first_equal(self, structure_ids: StructureIds) -> Sequence[int]:
        """Return, for each computation, the index of the first computation with equal structure.

        `structure_ids` has numbers that are equal for equal structures. A computation whose
        instructions are not fully described by the structure has its own index: configs of custom
        calls and values read from outside are not part of a structure.
        """
        places = range(len(self.computations))
        # Texts of MLIR ops depend on more than the structure.
        if self.module.has_tree:
            return places
        of_structure: dict[int, int] = {}
        is_whole: dict[int, bool] = {}
        found = []
        for place, computation in enumerate(self.computations):
            first = place
            if len(computation):
                first = of_structure.setdefault(structure_ids.number(computation), place)
            if first != place and first not in is_whole:
                is_whole[first] = self._is_described(first)
            found.append(first if is_whole.get(first) else place)
        return found

    def _is_described(self, place: int) -> bool:
        """Does the structure describe computation number `place` completely?

        It does not if an instruction is shared, is a custom call, or reads values from outside.
        """
        start, computation = self.starts[place], self.computations[place]
        here = range(start, start + len(computation))
        return all(
            self.numbers[ins] == k
            and not isinstance(ins.op, CustomCall)
            and all([self.numbers.get(o) in here for o in ins.operands])
            for k, ins in zip(here, computation, strict=True)
        )


class _Columns:
    """The properties of a module's instructions as columns: one entry for each instruction."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering: Final = numbering
        self._has_regions: Final = numbering.module.has_tree
        self._opcode_of: Final = opcodes()
        self._of_op: Final[dict[tuple[int, int], tuple[int, int]]] = {}  # by op and number of calls
        self.opcodes, self.types = Shared(visible), Shared(_type_json)
        self.insides: Final = Shared()
        self.opcode: Final[list[int]] = []
        self.type: Final[list[int]] = []
        self.inside: Final[list[int]] = []
        self.operands: Final[list[list[int]]] = []
        self.calls: Final[dict[int, list[int]]] = {}
        self.captured: Final[dict[int, list[int]]] = {}
        self.fused: Final[list[int]] = []
        every: Final[tuple[list[Any], ...]] = self.opcode, self.type, self.inside, self.operands
        # By computation: offsets of instructions with properties outside of the structure.
        own: dict[int, list[int]] = {}
        for place, first in enumerate(numbering.first):
            computation = numbering.computations[place]
            if first == place:
                own[place] = self._add_all(computation)
                continue
            # Structurally equal computations have equal columns, because operands are distances.
            start, there = len(self.opcode), numbering.starts[first]
            for column in every:
                column += column[there : there + len(computation)]
            for offset in own[first]:
                self._add_own(start + offset, computation.instructions[offset])

    def _add_all(self, computation: Computation) -> list[int]:
        """Add a computation's instructions to the columns.

        Return the offsets in the computation of those with callees, and of constants: equal
        computations may differ in them.
        """
        numbers, start = self._numbering.numbers, len(self.opcode)
        own = []
        for ins in computation:
            k = len(self.opcode)
            if numbers[ins] != k:
                continue  # it was added with another computation
            opcode, inside = self._of(ins)
            self.opcode.append(opcode)
            self.inside.append(inside)
            self.type.append(self.types.number_of_same(ins.type))
            self.operands.append([k - numbers.get(o, k) for o in ins.operands])
            if ins.calls or isinstance(ins.op, Constant):
                own.append(k - start)
                self._add_own(k, ins)
        return own

    def _of(self, ins: Instruction) -> tuple[int, int]:
        """Return the number of the opcode, and that of the text in brackets after it.

        -1 without text.
        """
        op = ins.op
        key = id(op), len(ins.calls)
        known = self._of_op.get(key)
        if known is None:
            known = self._of_op[key] = (
                self.opcodes.number(self._opcode_of(ins)),
                self.insides.number(visible(_inside(op)))
                if isinstance(op, Parameter | Constant)
                else -1,
            )
        return known

    def _add_own(self, k: int, ins: Instruction) -> None:
        """Add the properties of instruction number `k` that its structure does not determine.

        They are a constant's value, and the called computations.
        """
        if isinstance(ins.op, Constant):
            self.inside[k] = self._of(ins)[1]
        if not ins.calls:
            return
        if isinstance(ins.op, Fusion):
            self.fused.append(k)
        places, numbers = self._numbering.places, self._numbering.numbers
        called = [places[c] for c in ins.calls if c in places]
        if called:
            self.calls[k] = called
            values = captured(ins) if self._has_regions else ()
            if values:
                self.captured[k] = [k - numbers.get(o, k) for o in values]


def rows(numbering: Numbering) -> Written:
    """Return the data of the page's list of instructions: names, opcodes, types and operands.

    An operand is the distance back to it, so that equal layers have equal data. Consecutive names
    are compressed by `in_sequence`. Values that only regions read are in `captured`, numbered after
    the operands.
    """
    columns = _Columns(numbering)
    entry = numbering.places.get(numbering.module.entry, 0) if numbering.computations else -1
    return written_object(
        {
            "name": in_sequence([visible(ins.name) for ins in numbering.numbers]),
            "opcode": numbers(columns.opcode),
            "type": numbers(columns.type),
            "operands": numbers(columns.operands),
            "opcodes": columns.opcodes.values,
            "types": columns.types.values,
            "calls": columns.calls,
            "captured": columns.captured,
            "insides": columns.insides.values,
            "inside": numbers(columns.inside),
            "fused": numbers(columns.fused),
            "computations": [
                [visible(c.name), start, len(c), _root(numbering, c)]
                for c, start in zip(numbering.computations, numbering.starts, strict=True)
            ],
            "entry": entry,
        }
    )


def _inside(op: Parameter | Constant) -> str:
    """Return the text in the brackets of a parameter or constant, shortened if it is long."""
    if isinstance(op, Parameter):
        return str(op.number)
    text = str(op.literal)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 4]} …"


def _root(numbering: Numbering, computation: Computation) -> int:
    return numbering.numbers.get(computation.root, -1) if len(computation) else -1


def _type_json(type: Type) -> dict[str, Any]:
    """Return a type as JSON: its text, and the tensors in it as `leaf_json` returns them."""
    leaves = [leaf_json(leaf) for leaf in leaf_types(type)[:MOST_LEAVES]]
    return {"text": visible(brief_type(type)), "leaves": leaves}


def leaf_json(type: Type) -> list[Any]:
    """Return a tensor as a JSON list: element type, sizes, bits of an element, and layout.

    A size without a bound is `null`. A row-major layout without tiles is omitted. Any other type is
    a list of its text and `null`.
    """
    if not isinstance(type, TensorType):
        return [visible(brief_type(type)), None]
    told: list[Any] = [visible(str(type.element)), list(type.most), type.element.bits]
    layout = type.layout
    if layout is not None and not (layout.is_row_major and not layout.tiles):
        tiles = "".join(f"T({','.join(map(str, tile))})" for tile in layout.tiles)
        order = ",".join(map(str, layout.minor_to_major))
        told.append(f"{{{order}{':' + tiles if tiles else ''}}}")
    return told


def details(numbering: Numbering) -> Written:
    """Return the data that the page shows for one instruction: attributes and provenance.

    A source position is a number in `frames`; `traces` are lists of positions, innermost first.
    Names in texts of MLIR are replaced by numbers (`_without_names`), so that equal layers have
    equal data.
    """
    line, rest = line_printer(_STYLE, MOST_OPS), rest_printer(_STYLE)
    texts, names, frames = Shared(), Shared(visible), Shared(lambda f: list(map(visible, f)))
    traces = Shared(list)

    def origin(found: Provenance) -> tuple[int, int]:
        places = [frames.number((str(at), at.function)) for at in found.trace]
        return names.number(found.op_name), traces.number(tuple(places))

    numbers_of = once_for_each(origin)  # instructions share their origins

    def told(k: int, ins: Instruction) -> tuple[int, int, int]:
        text = visible(_attributes(ins, rest if ins.location is None else line))
        if ins.location is not None:
            text = _without_names(text, ins, k, numbering)
        return texts.number(text), *numbers_of(provenance_of(ins, numbering.module))

    known: dict[object, tuple[int, int, int]] = {}
    told_of: list[tuple[int, int, int]] = []
    for k, ins in enumerate(numbering.numbers):
        # Instructions with one key have one text: it is printed once.
        key = _details_key(ins)
        found = known.get(key)
        if found is None:
            found = told(k, ins)
            if key is not None:
                known[key] = found
        told_of.append(found)
    return written_object(
        {
            **{
                name: numbers([some[at] for some in told_of])
                for at, name in enumerate(("text", "op_name", "trace"))
            },
            "texts": texts.values,
            "op_names": names.values,
            "frames": frames.values,
            "traces": traces.values,
            "header": [[visible(k), visible(_cut(v))] for k, v in numbering.module.extras],
        }
    )


def _details_key(ins: Instruction) -> tuple[object, ...] | None:
    """Return a key that is equal for instructions with equal details.

    `None` if the details name another instruction.
    """
    if not isinstance(ins, TextInstruction) or ins.calls or ins.control_predecessors:
        return None
    return id(ins.op), bool(ins.operands) or id(ins.type), unscheduled_key(ins)


def _attributes(ins: Instruction, write: Callable[[Instruction], str]) -> str:
    """Return the text that the list of instructions lacks, printed by `write`.

    It is HLO's attributes after the bracket, or the whole op in MLIR. If the instruction cannot be
    printed, the text is the error.
    """
    try:
        return _cut(write(ins))
    except HloscopeError as error:
        return f"({error.message})"


def _without_names(text: str, ins: Instruction, k: int, numbering: Numbering) -> str:
    """Replace names of instructions in the text of an instruction by relative numbers.

    The name becomes `%{a3}` for operand 3, and `%{n}` for an instruction that comes `n`
    instructions later: 0 for the instruction itself, or one that it calls. `%{%}` is a percent
    sign.

    Args:
        text: The text of the instruction.
        ins: The instruction.
        k: Its number.
        numbering: The numbers of all instructions.
    """
    places: dict[str, str] = {}
    for callee in ins.calls:
        for inner in callee.instructions[:MOST_NAMED]:
            number = numbering.numbers.get(inner)
            if number is not None:
                places[visible(inner.name)] = str(number - k)
    # Later entries win: the first operand of a name, then the instruction itself.
    for n, operand in reversed(list(enumerate(ins.operands))):
        if operand in numbering.numbers:
            places[visible(operand.name)] = f"a{n}"
    places[visible(ins.name)] = "0"

    def place_of(found: re.Match[str]) -> str:
        place = places.get(found[1])
        return found[0] if place is None else f"%{{{place}}}"

    return _NAME.sub(place_of, text.replace("%{", "%{%}{"))


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]} … and {len(text) - MOST_TEXT:,} characters more"


# --------------------------------------------------------------------------------------------------
# Facts about kernels (coalescing, bytes, tiles, data movement), as data without names.
#
# Equal kernels of repeated layers then have equal facts, which are stored once.


Facts = dict[str, Any]
_TRAFFIC: Final = ("utilisation", "efficiency", "asked_bytes", "moved_bytes", "requests", "sectors")


class Kernels:
    """Facts on kernels in columns, one for each subject such as `cancel`.

    A column has, for each instruction, the number of the facts about it, or `NOTHING`. Equal facts
    are stored once. Facts name instructions by their distance from a start; the column `from` has
    the distance from each instruction forward to the start of its facts.
    """

    def __init__(self, count: int) -> None:
        self._facts: Final = Shared()
        self._of: Final[dict[str, list[int]]] = {}
        self._from: Final = [0] * count

    def number(self, facts: Mapping[str, Any] | Written) -> int:
        """Return the number of the facts about a kernel; they are added if they are new.

        If they are `Written`, their members must be sorted.
        """
        text = facts if isinstance(facts, Written) else written(facts, sort_keys=True)
        return self._facts.number(text)

    def add(self, subject: str, instruction: int, number: int, start: int | None = None) -> None:
        """Give an instruction facts, in the column of a subject.

        Args:
            subject: Name of the column, such as `cancel`.
            instruction: Number of the instruction.
            number: Number of the facts, as `Kernels.number` returns it.
            start: Number of the instruction from which the facts count distances; `None` if they
                have none.
        """
        column = self._of.get(subject)
        if column is None:
            column = self._of[subject] = [NOTHING] * len(self._from)
        column[instruction] = number
        if start is not None:
            self._from[instruction] = start - instruction

    def to_list(self) -> list[Any]:
        """Return all facts as a list for JSON; `add_computed` reads it in another process."""
        return [self._facts.values, self._of, self._from]

    def add_computed(self, facts: Sequence[Any]) -> None:
        """Add facts that another process returned from `to_list`.

        This object must not have the columns of their subjects yet.
        """
        texts, columns, froms = facts
        number_of = [self.number(Written(text)) for text in texts]
        for subject, column in columns.items():
            self._of[subject] = [n if n == NOTHING else number_of[n] for n in column]
        # The subjects are disjoint, but share this column: only one side has set an entry.
        self._from[:] = [mine or other for mine, other in zip(self._from, froms, strict=True)]

    def to_json(self) -> Written:
        """Return the facts, and the number of each instruction's facts, as JSON."""
        facts = Written(f"[{','.join(self._facts.values)}]")
        of = written_object({subject: numbers(column) for subject, column in self._of.items()})
        return written_object({"facts": facts, "of": of, "from": numbers(self._from)})


def coalescing_facts(answer: Coalescing) -> Facts:
    """Return the transfers of a kernel's warps, in total and for each array, as JSON."""
    told = coalescing_json(answer)
    kept = ("model", "emitter", "wasted_bytes", "utilisation", "efficiency", "xla_heuristic")
    notes = [visible(note) for note in told["notes"]]
    return {
        **{key: told[key] for key in kept},
        "notes": notes,
        "arrays": [
            _array(array, use) for array, use in zip(told["arrays"], answer.arrays, strict=True)
        ],
    }


def _array(array: Facts, use: ArrayUse) -> Facts:
    told = {key: array[key] for key in ("role", "number", "leaf", "xla_map", "precision")}
    told |= {key: array[key] for key in _TRAFFIC if key in array}
    if "best" in array:
        told["best"] = array["best"]["efficiency"]
    if "spoiler" in array:
        told["spoiler"] = visible(array["spoiler"]["text"])
    if use.tile is not None:
        told["tile"] = array["tile"]
        if use.tile.asked:  # otherwise the number of tiles is unknown
            told["tile"] = {**array["tile"], "moved_bytes": use.tile.moved}
    if array["reason"]:
        told["reason"] = visible(array["reason"])
    return told


def footprint_facts(footprint: Footprint, times: int | None) -> Facts:
    """Return the bytes that a kernel must read and write, and its runs, as JSON.

    `times` is the number of runs; `None` if it is unknown.
    """
    told = footprint_json(footprint)
    kept = ("read_bytes", "written_bytes", "flops", "intensity", "reuse", "exact")
    sides = ("reads", "writes")
    parts = ("number", "leaf", "elements", "bytes", "sectors", "reuse", "exact")
    return {
        **{key: told[key] for key in kept},
        **{side: [{key: a[key] for key in parts} for a in told[side]] for side in sides},
        "notes": [visible(note) for note in told["notes"]],
        "times": times,
    }


def tile_facts(symbolic: SymbolicTiles | Refusal) -> Facts:
    """Return the tile sizes with their constraints by XLA, or XLA's reason to refuse, as JSON."""
    if isinstance(symbolic, Refusal):
        return {"refused": visible(f"{symbolic.code}: {symbolic.reason}")}
    return {
        "sizes": [parameter.size for parameter in symbolic.parameters],
        "must": [visible(str(clause)) for clause in symbolic.constraints.clauses],
        "forgotten": [visible(str(clause)) for clause in symbolic.dropped.clauses],
    }


class ChainPlaces(NamedTuple):
    """Positions of a chain's instructions, as distances back from its sink.

    Attributes:
        steps: The ops of the chain.
        moves_at: The first op after which bytes have moved; `None` if there is none.
        sources: The sources.
    """

    steps: tuple[int | None, ...]
    moves_at: int | None
    sources: tuple[int | None, ...]


def chain_places(chain: Chain, numbering: Numbering) -> ChainPlaces:
    """Return the positions of a chain's instructions, as distances back from its sink.

    `numbering` has the number of each instruction. The distance is `None` for an instruction
    without a number.
    """
    number_of = numbering.numbers.get
    sink, blocking = number_of(chain.sink, 0), chain.blocking
    at = None if blocking is None else number_of(blocking)
    return ChainPlaces(
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.steps]),
        None if at is None else sink - at,
        tuple([None if (k := number_of(ins)) is None else sink - k for ins in chain.sources]),
    )


def chain_sources(chain: Chain) -> list[str]:
    """Return the verdict on the movement from each source, as JSON texts.

    They are equal for chains of equal structure.
    """
    return [
        written(
            {
                "proof": str(judged.proof.verdict) if judged.kind.is_free else None,
                "reason": judged.reason and visible(judged.reason),
                "verdict": str(judged.kind),
            }
        )
        for judged in chain.judgements
    ]


def chain_facts(figures: Figures, places: ChainPlaces, sources: Sequence[str]) -> Written:
    """Return the verdict on a chain of data movement, as JSON.

    Programs have thousands of chains that differ only in their positions. So `sources` is encoded
    before, by `chain_sources`, and the members here are written in sorted order.

    Args:
        figures: The chain with its bytes.
        places: Positions of its instructions.
        sources: For each source of the chain, the verdict as JSON text.
    """
    assert figures.chain is not None
    froms = [
        f'{{"of":{numbers(place)},{source[1:]}'
        for place, source in zip(places.sources, sources, strict=True)
    ]
    return Written(
        f'{{"bytes_moved":{figures.moved},"bytes_saved":{figures.saved},'
        f'"moves_at":{numbers(places.moves_at)},"sink":0,"sources":[{",".join(froms)}],'
        f'"steps":{numbers([*places.steps])},"verdict":{written(str(figures.chain.kind))}}}'
    )
