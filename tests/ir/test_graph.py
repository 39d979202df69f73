"""Nodes compare by identity, print shortly, and cannot tell late reading from early."""

from __future__ import annotations

import pytest

from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.control import Parameter
from hloscope.support.source import Source, Span

F32 = TensorType(ELEMENT_TYPES["f32"], (2,))


def parameter(name: str = "a") -> Instruction:
    return Instruction(name, F32, Parameter(0))


def test_nodes_compare_by_identity() -> None:
    a, b = parameter(), parameter()
    assert a != b
    assert len({a, b, a}) == 2


def test_fields_have_defaults() -> None:
    a = parameter()
    assert (a.operands, a.calls, a.extras, a.control_predecessors, a.span) == ((), (), (), (), None)


def test_fields_are_kept() -> None:
    a = parameter()
    span = Span(Source("m", "b = f(a)"), 0, 8)
    callee = Computation("c", Body((a,), (a,), a))
    b = Instruction("b", F32, Parameter(1), (a,), (callee,), (("x", "1"),), (a,), span)
    assert (b.operands, b.calls, b.extras) == ((a,), (callee,), (("x", "1"),))
    assert (b.control_predecessors, b.span) == ((a,), span)


def test_extras_and_spans_cannot_be_set() -> None:
    a = parameter()
    for field in ("extras", "span"):
        with pytest.raises(AttributeError):
            setattr(a, field, ())


def test_a_computation_is_read_once() -> None:
    calls = []

    def read() -> Body:
        calls.append(1)
        a = parameter()
        return Body((a,), (a,), a)

    computation = Computation("c", read)
    assert not computation.is_read
    assert computation.root is computation["a"]
    assert computation.root is computation.parameters[0]
    assert list(computation) == list(computation.instructions)
    assert len(computation) == 1
    assert computation.is_read
    assert calls == [1]


def test_a_failing_reader_fails_again() -> None:
    def read() -> Body:
        raise ValueError("no")

    computation = Computation("c", read)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            computation.root  # noqa: B018
    assert not computation.is_read


def test_a_missing_name_is_a_key_error() -> None:
    a = parameter()
    with pytest.raises(KeyError):
        Computation("c", Body((a,), (a,), a))["b"]


def test_short_texts() -> None:
    a = parameter()
    computation = Computation("c", Body((a,), (a,), a))
    module = Module("m", {"c": computation}, computation, extras=(("x", "1"),), preamble="p")
    assert repr(a) == "<a = parameter()>"
    assert repr(computation) == "<computation c>"
    assert repr(module) == "<module m: 1 computations>"
    assert list(module) == [computation]
    assert (module.extras, module.preamble) == ((("x", "1"),), "p")
