"""Parsing of one instruction in any form of the grammar; every error has a position."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias

from hloscope.errors import ParseError, VerifyError
from hloscope.hlo_parser.nodes import TextInstruction
from hloscope.hlo_parser.opcodes import SPELLINGS
from hloscope.hlo_parser.scanner import (
    NAME,
    SPACE,
    closing,
    error_in_source,
    fail,
    found,
    near,
    refuse_elided,
    skip,
    type_end,
    value_end,
    without_comments,
)
from hloscope.hlo_parser.scope import Scope, nearest, signature_of_callee
from hloscope.hlo_parser.spelling import (
    Read,
    Types,
    compatible,
    is_impossible,
    is_opcode,
    read_op,
    read_unknown,
)
from hloscope.hlo_parser.types import print_type, spell
from hloscope.ir import Computation, Instruction, Op, Type
from hloscope.ops import Parameter, UnknownOp
from hloscope.support.lazy import lazy, pattern
from hloscope.support.source import Source

if TYPE_CHECKING:
    import hloscope.hlo_parser.signatures as inferred
else:
    inferred = lazy("hloscope.hlo_parser.signatures")

START: Final = pattern(rf"(?:(ROOT)\b{SPACE})?%?({NAME}){SPACE}={SPACE}", re.DOTALL)
"""Pattern of the beginning of an instruction: `ROOT`, name and `=`."""

_NAME: Final = pattern(rf"%?({NAME})")
_WORD: Final = pattern(r"[A-Za-z_][\w.-]*")
_ATTRIBUTE: Final = pattern(rf"[A-Za-z_][\w.-]*{SPACE}={SPACE}", re.DOTALL)
_CALLERS: Final = pattern(r"to_apply|calls|body|condition|decomposition|\w+_computations?")
_NUMBER: Final = pattern(r"\.clone|[._]?\d+")
_DEEPEST: Final = 32
_WITH_INSIDE: Final = ("parameter", "constant")


class Callees(Protocol):
    """Finds the computations that the instructions of one computation may call."""

    def find(self, name: str) -> Computation | None:
        """Return the computation named `name`; `None` if it is not defined before the caller."""

    def names(self) -> Collection[str]:
        """Return the names of all computations, for suggestions."""

    def read_earlier(self) -> None:
        """Read the bodies of all computations that may be called, in text order."""

    def read_inline(self, at: int, stem: str) -> Computation:
        """Read a computation that is written inside an instruction, in place of a name.

        `at` is the offset of its `{`; its name begins with `stem`, the instruction's name.
        """

    def missing_computation(
        self, name: str, parameter_types: Sequence[Type], result_type: Type, at: tuple[int, int]
    ) -> Computation | None:
        """Return a computation without instructions, in place of one that the text lacks.

        It has parameters of the types `parameter_types` and a result of type `result_type`. `at`
        has the start and end of its name. The result is `None` if the text is a whole module, in
        which the name is an error.
        """


Caller: TypeAlias = tuple[Op, int, tuple[Instruction, ...], Type | None]
"""A calling instruction: op, index of the callee, operands, and type if the text has it."""


class InstructionReader:
    """Reads single instructions of one computation, and adds them to its scope."""

    def __init__(
        self, source: Source, types: Types, scope: Scope, callees: Callees, end: int
    ) -> None:
        self._source = source
        self._text = source.text
        self._types = types
        self._scope = scope
        self._callees = callees
        self._end = end
        self._depth = 0

    def read(self, at: int) -> int:
        """Add the instruction at offset `at` to the scope, and return its end.

        Raises:
            ParseError: The text is invalid; the error has its position.
        """
        source, text, scope = self._source, self._text, self._scope
        at = skip(text, at)
        start = START.match(text, at)
        if start is None:
            self._explain_start(at)
        marked, name = start.group(1), start.group(2)
        if name in scope.by_name:
            first = scope.by_name[name].span
            line = first.line if first else 0
            fail(f"`{name}` is already defined in line {line}", source, *start.span(2))
        if marked and scope.root is not None:
            first = scope.root.span
            line = first.line if first else 0
            message = f"second ROOT: `{scope.root.name}` in line {line} is the root already"
            fail(message, source, *start.span(1))
        ins, end = self._read_value(name, at, skip(text, start.end()), attributes=True)
        scope.add(ins, is_root=marked is not None)
        return end

    def read_unnamed(self, at: int, name: str) -> int:
        """Add the instruction `type opcode(…)` at offset `at` as `name`, and return its end.

        Raises:
            ParseError: The text is invalid; the error has its position.
        """
        ins, end = self._read_value(name, at, at, attributes=True)
        self._scope.add(ins)
        return end

    def _explain_start(self, at: int) -> NoReturn:
        text, source = self._text, self._source
        refuse_elided(source, at)
        name = _NAME.match(text, at)
        if name is None:
            fail(f"expected an instruction, found {found(text, at)}", source, at)
        after = skip(text, name.end())
        if name.group() == "ROOT" and _NAME.match(text, after):
            after = skip(text, _NAME.match(text, after).end())  # type: ignore[union-attr]
        fail(
            f"expected `=` after the name of the instruction, found {found(text, after)}",
            source,
            after,
        )

    def _read_value(
        self, name: str, start: int, at: int, *, attributes: bool
    ) -> tuple[Instruction, int]:
        """Read `type opcode(operands)` at offset `at`; return the instruction and its end.

        Args:
            name: Name of the instruction.
            start: Offset of the whole instruction.
            at: Offset of the type.
            attributes: Read the attributes after the operands, too.
        """
        source, text = self._source, self._text
        stop = type_end(source, at)
        type_ = self._type(at, stop) if stop > at else None
        at = skip(text, stop)
        word = _WORD.match(text, at)
        if word is None:
            what = "a type or an opcode" if type_ is None else "an opcode"
            fail(f"expected {what}, found {found(text, at)}", source, at)
        opcode = word.group()
        opening = skip(text, word.end())
        if not text.startswith("(", opening):
            if text.startswith(" ", word.end()) and _WORD.match(text, opening):
                fail(f"expected a type such as `f32[2,3]`, found `{opcode}`", source, *word.span())
            message = f"expected `(` after `{opcode}`, found {found(text, opening)}"
            fail(message, source, opening)
        end = closing(source, opening)
        inside = (opening + 1, end - 1)
        if end > self._end:
            fail("`(` is never closed", source, opening)
        where = end
        if attributes:
            end = self._attributes_end(end)
        op_text = without_comments(text[where:end])
        read = self._read_op(word, op_text, where, inside)
        # The op comes before operands and type: a nested instruction adds names to the scope, and
        # an omitted type is inferred from op, operands and callees.
        op, names, predecessors, extras = read
        operands = () if opcode in _WITH_INSIDE else self._operands(*inside, start)
        calls = tuple(
            [
                self._call(callee, name, where, end, (op, number, operands, type_))
                for number, callee in enumerate(names)
            ]
        )
        control = tuple(self._predecessor(name, where, end) for name in predecessors)
        if type_ is None:
            type_ = self._infer(read, operands, calls, word.span())
        ins = TextInstruction(
            name, type_, op, operands, calls, extras, "", control, source, start, end
        )
        return ins, end

    # ------------------------------------------------------------------------------- types

    def _type(self, start: int, end: int) -> Type:
        try:
            return self._types[self._text[start:end]]
        except ParseError as error:
            raise error_in_source(error, self._source, start) from None

    def _infer(
        self,
        read: Read,
        operands: tuple[Instruction, ...],
        calls: tuple[Computation, ...],
        place: tuple[int, int],
    ) -> Type:
        """Return the type of an instruction whose text omits it.

        Args:
            read: The meaning of the text of opcode and attributes.
            operands: The operands.
            calls: The called computations.
            place: Start and end of the text for errors.
        """
        if not all(computation.is_read for computation in calls):
            self._callees.read_earlier()  # in order; recursion could be too deep
        try:
            return inferred.inferred_type(
                read[0], tuple(operand.type for operand in operands), calls
            )
        except (VerifyError, ValueError, IndexError) as error:
            message = error.message_in(spell) if isinstance(error, VerifyError) else str(error)
            if not message.startswith("the type of"):
                opcode = self._text[slice(*place)]
                message = f"the type of `{opcode}` is not written and cannot be inferred: {message}"
            fail(message, self._source, *place)

    # ---------------------------------------------------------------------- op and attributes

    def _attributes_end(self, at: int) -> int:
        source, text = self._source, self._text
        end = at
        while text.startswith(",", comma := skip(text, end)) and comma < self._end:
            at = skip(text, comma + 1)
            name = _ATTRIBUTE.match(text, at)
            if name is None or at >= self._end:
                message = f"expected `name=value` after the comma, found {found(text, at)}"
                fail(message, source, at)
            end = value_end(source, name.end())
            if end > self._end:
                fail(f"`{text[name.end()]}` is never closed", source, name.end())
            if end == name.end():
                message = f"attribute `{name.group().rstrip('= ')}` has no value"
                fail(message, source, at, end)
        return end

    def _read_op(
        self, word: re.Match[str], attributes: str, at: int, inside: tuple[int, int]
    ) -> Read:
        """Return the meaning of an opcode and its attributes.

        Args:
            word: The match of the opcode.
            attributes: Text of the attributes.
            at: Offset of that text.
            inside: Start and end of the text in parentheses.
        """
        source, opcode = self._source, word.group()
        if not is_opcode(opcode):
            if is_impossible(opcode):
                base, _, step = opcode.rpartition("-")
                fail(f"`{base}` has no `{step}` of its own", source, *word.span())
            hint = near(opcode, SPELLINGS, 3) or _completed(opcode)
            if hint is not None:
                fail(f"unknown opcode `{opcode}`; did you mean `{hint}`?", source, *word.span())
            return self._unknown(opcode, attributes, at)
        arguments = without_comments(self._text[slice(*inside)]) if opcode in _WITH_INSIDE else ""
        try:
            return read_op(opcode, attributes, arguments)
        except ParseError as error:
            about = error.span.source.text if error.span else ""
            if about == arguments and arguments:
                at = inside[0]
            elif not attributes and error.span:
                fail(error.message, source, *word.span())
            raise error_in_source(error, source, at) from None

    def _unknown(self, opcode: str, attributes: str, at: int) -> Read:
        """Return the meaning of an unknown opcode, with its attributes as text.

        `attributes` is their text, `at` its offset. Attributes whose names show that they name
        computations give the called ones.
        """
        try:
            op, _, predecessors, extras = read_unknown(opcode, attributes)
        except ParseError as error:
            raise error_in_source(error, self._source, at) from None
        assert isinstance(op, UnknownOp)
        names: list[str] = []
        for name, value in op.settings:
            if _CALLERS.fullmatch(name):
                listed = value[1:-1].split(",") if value.startswith("{") else [value]
                names += [part.strip().removeprefix("%") for part in listed if "=" not in value]
        return op, tuple(names), predecessors, extras

    # ------------------------------------------------------------------------------ references

    def _call(self, callee: str, name: str, at: int, end: int, caller: Caller) -> Computation:
        """Return the computation named `callee` that instruction `name` calls.

        Args:
            callee: The name, or the text `{…}` of a computation written in its place.
            name: Name of the instruction.
            at: Offset of the instruction's attributes.
            end: End of its attributes.
            caller: What the instruction implies about the types of a missing computation.
        """
        if callee.startswith("{"):
            blanked = without_comments(self._text[at:end])
            return self._callees.read_inline(at + blanked.index(callee), name)
        computation = self._callees.find(callee)
        if computation is None:
            return self._unknown_callee(callee, at, end, caller)
        return computation

    def _unknown_callee(self, name: str, at: int, end: int, caller: Caller) -> Computation:
        """Return a substitute for a computation `name` that a part of a module calls but lacks.

        Args:
            name: The name.
            at: Offset of the calling instruction's attributes.
            end: End of its attributes.
            caller: What the instruction implies about the types of the computation.

        Raises:
            ParseError: The text is a whole module, so the name is wrong.
        """
        place = re.compile(rf"[=%{{, ]({re.escape(name)})(?![\w.-])").search(self._text, at, end)
        where = place.span(1) if place else (at, end)
        known = self._callees.names()
        # A name whose letters differ from a known name's is probably a typing error. A name that
        # differs in its number only may be that of a computation that was not copied.
        near = nearest(name, known)
        if name not in known and (near is None or _without_number(near) == _without_number(name)):
            op, number, operands, type_ = caller
            if type_ is not None:
                types = [operand.type for operand in operands]
                parameter_types, result_type = signature_of_callee(op, number, types, type_)
                found = self._callees.missing_computation(name, parameter_types, result_type, where)
                if found is not None:
                    return found
        if name in known:
            message = (
                f"computation `{name}` cannot be called from here: it is this computation or one "
                "further down, and computations come before their callers"
            )
        else:
            hint = nearest(name, known)
            message = f"there is no computation `{name}`"
            message += f"; did you mean `{hint}`?" if hint else ""
        fail(message, self._source, *where)

    def _predecessor(self, name: str, at: int, end: int) -> Instruction:
        """Return the control predecessor `name`.

        `[at, end)` is the text of the attributes, for errors.
        """
        ins = self._scope.by_name.get(name)
        if ins is None:
            begin = self._text.index("control-predecessors", at, end)
            place = re.compile(rf"[%{{, ]({re.escape(name)})(?![\w.-])").search(
                self._text, begin, end
            )
            span = place.span(1) if place else (at, end)
            hint = nearest(name, self._scope.by_name)
            also = f"; did you mean `{hint}`?" if hint else ""
            fail(f"control predecessor `{name}` is not defined{also}", self._source, *span)
        return ins

    def _operands(self, at: int, end: int, start: int) -> tuple[Instruction, ...]:
        """Return the operands in the list at `[at, end)`; the instruction begins at `start`."""
        source, text = self._source, self._text
        operands: list[Instruction] = []
        at = skip(text, at)
        while at < end:
            if text[at] != ",":  # XLA takes an empty text between two commas as no operand
                operand, at = self._operand(at, end, start)
                if operand is not None:
                    operands.append(operand)
                at = skip(text, at)
            if at >= end:
                break
            if text[at] != ",":
                fail(f"expected `,` or `)`, found {found(text, at)}", source, at)
            at = skip(text, at + 1)
        return tuple(operands)

    def _operand(self, at: int, end: int, start: int) -> tuple[Instruction | None, int]:
        """Return the operand at offset `at`, and its end.

        The operand is `None` for a type without a name, which XLA ignores.

        Args:
            at: Offset of the operand.
            end: End of the list of operands.
            start: Start of the instruction, for errors.
        """
        source, text, scope = self._source, self._text, self._scope
        first = at
        stop = type_end(source, at)
        type_ = self._type(at, stop) if stop > at else None
        at = skip(text, stop)
        name = _NAME.match(text, at, end)
        if name is None:
            if type_ is not None and scope.free_parameters:
                return self._free_parameter(f"_{len(scope.parameters)}", type_, first, stop), stop
            if type_ is not None and (at >= end or text[at] == ","):
                return None, stop
            fail(f"expected the name of an operand, found {found(text, at)}", source, at)
        if text.startswith("(", skip(text, name.end())):
            return self._nested(first, at)
        operand = scope.by_name.get(name.group(1))
        if operand is None:
            if scope.free_parameters and type_ is not None:
                new = self._free_parameter(name.group(1), type_, first, name.end())
                return new, name.end()
            scope.unknown(name.group(1), source, name.start(), name.end(), start)
        if type_ is not None and not compatible(type_, operand.type):
            fail(
                f"operand `{operand.name}` has type {print_type(operand.type)}, "
                f"not {print_type(type_)}",
                source,
                first,
                stop,
            )
        return operand, name.end()

    def _free_parameter(self, name: str, type_: Type, at: int, end: int) -> Instruction:
        op = Parameter(len(self._scope.parameters))
        ins = TextInstruction(name, type_, op, (), (), (), "", (), self._source, at, end)
        self._scope.add(ins)
        return ins

    def _nested(self, start: int, at: int) -> tuple[Instruction, int]:
        """Return an operand that is itself an instruction, `add(f32[2] abs(a), b)`, and its end.

        It is added to the scope under a new name. `start` is the offset of its type, `at` that of
        its opcode.
        """
        if self._depth >= _DEEPEST:
            fail("operands are nested too deeply", self._source, at)
        word = _WORD.match(self._text, at)
        stem = word.group() if word else "instruction"
        self._depth += 1
        ins, end = self._read_value(self._scope.fresh(stem), start, start, attributes=False)
        self._depth -= 1
        if ins.name in self._scope.by_name:  # the name of another operand
            ins, end = self._renamed(ins, stem), end
        self._scope.add(ins)
        return ins, end

    def _renamed(self, ins: Instruction, stem: str) -> Instruction:
        span = ins.span
        assert span is not None
        return TextInstruction(
            self._scope.fresh(stem), ins.type, ins.op, ins.operands, ins.calls, ins.extras, "",
            ins.control_predecessors, self._source, span.start, span.end,
        )  # fmt: skip


def _without_number(name: str) -> str:
    """Return a name without XLA's suffixes: `add.12.clone` and `add.3` both give `add`."""
    return _NUMBER.sub("", name)


def _completed(opcode: str) -> str | None:
    """Return the shortest HLO opcode that begins with `opcode`: `negate` for `neg`.

    `None` if there is none.
    """
    return min((known for known in SPELLINGS if known.startswith(opcode)), key=len, default=None)
