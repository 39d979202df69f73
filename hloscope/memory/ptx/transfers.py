"""Loads, stores and atomic operations on global, shared, local and parameter memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NoReturn, TypeAlias

from msgspec import Struct

from hloscope.memory.ptx.counting import changes
from hloscope.memory.ptx.machine import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    BadAddressError,
    Batch,
    KernelError,
    Lanes,
    Operands,
    Read,
    Write,
    fail,
    refuse,
)
from hloscope.memory.ptx.syntax import (
    TYPES,
    Address,
    Instruction,
    Operand,
    PtxType,
    Register,
    Vector,
    from_bits,
    to_bits,
)
from hloscope.support.arrays import Array, Ints, np

# --------------------------------------------------------------------------------------------------
# Loads, stores and atomic operations.
#
# Source: PTX ISA 8.8, "ld", "ld.global.nc", "st", "atom", "red", "Vectors".


Run: TypeAlias = Callable[[Batch, Lanes], None]
_SPACES: Final = {"global", "const", "shared", "local", "param"}
_WITHOUT_MEANING: Final = frozenset(
    "weak relaxed acquire release acq_rel volatile mmio sys gpu cta cluster nc ca cg cs lu cv wb wt"
    " L1 L2 unified noftz evict_normal evict_unchanged evict_first evict_last no_allocate".split()
)
"""Modifiers of memory order and caching, without effect: lanes run in order, without caches."""
_WINDOWS: Final = ((LOCAL_WINDOW, SHARED_WINDOW, "shared"), (PARAM_WINDOW, LOCAL_WINDOW, "local"))


class _Form(Struct, frozen=True):
    """Meaning of a load's or store's modifiers: state space, type and vector length."""

    space: str
    type: PtxType
    parts: int
    rest: tuple[str, ...]

    @property
    def width(self) -> int:
        """Return the bytes that one lane accesses."""
        return self.type.bytes * self.parts


def _form_of(ins: Instruction, operations: frozenset[str] = frozenset()) -> _Form:
    space, parts, rest = "generic", 1, list[str]()
    type_ = None
    for modifier in ins.modifiers:
        head = modifier.partition("::")[0]
        if head in _SPACES:
            space = head
        elif modifier in ("v2", "v4", "v8"):
            parts = int(modifier[1:])
        elif modifier in TYPES and modifier not in ("pred", "tf32"):
            type_ = TYPES[modifier]
        elif modifier in operations:
            rest.append(modifier)
        elif head not in _WITHOUT_MEANING:
            if modifier == "b128":
                refuse(ins, "elements of 128 bits are not supported")
            fail(ins, f"unknown modifier `.{modifier}`")
    if type_ is None:
        fail(ins, "the type is missing or unknown")
    return _Form(space, type_, parts, tuple(rest))


class Place(Struct, frozen=True):
    """An address operand: a function that reads the base, and an offset in bytes."""

    base: Read | None
    offset: int

    def addresses(self, batch: Batch, lanes: Lanes) -> Array:
        """Return the address of each lane as u64, [lanes]."""
        offset = np.uint64(self.offset % (1 << 64))
        if self.base is None:
            return np.full(len(lanes), offset)
        found = self.base(batch, lanes)
        if found.dtype != np.uint64:
            found = found.astype(np.uint64)
        return np.broadcast_to(found + offset, len(lanes))


def place_of(ins: Instruction, operand: Operand, operands: Operands, space: str) -> Place:
    if not isinstance(operand, Address):
        fail(ins, "expected an address in brackets")
    if operand.base is None:
        return Place(None, operand.offset)
    type_ = TYPES["u64"]
    if isinstance(operand.base, Register):
        type_ = operands.register_type(ins, operand.base)
        if type_.bits not in (32, 64):
            fail(ins, f"register `{operand.base.name}` does not hold an address")
        type_ = TYPES[f"u{type_.bits}"]
    elif space == "generic":
        fail(ins, "the address of a variable needs a state space")
    return Place(operands.reads(ins, operand.base, type_), operand.offset)


def _by_space(
    form: _Form, batch: Batch, lanes: Lanes, addresses: Array
) -> Iterator[tuple[str, Lanes, Array]]:
    """Yield each accessed state space, the lanes that access it, and their addresses in it."""
    if form.space != "generic":
        yield form.space, lanes, addresses
        return
    rest = np.ones(len(lanes), bool)
    for high, low, space in _WINDOWS:
        mine = (addresses >= np.uint64(low)) & (addresses < np.uint64(high))
        rest &= ~mine
        if mine.any():
            yield space, Lanes(lanes.index[mine], batch.count), addresses[mine] - np.uint64(low)
    if rest.any():
        yield "global", batch.chosen(lanes, rest), addresses[rest]


def _bad(
    ins: Instruction, verb: str, batch: Batch, lanes: Lanes, error: BadAddressError
) -> NoReturn:
    thread = batch.thread_name(int(lanes.index[error.lane]))
    raise KernelError(f"{thread}: `{ins.name}` {verb} {error.reason}", span=ins.span) from None


def _own_memory(
    ins: Instruction, verb: str, space: str, batch: Batch, lanes: Lanes, at: Array, width: int
) -> tuple[Array, Ints]:
    """Return the bytes of shared, local or parameter memory, and each lane's offset in them.

    Args:
        ins: The instruction.
        verb: What the instruction does, for the error message.
        space: The state space.
        batch: State of the threads.
        lanes: The lanes that access the memory.
        at: Address of each lane within the state space.
        width: Bytes that a lane accesses; an access that is not inside the memory is an error.
    """
    layout = batch.layout
    size = {"shared": layout.shared, "local": layout.local, "param": layout.params}[space]
    offsets = at.astype(np.int64)
    is_wrong = (at > np.uint64(size)) | (offsets + width > size) | (offsets % width != 0)
    if bool(is_wrong.any()):
        lane = int(np.flatnonzero(is_wrong)[0])
        reason = f"byte {int(at[lane]):,} of {size:,} bytes of {space} memory"
        if not at[lane] > size and offsets[lane] + width <= size:
            reason += f": not a multiple of {width}"
        _bad(ins, verb, batch, lanes, BadAddressError(lane, reason))
    if space == "shared":
        return batch.shared, offsets + batch.block_of[lanes.at] * (
            len(batch.shared) // len(batch.blocks)
        )
    if space == "local":
        return batch.local, offsets + lanes.index * (len(batch.local) // batch.count)
    return batch.params, offsets


def locate(
    ins: Instruction,
    number: int,
    kind: str,
    width: int,
    space: str,
    batch: Batch,
    lanes: Lanes,
    at: Array,
) -> tuple[Array, Ints]:
    """Count an access to a state space; return its memory and each lane's offset in it.

    The memory is an array of bytes.

    Args:
        ins: The instruction.
        number: Index of the instruction in the kernel.
        kind: `read`, `written` or `atomic`.
        width: Bytes that a lane accesses.
        space: The state space.
        batch: State of the threads.
        lanes: The lanes that access the memory.
        at: Address of each lane within the state space.
    """
    verb = {"read": "reads", "written": "writes", "atomic": "updates"}[kind]
    if space not in ("global", "const"):
        memory, offsets = _own_memory(ins, verb, space, batch, lanes, at, width)
        if space == "shared":
            place = batch.warp_of[lanes.at], batch.lane_of[lanes.at]
            batch.recorder.note_shared(number, *place, at.astype(np.int64), width)
        return memory, offsets
    try:
        offsets, numbers = batch.memory.locate(at, width, kind)
    except BadAddressError as error:
        _bad(ins, verb, batch, lanes, error)
    warps = batch.warp_of[lanes.at] + batch.first_warp
    starts = batch.memory.starts
    lane_numbers = batch.lane_of[lanes.at]
    batch.recorder.note(number, kind, numbers, warps, lane_numbers, offsets, width, starts)
    return batch.memory.bytes, offsets


def _load(ins: Instruction, number: int, operands: Operands) -> Run:
    form = _form_of(ins)
    if len(ins.operands) not in (2, 3):  # the third operand is a cache policy
        fail(ins, f"expected 2 operands, found {len(ins.operands)}")
    place = place_of(ins, ins.operands[1], operands, form.space)
    writes = [
        operands.writes(ins, o, form.type) for o in parts_of(ins, ins.operands[0], form.parts)
    ]

    def run(batch: Batch, lanes: Lanes) -> None:
        for space, mine, at in _by_space(form, batch, lanes, place.addresses(batch, lanes)):
            memory, offsets = locate(ins, number, "read", form.width, space, batch, mine, at)
            view, first = _numbers(memory, form.type), offsets // form.type.bytes
            loaded = [view[first + i] for i in range(form.parts)]  # before any register changes
            for write, raw in zip(writes, loaded, strict=True):
                write(batch, mine, from_bits(raw, form.type))

    return run


def _numbers(memory: Array, type_: PtxType) -> Array:
    """Return memory as numbers of the size of a type; a shorter rest at the end is dropped."""
    whole = len(memory) // type_.bytes * type_.bytes
    return memory[:whole].view(type_.raw)


def parts_of(ins: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    """Return the parts of a vector operand, or the operand alone.

    Raises:
        ParseError: The operand does not have `count` parts.
    """
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(parts) != count:
        fail(ins, f"expected {count} registers, found {len(parts)}")
    return parts


def _store(ins: Instruction, number: int, operands: Operands) -> Run:
    form = _form_of(ins)
    if len(ins.operands) not in (2, 3):
        fail(ins, f"expected 2 operands, found {len(ins.operands)}")
    if form.space in ("const", "param"):
        fail(ins, f"nothing can be stored in .{form.space} memory")
    place = place_of(ins, ins.operands[0], operands, form.space)
    reads = [operands.reads(ins, o, form.type) for o in parts_of(ins, ins.operands[1], form.parts)]

    def run(batch: Batch, lanes: Lanes) -> None:
        for space, mine, at in _by_space(form, batch, lanes, place.addresses(batch, lanes)):
            memory, offsets = locate(ins, number, "written", form.width, space, batch, mine, at)
            view, first = _numbers(memory, form.type), offsets // form.type.bytes
            for i, read in enumerate(reads):
                # Several lanes may write one address: the last lane's value remains.
                view[first + i] = to_bits(read(batch, mine), form.type, form.type.raw)

    return run


def _atomic(ins: Instruction, number: int, operands: Operands) -> Run:
    has_result = ins.opcode == "atom"
    names = frozenset("add min max and or xor exch inc dec cas".split())
    form = _form_of(ins, names)
    if len(form.rest) != 1:
        fail(ins, "expected one operation, such as .add")
    name = form.rest[0]
    sources = 2 if name == "cas" else 1
    given = ins.operands[1:] if has_result else ins.operands
    if len(given) not in (1 + sources, 2 + sources):
        fail(ins, f"expected an address and {sources} operands")
    types, update = _UPDATES[name]
    if form.type.name not in types.split() or (form.parts > 1 and name == "cas"):
        fail(ins, f"no operation .{name} of .{form.type.name}")
    place = place_of(ins, given[0], operands, form.space)
    type_ = form.type
    rows = [
        [operands.reads(ins, o, type_) for o in parts_of(ins, s, form.parts)]
        for s in given[1 : 1 + sources]
    ]
    results: list[Write] = []
    if has_result:
        results = [
            operands.writes(ins, o, type_) for o in parts_of(ins, ins.operands[0], form.parts)
        ]

    def run(batch: Batch, lanes: Lanes) -> None:
        for space, mine, at in _by_space(form, batch, lanes, place.addresses(batch, lanes)):
            memory, offsets = locate(ins, number, "atomic", form.width, space, batch, mine, at)
            view = _numbers(memory, type_)
            for i in range(form.parts):
                values = [np.broadcast_to(row[i](batch, mine), len(mine)) for row in rows]
                old = apply_in_order(view, offsets // type_.bytes + i, values, update, type_)
                if has_result:
                    results[i](batch, mine, old)

    return run


TRANSFERS: Final[dict[str, Callable[[Instruction, int, Operands], Run]]] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
}
"""For each opcode, a function that decodes an instruction into the function that executes it.

Its second argument is the index of the instruction in the kernel.
"""


# --------------------------------------------------------------------------------------------------
# Atomic operations. Lanes with the same address are executed in the order of threads.
#
# Source: PTX ISA 8.8, "atom".


Update: TypeAlias = Callable[..., Array]
"""Function from the values in memory and the operands to the new values, elementwise."""


def _added(old: Array, value: Array) -> Array:
    return old + value


def _incremented(old: Array, most: Array) -> Array:
    return np.where(old >= most, np.uint32(0), old + np.uint32(1))


def _decremented(old: Array, most: Array) -> Array:
    return np.where((old == 0) | (old > most), most, old - np.uint32(1))


def _swapped(old: Array, expected: Array, value: Array) -> Array:
    found: Array = np.where(old == expected, value, old)
    return found


_UPDATES: Final[dict[str, tuple[str, Update]]] = {
    "add": ("u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2", _added),
    "min": ("u32 s32 u64 s64 f16 f16x2 bf16 bf16x2", lambda old, value: np.fmin(old, value)),
    "max": ("u32 s32 u64 s64 f16 f16x2 bf16 bf16x2", lambda old, value: np.fmax(old, value)),
    "and": ("b32 b64", lambda old, value: old & value),
    "or": ("b32 b64", lambda old, value: old | value),
    "xor": ("b32 b64", lambda old, value: old ^ value),
    "exch": ("b32 b64", lambda old, value: value),
    "inc": ("u32", _incremented),
    "dec": ("u32", _decremented),
    "cas": ("b16 b32 b64", _swapped),
}


def apply_in_order(
    memory: Array, at: Ints, values: list[Array], update: Update, type_: PtxType
) -> Array:
    """Update memory for one lane after another, and return the old value that each lane read.

    The lanes are divided into rounds. Round `r` has the `r`-th lane of each address, so a round has
    no address twice and is one vector operation.

    Args:
        memory: The memory as an array of bits, which is changed.
        at: Index in `memory` for each lane.
        values: Operands of each lane.
        update: The atomic operation.
        type_: The type of the operation.
    """
    # A stable sort keeps lanes of one address in thread order, which decides the result of
    # operations that do not commute.
    order = np.argsort(at, kind="stable")
    places = at[order]
    first = np.flatnonzero(changes(places))
    rounds = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    by_round = np.argsort(rounds, kind="stable")
    bounds = np.cumsum(np.bincount(rounds))
    found = np.empty(len(at), type_.raw)
    begin = 0
    for end in bounds.tolist():
        lanes = order[by_round[begin:end]]
        found[lanes] = memory[at[lanes]]
        old = from_bits(found[lanes], type_)
        memory[at[lanes]] = to_bits(update(old, *[v[lanes] for v in values]), type_, type_.raw)
        begin = end
    return from_bits(found, type_)
