"""Results as plain text: for readers, and in the format of XLA's `print_indexing`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

from hloscope.affine import Dim, default_name
from hloscope.display.answer import Answer, OperandAnswer, OutputAnswer, access_json, asked_from
from hloscope.display.parts import AccessParts, access_parts
from hloscope.display.table import columns
from hloscope.hlo_parser import brief_list, brief_type
from hloscope.indexing import Access, Precision
from hloscope.ir import Dims, Instruction
from hloscope.ops import Constant, Parameter
from hloscope.support.lazy import once_for_each

if TYPE_CHECKING:
    from hloscope.proof import Check

T = TypeVar("T")
MAX_NAMED: Final = 64
"""Maximum number of unread operands that are named; of more, only the number is stated."""
WIDTH: Final = 100
"""Maximum length of a line with the conditions of a map; beyond it they are printed below."""
_BELOW: Final = "\n      for "
"""The start of conditions below a map."""


def to_text(answer: Answer) -> str:
    """Return an indexing result as text: the instruction, then each operand with its maps."""
    sections = [headline(answer.instruction, answer.opcode) + _origin(answer)]
    if answer.direction == "output_to_input":
        told, blocks = dict[tuple[str, ...], str](), _Blocks(answer)
        for output in answer.outputs:
            sections += _output(answer, output, told, blocks)
    elif answer.outputs:
        sections += _reached(answer)
    if not answer.outputs:
        sections.append("The value has no elements.")
    return "\n\n".join(sections)


def _origin(answer: Answer) -> str:
    """Return a line with the origin of the instruction; empty if it is unknown."""
    known = answer.origin
    places = [
        f"from {known.op_name}" if known.op_name else "",
        f"at {known.place}" if known.place else "",
    ]
    said = " ".join(filter(None, places))
    return f"\n  {said}" if said else ""


def headline(ins: Instruction, opcode: str) -> str:
    """Return an instruction as `name = shape opcode(operands)`, with long lists shortened."""
    match ins.op:
        case Parameter(number):
            inside = str(number)
        case Constant(literal):
            text = str(literal)
            inside = text if len(text) <= 24 else f"{text[:20]} …"
        case _:
            inside = brief_list(ins.operands, lambda o: o.name)
    return f"{ins.name} = {brief_type(ins.type)} {opcode}({inside})"


def _output(
    answer: Answer, output: OutputAnswer, printed: dict[tuple[str, ...], str], known: _Blocks
) -> Iterator[str]:
    """Yield the accesses of an output as text; a long list that repeats refers to the first one.

    Args:
        answer: The result.
        output: The output.
        printed: Output of each long list that was already printed.
        known: Cache of texts.
    """
    sizes = answer.sizes(output.type)
    verb = "reads" if len(output.operands) else f"reads no {answer.what}"
    if answer.convention == "xla":
        verb += " by XLA's convention"
    which = output_name(answer, output)
    type = known.type(output.type)
    element = f"{known.element(sizes)} of {which}, {type},"
    if len(output.touched) > MAX_NAMED:
        blocks = tuple(_grouped_accesses(answer, output, sizes, known))
        before = printed.setdefault((type, *blocks), which)
        if before != which:
            yield f"{element} {verb} the same as that of {before}"
            return
        yield f"{element} {verb}"
        yield from blocks
        return
    yield f"{element} {verb}"
    for operand in output.touched:
        title = f"{answer.what} {operand.number}  {known.type(operand.type)}  {operand.name}"
        yield f"  {title}\n{known.body(operand, sizes)}"
    if len(output.operands) > len(output.touched):
        yield _untouched(answer, output)


def _untouched(answer: Answer, output: OutputAnswer) -> str:
    proofs = _proofs([output])
    return "\n".join([f"  not read: {untouched_names(answer, output)}", *proofs])


class _Blocks:
    """Caches texts of one result, because thousands of outputs may read the same operands.

    Keys are identities of objects that the result keeps alive.

    Attributes:
        type: Function that returns the text of a type.
        element: Function that returns `_element` for a tensor with the given sizes.
    """

    def __init__(self, answer: Answer) -> None:
        self._bodies: dict[tuple[object, ...], str] = {}
        self._grouped_accesses: dict[tuple[object, ...], str] = {}
        self.type = once_for_each(brief_type)
        self.element = cache(partial(_element, answer))

    def body(self, operand: OperandAnswer, sizes: Dims) -> str:
        """Return the lines about an operand below its title; they are cached.

        `sizes` are those of the tensor that the maps start from.
        """
        key = sizes, id(operand.check), *map(id, operand.accesses)
        known = self._bodies.get(key)
        if known is None:
            known = self._bodies[key] = self._body(operand, sizes)
        return known

    def _body(self, operand: OperandAnswer, sizes: Dims) -> str:
        """Compute the lines about an operand.

        Maps that differ only in the tuple index share their text. `sizes` are those of the tensor
        that the maps start from.
        """
        if len(operand.accesses) != 1:
            return _lines_about(operand, sizes)
        (access,) = operand.accesses
        of = access.map, access.precision, access.reason, access.replica, access.via
        key = sizes, str(operand.check), *of
        array = f"    {{{access.leaf}}} " if access.leaf else "    "
        known = self._grouped_accesses.get(key)
        if known is not None and len(array) + len(known.partition("\n")[0]) <= WIDTH:
            return array + known
        known = _lines_about(operand, sizes)
        if _BELOW not in known:
            self._grouped_accesses[key] = known[len(array) :]
        return known


def _grouped_accesses(
    answer: Answer, output: OutputAnswer, sizes: Dims, known: _Blocks
) -> Iterator[str]:
    """Yield the accesses of many operands; operands with equal types and maps share an entry.

    Args:
        answer: The result.
        output: The output that reads the operands.
        sizes: Sizes of the output, from which the maps start.
        known: Cache of texts.
    """
    groups: dict[tuple[str, str], list[OperandAnswer]] = {}
    for operand in output.touched:
        key = known.type(operand.type), known.body(operand, sizes)
        groups.setdefault(key, []).append(operand)
    for (type, body), (first, *others) in groups.items():
        if others:
            numbers = runs([first.number, *[o.number for o in others]])
            yield f"  {answer.what}s {numbers}  {type}\n{body}"
        else:
            yield f"  {answer.what} {first.number}  {type}  {first.name}\n{body}"
    if len(output.operands) > len(output.touched):
        yield _untouched(answer, output)


def runs(numbers: Iterable[int]) -> str:
    """Return ascending numbers as text, with consecutive numbers as ranges.

    >>> runs([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ", ".join(["-".join(map(str, run)) for run in found])


def _reached(answer: Answer) -> Iterator[str]:
    """Yield text about the outputs that depend on an element of the queried operand, in order.

    A tuple operand has a text for each of its tensors.
    """
    reached: dict[int, list[tuple[OutputAnswer, OperandAnswer]]] = {}
    for output in answer.outputs:
        for operand in output.touched:
            reached.setdefault(operand.leaf, []).append((output, operand))
    sources = asked_from(answer)
    if not sources:
        yield "The operand has no elements."
    for leaf, asked in sources.items():
        sizes = answer.sizes(asked.type)
        of = f"operand {asked.number}, {brief_type(asked.type)} {asked.name}"
        yield f"{_element(answer, sizes)} of {of}, reaches{'' if reached else ' no output'}"
        for output, operand in reached.get(leaf, ()):
            title = f"{output_name(answer, output)}  {brief_type(output.type)}"
            yield f"  {title}\n{_lines_about(operand, sizes)}"
    if missed := _not_reached(answer):
        yield "\n".join([f"  not reached: {missed}", *_proofs(answer.outputs)])


def _not_reached(answer: Answer) -> str:
    """Return the names of the outputs that do not depend on the queried operand; may be empty."""
    missed = [output for output in answer.outputs if not output.touched]
    asked = sum(len(output.operands) for output in answer.outputs)
    if asked <= len(answer.outputs):
        return brief_list(missed, lambda output: output_name(answer, output))
    rest = asked - sum(len(output.touched) for output in answer.outputs)
    every = f"any output from any other tensor of operand {answer.outputs[0].operands[0].number}"
    return every if rest else ""


def output_name(answer: Answer, output: OutputAnswer) -> str:
    """Return the name of an output, with its number if there are several."""
    many = len(answer.outputs) > 1 or output.number > 0
    return f"output {output.number}" if many else "the output"


def untouched_names(answer: Answer, output: OutputAnswer, most: int = MAX_NAMED) -> str:
    """Return the names of operands without accesses; their number if there are more than `most`.

    `answer` is the result, `output` the output that does not read them.
    """
    count = len(output.operands) - len(output.touched)
    if count > most:
        return f"{count} {answer.what}s"
    unread = [o for o in output.operands if not o.accesses]
    leaves = answer.direction == "input_to_output" and len(output.operands) > 1
    return brief_list(
        unread, lambda o: f"{answer.what} {o.number} {o.name}{f'{{{o.leaf}}}' if leaves else ''}"
    )


def _element(answer: Answer, sizes: Dims) -> str:
    """Return the text for any element of a tensor, such as `Element (d0, d1)`.

    With an order other than logical, it is a position in memory. `sizes` are those of the tensor.
    """
    dims = f" ({', '.join(default_name(Dim(i)) for i in range(len(sizes)))})" if sizes else ""
    if answer.order == "logical":
        return f"Element{dims}"
    return f"Position{dims} in memory" if sizes else "The position in memory"


def _lines_about(operand: OperandAnswer, sizes: Dims) -> str:
    """Return the lines about an operand below its title.

    `sizes` are those of the tensor that the maps start from.
    """
    parts = [access_parts(access, sizes) for access in operand.accesses]
    arrows = [_arrow(access, p) for access, p in zip(operand.accesses, parts, strict=True)]
    where = [", ".join(p.where) for p in parts]
    claims = [str(access.precision) for access in operand.accesses]
    beside = _lines(arrows, where, claims)
    wide = any([len(line) > WIDTH for line in beside])
    lines = _lines(arrows, claims) if wide else beside
    out = [] if beside else ["    nothing"]
    for i, access in enumerate(operand.accesses):
        out.append(lines[i])
        if wide and where[i]:
            out += _filled(_BELOW.strip() + " ", parts[i].where)
        out += [f"      with {origin}" for origin in parts[i].origins]
        if access.precision is not Precision.EXACT:
            out.append(f"      {parts[i].claim}")
    return "\n".join([*out, *_proof_lines([operand.check])])


def _proofs(outputs: Sequence[OutputAnswer]) -> list[str]:
    """Return a line for each distinct proof that operands are not read by one of the outputs."""
    checks = [o.check for output in outputs for o in output.checked_untouched]
    checks += [output.proved_together[0] for output in outputs if output.proved_together]
    return _proof_lines(checks)


def _proof_lines(checks: Iterable[Check | None]) -> list[str]:
    """Return a line for each distinct proof; `None` stands for no proof and has no line."""
    return list(dict.fromkeys(f"    proof: {check}" for check in checks if check))


def _filled(head: str, items: Sequence[str]) -> list[str]:
    """Wrap items into lines, with breaks between items only.

    `head` is the text before the first item.
    """
    lines = [f"      {head}{items[0]}"]
    for item in items[1:]:
        if len(lines[-1]) + len(item) + 2 > WIDTH:
            lines[-1] += ","
            lines.append(" " * 10 + item)
        else:
            lines[-1] += f", {item}"
    return lines


def _arrow(access: Access, parts: AccessParts) -> str:
    """Return the map of an access as text, after the tuple index of its tensor if that is not 0."""
    return f"{{{access.leaf}}} {parts.arrow}" if access.leaf else parts.arrow


def _lines(*cells: list[str]) -> list[str]:
    """Return lines of aligned columns; columns without text are left out.

    Each argument has the texts of one column.
    """
    used = [column for column in cells if any(column)]
    if len(cells[0]) == 1:
        return ["    " + "   ".join([cell for (cell,) in used])]
    return columns(zip(*used, strict=True), indent=4, gap=3).splitlines()


def to_print_indexing(answer: Answer) -> str:
    """Return the result of an indexing query in the format of XLA's tool `print_indexing`.

    Source: XLA `tools/print_indexing`; its test's expected output.

    Raises:
        TooLargeError: A map is too long to be written out; XLA's text has no names for parts.
    """
    lines = []
    for output in answer.outputs:
        for operand in output.touched:
            leaf = f"{{{operand.leaf}}}" if operand.leaf else ""
            lines.append(f"Output {output.number} operand {operand.number}{leaf}:")
            for access in operand.accesses:
                lines += _print_indexing(access)
    return "\n".join(lines)


def _print_indexing(access: Access) -> Iterator[str]:
    described = access_json(access, plain=True)
    yield described["map"] or f"unknown: {access.reason}"
    if "runtime_variables" in described:
        yield "runtime variables:"
        for variable in described["runtime_variables"]:
            yield f"  {variable['name']}: {variable['origin']}; {variable['map']}"
    if "replica_id_map" in described:
        yield f"replica id: {described['replica_id_map']}"
