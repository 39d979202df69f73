"""Conversion of an `HloModuleProto` to HLO text, which the text parser reads.

So a program from a proto equals the program of its text, errors and positions included.

Source: XLA's `HloModule::CreateFromProto`, `HloPrintOptions`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from hloscope.errors import InputError
from hloscope.hlo_parser.detection import form
from hloscope.hlo_parser.opcodes import COMMON, SPELLINGS, Spelling
from hloscope.hlo_parser.proto.attributes import ATTRIBUTES, frontend_text
from hloscope.hlo_parser.proto.values import (
    ELEMENTS,
    literal_arrays,
    literal_text,
    numbers,
    shape_text,
    source_text,
)
from hloscope.hlo_parser.proto.wire import File, Message
from hloscope.hlo_parser.scanner import NAME
from hloscope.hlo_parser.types import joined
from hloscope.hlo_parser.values import quote
from hloscope.ir import ELEMENT_TYPES
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_INPUT

_LOCAL: Final = (1 << 32) - 1
"""Mask of the low 32 bits of an instruction's id, which identify it within its computation."""
_IDENTIFIER: Final = pattern(NAME)
_OPCODE: Final = pattern(r"[a-z][a-z0-9-]*")
_PRED: Final = 1
_SPLIT: Final = ("all-gather-start", "all-reduce-start", "collective-permute-start")
"""Asynchronous opcodes that are their own ops, with the attributes of the synchronous opcode."""
_ALIASES: Final = {1: "may-alias", 2: "must-alias"}
_LEAST, _TIMES = 1 << 20, 32
"""Maximum number of characters of the text is `_LEAST`, plus `_TIMES` for each byte of the proto.

A longer text is refused. Programs of compilers are far below the limit; a long name that every line
repeats is above it.
"""
_FIELDS: Final = {"origin": ("original_value",), "statistics": ("statistics_viz",)} | {
    "backend_config": ("backend_config", "backend_config_payload")
}
"""Fields of attributes that every opcode may have, by the attribute's name.

Only where the names differ.
"""
_ROWS: Final = tuple((name, frozenset(_FIELDS.get(name, (name,)))) for name in COMMON)
_PREDECESSORS: Final = COMMON.index("control-predecessors")
_SOURCE: Final = COMMON.index("metadata")
_BEFORE, _BETWEEN = _ROWS[:_PREDECESSORS], _ROWS[_PREDECESSORS + 1 : _SOURCE]
_AFTER: Final = _ROWS[_SOURCE + 1 :]
_OWN_FIELDS: Final = frozenset(("name", "id", "operand_ids", "control_predecessor_ids", "metadata"))
"""Fields whose values usually differ between any two instructions."""
_BY_OPERANDS: Final = frozenset(("compare", "conditional"))
"""Opcodes whose text of attributes depends on the types of the operands."""
_MOST_REMEMBERED: Final = 1 << 12
"""Maximum bytes of an instruction whose text is cached for instructions with equal fields."""
_LOCATION: Final = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")

_Shared: TypeAlias = tuple[str, str, str, str]
"""The four pieces of a line that instructions with equal fields share.

They end before the operands, the control predecessors, the metadata, and the line's end. What is
between them differs for each instruction.
"""


def proto_text(data: bytes, name: str) -> str:
    """Return the HLO text of an `HloModuleProto`, `HloProto` or `HloSnapshot`.

    `data` are the bytes of the file, `name` is its name in messages.

    Raises:
        ParseError: The bytes are damaged or invalid.
        UnsupportedError: The proto has an unknown or unsupported field.
        InputError: The text would be too long.
    """
    kind = form(data) or "HloModuleProto"
    message = Message(File(name, data), kind, 0, len(data))
    if kind == "HloSnapshot":
        message = message["hlo"]
    if kind != "HloModuleProto":
        message = message["hlo_module"]
    return _Text(message).text()


def allocated_bytes(data: bytes, name: str) -> int | None:
    """Return the bytes that XLA allocated for an `HloProto`'s program in the default memory space.

    Values inside reducers and comparators are thread-local and take no memory. The result is `None`
    if the file has no buffer assignment: it was written before XLA assigned memory, or it is
    another message. `data` are the bytes of the file, `name` is its name in messages.

    Raises:
        ParseError: The bytes are damaged.
    """
    if form(data) != "HloProto":
        return None
    proto = Message(File(name, data), "HloProto", 0, len(data))
    if "buffer_assignment" not in proto:
        return None
    allocations = proto["buffer_assignment"]["buffer_allocations"]
    sizes: list[int] = [a["size"] for a in allocations if not (a["is_thread_local"] or a["color"])]
    return sum(sizes)


def recorded_arguments(data: bytes, name: str) -> list[Any]:
    """Return the arguments that an `HloSnapshot` records, one array (or tuple of arrays) each.

    The list is empty for other kinds of files.

    Args:
        data: Bytes of the file.
        name: Name of the file, for error messages.

    Raises:
        ParseError: The bytes are damaged.
        UnsupportedError: An argument has an unsupported shape, or its values are omitted.
    """
    if form(data) != "HloSnapshot":
        return []
    message = Message(File(name, data), "HloSnapshot", 0, len(data))
    found = []
    for literal in message["arguments"]:
        value = literal_arrays(literal)
        if value is None:
            literal.refuse("shape", "the values of an argument are left out")
        found.append(value)
    return found


class _Ids:
    """Reads ids of one computation's instructions, reduced to the bits that identify them there."""

    def __init__(self) -> None:
        self._as_written: dict[bytes, int] = {}
        """Ids by their bytes in the file, in the usual encoding of varints."""

    def add(self, ins: Message) -> int:
        """Register the id of an instruction, and return it reduced to the identifying bits."""
        number: int = ins["id"] & _LOCAL
        if (written := ins.field_bytes("id")) is not None:
            self._as_written[written] = number
        return number

    def of(self, message: Message, field: str) -> list[int]:
        """Return the ids that a field of a message lists."""
        known = self._as_written
        try:
            return [known[written] for written in message.varints(field)]
        except KeyError:  # it may have another encoding
            return [number & _LOCAL for number in message[field]]


class _Text:
    """Builder of the text of one module."""

    def __init__(self, module: Message) -> None:
        self.module = module
        self.most: Final = min(MOST_INPUT, _LEAST + _TIMES * len(module.file.data))
        self.computations: dict[int, str] = {}
        # Texts of instructions with equal fields, which most instructions of a dump share.
        self._shared: dict[tuple[Any, ...], _Shared] = {}
        for computation in module.each("computations"):
            name = _name(computation)
            if computation["id"] in self.computations:
                computation.fail("id", f"another computation has the id {computation['id']}")
            self.computations[computation["id"]] = name

    def text(self) -> str:
        parts, total = [], 0
        for part in self.parts():
            total += len(part)
            self.refuse_long(total)
            parts.append(part)
        return "".join(parts)

    def refuse_long(self, length: int) -> None:
        """Raise an `InputError` if `length` characters exceed the limit of the text's length."""
        if length > self.most:
            file = self.module.file
            size = f"{len(file.data):,} bytes stand for more than {self.most:,} characters"
            raise InputError(f"{file.name}: {size} of text")

    def parts(self) -> Iterator[str]:
        module = self.module
        entry = self.entry()
        yield f"HloModule {_name(module)}"
        for name, value in self.header():
            yield f", {name}={value}"
        yield "\n\n"
        yield from _tables(module["stack_frame_index"])
        sequences = {s["key"]: s["value"] for s in module["schedule"]["sequences"]}
        for computation in module.each("computations"):
            yield "ENTRY %" if computation["id"] == entry else "%"
            yield f"{_name(computation)} {{\n"
            yield from self.body(computation, sequences.get(computation["id"]))
            thread = computation["execution_thread"]
            yield f"}}, execution_thread={quote(thread)}\n\n" if _is_other(thread) else "}\n\n"

    def entry(self) -> int:
        module = self.module
        if module["entry_computation_id"] in self.computations:
            return int(module["entry_computation_id"])
        name = module["entry_computation_name"]
        ids = [number for number, known in self.computations.items() if known == name]
        if len(ids) != 1:
            module.fail("entry_computation_id", "no computation has this id")
        return ids[0]

    def header(self) -> Iterator[tuple[str, str]]:
        module = self.module
        if "schedule" in module:
            yield "is_scheduled", "true"
        aliases = [
            f"{{{numbers(entry['output_shape_index'])}}}: ({entry['parameter_number']}, "
            f"{{{numbers(entry['parameter_shape_index'])}}}, {entry.word('kind', _ALIASES)})"
            for entry in module["input_output_alias"]["entries"]
        ]
        if aliases:
            yield "input_output_alias", f"{{ {', '.join(aliases)} }}"
        donors = [
            f"({entry['parameter_number']}, {{{numbers(entry['parameter_shape_index'])}}})"
            for entry in module["buffer_donor"]["entries"]
        ]
        if donors:
            yield "buffer_donor", f"{{ {', '.join(donors)} }}"
        if "host_program_shape" in module:
            shape = module["host_program_shape"]
            parameters = joined([shape_text(one) for one in shape["parameters"]])
            yield "entry_computation_layout", f"{{({parameters})->{shape_text(shape['result'])}}}"
        attributes = frontend_text(module["frontend_attributes"])
        if attributes:
            yield "frontend_attributes", attributes

    def body(self, computation: Message, sequence: Message | None) -> Iterator[str]:
        """Yield the lines of a computation's instructions.

        They are in the order of `sequence`, a schedule, if there is one.
        """
        # All ids are known before the first line is written, since a scheduled order need not be
        # the file's, and each id that an instruction lists must be one of them.
        known: dict[int, Message] = {}
        ids, names = _Ids(), dict[int, str]()
        for ins in computation.each("instructions"):
            name, key = _name(ins), ids.add(ins)
            if key in known:
                ins.fail("id", f"another instruction has the id {ins['id']}")
            known[key], names[key] = ins, f"%{name}"
        order = list(known)
        if sequence is not None:
            order = ids.of(sequence, "instruction_ids")
            if set(order) != set(known) or len(order) != len(known):
                sequence.fail("instruction_ids", "they are not the computation's instructions")
        root = computation["root_id"] & _LOCAL
        if root not in known:
            computation.fail("root_id", f"no instruction has the id {computation['root_id']}")
        for key in order:
            ins = known[key]
            begin = f"{'  ROOT ' if key == root else '  '}{names[key]}"
            head, attributes, between, after = self.shared(ins, known)
            operands = self.listed(ins, "operand_ids", ids, names)
            if "control_predecessor_ids" in ins:
                before = self.listed(ins, "control_predecessor_ids", ids, names)
                attributes += f", control-predecessors={{{before}}}"
            if source := source_text(ins):
                between += f", metadata={source}"
            yield f"{begin}{head}{operands}{attributes}{between}{after}\n"
            ins.drop_values()

    def listed(self, ins: Message, field: str, ids: _Ids, names: dict[int, str]) -> str:
        """Return the names of the instructions whose ids a field lists, separated by commas.

        The length is checked, since a list may repeat a long name.

        Args:
            ins: The instruction.
            field: Name of the field.
            ids: Reads the ids of the computation's instructions.
            names: Name of each instruction by id.
        """
        if field not in ins:
            return ""
        try:
            found = [names[key] for key in ids.of(ins, field)]
        except KeyError:
            number = next(number for number in ins[field] if number & _LOCAL not in names)
            ins.fail(field, f"no instruction has the id {number}")
        self.refuse_long(sum(map(len, found)))
        return ", ".join(found)

    def shared(self, ins: Message, known: dict[int, Message]) -> _Shared:
        """Return the pieces of an instruction's line that instructions with equal fields share.

        `known` has the instructions of the computation by id.
        """
        # A dump repeats a few hundred combinations of fields. The key has no fields of a single
        # instruction. Opcodes whose text depends on operands are not cached.
        key = ins.values_except(_OWN_FIELDS) if ins.length <= _MOST_REMEMBERED else None
        found = self._shared.get(key) if key else None
        if found is None:
            attributes = f"){self.attributes(ins, known)}{_common(_BEFORE, ins)}"
            found = _head(ins), attributes, _common(_BETWEEN, ins), _common(_AFTER, ins)
            if key and ins["opcode"] not in _BY_OPERANDS:
                self._shared[key] = found
        return found

    def attributes(self, ins: Message, known: dict[int, Message]) -> str:
        """Return the text `, name=value` for each attribute of the instruction's opcode.

        `known` has the instructions of the computation by id.
        """
        found = []
        spelling = _spelling(ins["opcode"])
        for name, attribute in spelling.attributes.items() if spelling else ():
            if attribute.kind in ("call", "calls"):
                continue
            if name == "type" and ins["comparison_type"] == _usual_comparison(ins, known):
                continue
            write = ATTRIBUTES.get(name)
            text = write(ins) if write else None
            if text:
                found.append(f", {name}={text}")
        for name, computations in self.calls(ins, spelling, known):
            found.append(f", {name}={computations}")
        if "sparsity_config" in ins and any(s in ins["sparsity_config"] for s in ("lhs", "rhs")):
            ins.refuse("sparsity_config", "sparse operands are not read")
        return "".join(found)

    def calls(
        self, ins: Message, spelling: Spelling | None, known: dict[int, Message]
    ) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each attribute whose value is called computations.

        Args:
            ins: The instruction.
            spelling: The entry of its opcode in the table of opcodes; `None` for an unknown opcode.
            known: The instructions of the computation by id.
        """
        if "called_computation_ids" not in ins:
            return
        names = []
        for number in ins["called_computation_ids"]:
            if number not in self.computations:
                ins.fail("called_computation_ids", f"no computation has the id {number}")
            names.append(f"%{self.computations[number]}")
        if not names:
            return
        attributes = spelling.attributes if spelling else {}
        rows = [row for row in attributes.values() if row.kind in ("call", "calls")]
        single = [row.name for row in rows if row.kind == "call"]
        match ins["opcode"]:
            case "while" if len(names) == 2:
                names.reverse()  # the proto has the body first; the text has the condition first
            case "conditional":
                operands = ins["operand_ids"]
                selector = known.get(operands[0] & _LOCAL) if operands else None
                if selector is None or selector["shape"]["element_type"] != _PRED:
                    single = []
            case "custom-call" if len(names) == 1:
                single = ["to_apply"]
        if len(single) == len(names):
            yield from zip(single, names, strict=True)
            if single == ["to_apply"] and ins["opcode"] == "custom-call":
                return
        else:
            many = [row.name for row in rows if row.kind == "calls"]
            yield (many[-1] if many else "calls"), f"{{{', '.join(names)}}}"


def _head(ins: Message) -> str:
    """Return the beginning of an instruction after its name: ` = type opcode(`.

    For parameters and constants, the text in the parentheses follows.
    """
    opcode = ins["opcode"]
    if not _OPCODE.fullmatch(opcode):
        ins.fail("opcode", f"expected an opcode, found {quote(opcode)}")
    head = f" = {shape_text(ins['shape'])} {opcode}("
    if opcode == "parameter":
        return head + str(ins["parameter_number"])
    if opcode == "constant":
        return head + (literal_text(ins["literal"]) if "literal" in ins else "{...}")
    return head


def _spelling(opcode: str) -> Spelling | None:
    return SPELLINGS.get(opcode.removesuffix("-start") if opcode in _SPLIT else opcode)


def _name(message: Message) -> str:
    name: str = message["name"]
    if not _IDENTIFIER.fullmatch(name):
        message.fail("name", f"expected a name, found {quote(name[:80])}")
    return name


def _usual_comparison(ins: Message, known: dict[int, Message]) -> str:
    """Return the comparison type that HLO text omits since the operands' element type implies it.

    `known` has the instructions of the computation by id.
    """
    first = known.get(ins["operand_ids"][0] & _LOCAL) if ins["operand_ids"] else None
    element = ELEMENTS.get(first["shape"]["element_type"], "") if first else ""
    kind = ELEMENT_TYPES[element].kind if element in ELEMENT_TYPES else ""
    return {"signed": "SIGNED", "unsigned": "UNSIGNED", "pred": "UNSIGNED"}.get(kind, "FLOAT")


def _is_other(thread: str) -> bool:
    return thread not in ("", "main")


def _common(rows: tuple[tuple[str, frozenset[str]], ...], ins: Message) -> str:
    """Return the text `, name=value` of each attribute in `rows` whose fields are not all absent.

    Each entry of `rows` has an attribute's name and its fields.
    """
    texts = ((name, ATTRIBUTES[name](ins)) for name, fields in rows if not ins.lacks(fields))
    return "".join(f", {name}={text}" for name, text in texts if text)


def _tables(index: Message) -> Iterator[str]:
    """Yield the lines of the tables of files, functions and stack frames; none if they are empty.

    `index` is the module's `StackFrameIndexProto`.
    """
    if not index["stack_frames"]:
        return
    for title, field in (("FileNames", "file_names"), ("FunctionNames", "function_names")):
        yield f"{title}\n"
        yield from (f"{at} {quote(text)}\n" for at, text in enumerate(index[field], 1))
        yield "\n"
    yield "FileLocations\n"
    for at, place in enumerate(index["file_locations"], 1):
        parts = (f"{name}={place[name]}" for name in _LOCATION)
        yield f"{at} {{{' '.join(parts)}}}\n"
    yield "\nStackFrames\n"
    for at, frame in enumerate(index["stack_frames"], 1):
        parent = frame["parent_frame_id"] + 1  # as XLA prints it
        yield f"{at} {{file_location_id={frame['file_location_id']} parent_frame_id={parent}}}\n"
    yield "\n\n"
