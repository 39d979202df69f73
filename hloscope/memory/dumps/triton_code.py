"""Loads and stores of a Triton kernel in its final layouts, and the tiles of its program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from hloscope.affine import Const, Expr, Interval, Range, Var, variables
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing.layouts import LinearLayout
from hloscope.memory.dumps.buffers import numbers_in
from hloscope.memory.dumps.triton_values import Constraint, Pointer, Value, layout_of, result_of
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Loads and stores of a Triton kernel, with the compiler's final layouts.
#
# `*.triton-to-llvm.txt` prints a kernel before every pass. The last print with tensors has, for
# each load and store, the layout of its tile, and its addresses and mask as arithmetic on program
# ids and ranges, which are read as expressions.
#
# Source: Triton `TritonOps.td`, `TritonGPUAttrDefs.td`; MLIR `ArithOps.td`, `SCFOps.td`, and the
# generic form of operations in the MLIR language reference.


_MARK: Final = "// -----// IR Dump "
_ACCESSES: Final = {
    "tt.load": "load",
    "tt.store": "store",
    "ttg.async_copy_global_to_local": "load",
}
_NOT_READ: Final = {
    "tt.atomic_rmw": "an atomic",
    "tt.atomic_cas": "an atomic",
    "tt.descriptor_load": "an access of the tensor memory accelerator",
    "tt.descriptor_store": "an access of the tensor memory accelerator",
    "ttng.async_tma_copy_global_to_local": "an access of the tensor memory accelerator",
    "ttng.async_tma_copy_local_to_global": "an access of the tensor memory accelerator",
}
"""Memory operations that are not analysed, with a description."""
_OP: Final = pattern(r'\s*(?:(%[\w#]+)(?::\d+)? = )?"([\w.]+)"\(([^()]*)\)(.*)')
_BLOCK: Final = pattern(r"\s*\^\w+\((.*)\):")
_ARGUMENT: Final = pattern(r"(%\w+): (!tt\.ptr)?")
_ALIAS: Final = pattern(r"(#\w+) = (#ttg\.\w+<.*>)\s*")
_POINTERS: Final = pattern(r" : \((?:tensor<((?:\d+x)+)!tt\.ptr<(\w+)[^>]*>, (.*?)>(?:[,)] ?.*)?$)")
_POINTER: Final = pattern(r" : \(!tt\.ptr<(\w+)")
_SEGMENTS: Final = pattern(r"operandSegmentSizes = array<i32: (\d{1,9}(?:, \d{1,9})*)>")
_PROGRAMS: Final = Interval(0, (1 << 31) - 1)
"""Interval that is assumed for program ids, and for indices in a tile."""


class TritonAccess(Struct, frozen=True):
    """One load or store of a Triton kernel.

    Attributes:
        argument: Number of the kernel's parameter that is accessed.
        is_store: Is it a store?
        element: Type of an element, as Triton spells it: `f32`, `i8`.
        tile: Sizes of the tile; empty for a scalar.
        layout: Layout from registers, lanes and warps to an index of the tile; `None` for a scalar.
        address: Number of the element, counted from the parameter's first one, as an expression in
            `PROGRAM`, the index in the tile and the loop counters `Range(k)`; `None` if it is
            unknown.
        mask: Constraints that all hold where an element is accessed.
        loops: Number of iterations of each loop around the access, outermost first.
        reason: Why the access is unknown; empty if it is known.
        line: Line of the file.
    """

    argument: int
    is_store: bool
    element: str
    tile: tuple[int, ...] = ()
    layout: LinearLayout | None = None
    address: Expr | None = None
    mask: tuple[Constraint, ...] = ()
    loops: tuple[int, ...] = ()
    reason: str = ""
    line: int = 0


class TritonKernel(Struct, frozen=True):
    """The memory accesses of a Triton kernel.

    Attributes:
        name: Name of the kernel.
        arguments: Number of its parameters, which are all pointers.
        accesses: Its loads and stores, in program order.
    """

    name: str
    arguments: int
    accesses: tuple[TritonAccess, ...]


def parse_triton(source: Source) -> TritonKernel:
    """Return the accesses in a `*.triton-to-llvm.txt`.

    The value of an unknown operation is unknown. Only accesses that depend on it are unknown, with
    the reason.

    Raises:
        ParseError: No print of the file has a kernel with layouts of its loads and stores: the
            file is cut, or another compiler wrote it.
    """
    start, end = _last_with_layouts(source)
    reader = _Reader(source)
    at = start
    for line in source.text[start:end].splitlines(keepends=True):
        reader.read(line.rstrip("\r\n"), at)
        at += len(line)
    return TritonKernel(reader.name, reader.arguments, tuple(reader.accesses))


def _last_with_layouts(source: Source) -> tuple[int, int]:
    """Return the offsets of the last module print that has tensors, layouts and structured loops.

    Raises:
        ParseError: No print of the file has them.
    """
    text = source.text
    end = len(text)
    while (start := text.rfind(_MARK, 0, end)) >= 0:
        has_tensors = any(text.find(f'"{op}"(', start, end) >= 0 for op in (*_ACCESSES, *_NOT_READ))
        has_layouts = text.find("#ttg.", start, end) >= 0
        is_structured = text.find('"cf.', start, end) < 0
        is_whole = text.find("ttg.num-warps", start, end) >= 0
        if has_tensors and has_layouts and is_structured and is_whole:
            return start, end
        end = start
    what = "no print of a kernel with layouts (`#ttg.…`) of its loads and stores"
    raise ParseError(
        f"{what}: the file is cut", span=Span(source, max(len(text) - 1, 0), len(text))
    )


class _Region(Struct):
    """The region of an operation whose body is being read.

    Attributes:
        trips: Number of iterations of a loop; `None` for other operations and for loops of variable
            bounds.
        counter: The loop's counter.
        reason: Why accesses in the region are unknown; empty if they are known.
    """

    trips: int | None = None
    counter: Expr | None = None
    reason: str = ""


class _Reader(Struct):
    """Reads a kernel's text line by line: values are evaluated, loads and stores are recorded."""

    source: Source
    name: str = ""
    arguments: int = 0
    accesses: list[TritonAccess] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    regions: list[_Region] = field(default_factory=list)

    def read(self, line: str, at: int) -> None:
        """Read one line at offset `at`, and record the values that it defines."""
        if alias := _ALIAS.fullmatch(line):
            self.aliases[alias[1]] = alias[2]
        elif op := _OP.fullmatch(line):
            self._op(op[1], op[2], [o.strip() for o in op[3].split(",") if o.strip()], op[4], at)
            if line.endswith("({"):
                self.regions.append(self._region(op[2], [o.strip() for o in op[3].split(",")]))
        elif block := _BLOCK.match(line):
            self._arguments(block[1])
        elif line.lstrip().startswith("})") and self.regions:
            self.regions.pop()

    # -------------------------------------------------------------------------------- regions

    def _region(self, name: str, operands: Sequence[str]) -> _Region:
        if name == "scf.for":
            match [self.values.get(operand) for operand in operands[:3]]:
                case [Const(low), Const(high), Const(step)] if step > 0:
                    counter = Range(len(self._loops())) * step + low
                    return _Region(max(-(-(high - low) // step), 0), counter)
            return _Region(reason="the bounds of its loop are not constant")
        is_plain = name in ("builtin.module", "tt.func", "tt.reduce", "tt.scan")
        return _Region(reason="" if is_plain else f"it stands in `{name}`")

    def _arguments(self, text: str) -> None:
        """Set the values of a block's arguments: the kernel's pointers, or a loop's counter.

        `text` is the list of arguments as printed.
        """
        names = [(found[1], bool(found[2])) for found in _ARGUMENT.finditer(text)]
        if len(self.regions) == 2 and not self.arguments:
            self.arguments = sum([is_pointer for _, is_pointer in names])
            for k, (name, is_pointer) in enumerate(names):
                self.values[name] = Pointer(k, Const(0)) if is_pointer else None
        elif self.regions and self.regions[-1].counter is not None and names:
            self.values.update({name: None for name, _ in names})
            self.values[names[0][0]] = self.regions[-1].counter

    def _loops(self) -> list[int]:
        return [region.trips for region in self.regions if region.trips is not None]

    # ----------------------------------------------------------------------------- operations

    def _op(self, result: str | None, name: str, operands: list[str], rest: str, at: int) -> None:
        if name == "tt.func":
            found = pattern(r'sym_name = "([^"]+)"').search(rest)
            self.name = found[1] if found else ""
        elif name in _ACCESSES:
            self._access(name, operands, rest, at)
        elif name in _NOT_READ:
            line = self.source.line(at)
            what = _NOT_READ[name]
            self.accesses.append(TritonAccess(-1, False, "", reason=f"{what}, `{name}`", line=line))
        elif result is not None:
            given = [self.values.get(operand) for operand in operands]
            self.values[result] = result_of(name, given, rest, self._box)

    def _box(self, *exprs: Expr) -> Mapping[Var, Interval]:
        """Return bounds of the variables in expressions, by the loops around the current line."""
        trips = self._loops()
        return {
            v: Interval(0, trips[v.index] - 1)
            if isinstance(v, Range) and v.index < len(trips)
            else _PROGRAMS
            for v in variables(*exprs)
        }

    def _access(self, name: str, operands: list[str], rest: str, at: int) -> None:
        """Record a load or store.

        Args:
            name: Name of the operation.
            operands: Names of its operands.
            rest: The text after them.
            at: Offset of the line.
        """
        pointer = self.values.get(operands[0]) if operands else None
        element, tile, layout, reason = self._tile(rest)
        # No mask is the empty conjunction: every element is accessed.
        mask: Value = ()
        masked = _mask_of(name, operands, rest)
        if masked is not None:
            mask = self.values.get(masked)
        reasons = [region.reason for region in self.regions if region.reason]
        if not isinstance(pointer, Pointer):
            reasons.append("its address is not an affine expression of program ids and ranges")
        if not isinstance(mask, tuple):
            reasons.append("its mask is not a conjunction of affine bounds")
        self.accesses.append(
            TritonAccess(
                pointer.argument if isinstance(pointer, Pointer) else -1,
                _ACCESSES[name] == "store",
                element,
                tile,
                layout,
                pointer.offset if isinstance(pointer, Pointer) else None,
                mask if isinstance(mask, tuple) else (),
                tuple(self._loops()),
                "; ".join(dict.fromkeys([*reasons, *([reason] if reason else [])])),
                self.source.line(at),
            )
        )

    def _tile(self, rest: str) -> tuple[str, tuple[int, ...], LinearLayout | None, str]:
        """Return element type, sizes, layout and reason for a tensor of pointers.

        The reason says why the layout is unknown, and is empty if it is known. The layout is `None`
        for a scalar.

        Args:
            rest: The text of the operation after its operands, which has the type.
        """
        tensors = _POINTERS.search(rest)
        if tensors is None:
            scalar = _POINTER.search(rest)
            return (scalar[1], (), None, "") if scalar else ("", (), None, "its type is not read")
        sizes = tuple([int(n) for n in tensors[1].split("x") if n])
        try:
            layout = layout_of(tensors[3], sizes, self.aliases)
        except (ParseError, UnsupportedError) as error:
            return tensors[2], sizes, None, error.message
        return tensors[2], sizes, layout, ""


def _mask_of(name: str, operands: Sequence[str], rest: str) -> str | None:
    """Return the operand that is the mask of an access; `None` without a mask.

    Args:
        name: Name of the operation.
        operands: Names of its operands.
        rest: The text after them, with the operand segment sizes.
    """
    if name == "tt.store":
        return operands[2] if len(operands) > 2 else None
    place = 2 if name.startswith("ttg.async") else 1
    sizes = _SEGMENTS.search(rest)
    if sizes is None:
        return operands[place] if len(operands) > place else None
    counts = [int(n) for n in sizes[1].split(",")]
    has_mask = len(counts) > place and counts[place]
    at = sum(counts[:place])
    return (operands[at] if at < len(operands) else "") if has_mask else None


# --------------------------------------------------------------------------------------------------
# Tiles of a Triton kernel: the sizes in which its tile program reads and writes arrays.
#
# Source: XLA `xla/codegen/xtile/ir/xtile_ops.td` (`xtile.extract`, `xtile.insert`).


_LIST: Final = r"\[((?:\d{1,18}(?:, \d{1,18})*)?)\]"
_ACCESS: Final = pattern(
    r"xtile\.(?:(extract)|insert %[\w#]+ into) %arg(\d{1,6})\s*\[[^\]]*\]"
    rf"(?: {_LIST} {_LIST} :)?"
)


class ProgramTile(Struct, frozen=True):
    """One read or write of a tile program.

    Attributes:
        argument: Number of the kernel's parameter.
        is_store: Is the tile written?
        sizes: Elements of the tile along each dimension of the array, padded to powers of two.
        strides: Distances between consecutive elements of the tile.
    """

    argument: int
    is_store: bool
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def parse_tiles(source: Source) -> tuple[ProgramTile, ...]:
    """Return the tile accesses in a `*.ttir.txt`. Other lines are skipped.

    Raises:
        ParseError: A read or write has no sizes, or the program is cut.

    >>> text = "module { xtile.extract %arg0[%0, %c0] [2, 1024] [1, 1] : memref<8x1000xf32> }"
    >>> parse_tiles(Source("t", text))[0].sizes
    (2, 1024)
    """
    text = source.text
    if not text.rstrip().endswith("}"):
        span = Span(source, max(len(text.rstrip()) - 1, 0), max(len(text), 1))
        raise ParseError("the tile program is cut: expected `}` at its end", span=span)
    found = []
    for access in _ACCESS.finditer(text):
        if access[3] is None:
            span = Span(source, access.start(), access.end())
            raise ParseError("expected `[SIZES] [STRIDES]` after the offsets of a tile", span=span)
        sizes, strides = numbers_in(access[3]), numbers_in(access[4])
        found.append(ProgramTile(int(access[2]), access[1] is None, sizes, strides))
    return tuple(found)
