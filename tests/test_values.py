"""Value classes: all of one kind, compared by what counts and by nothing else."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Interval
from hloscope.hlo_parser.metadata import BackendConfig, StackFrames
from hloscope.indexing import Access, Precision, RuntimeVariable, Variable
from hloscope.ir import ELEMENT_TYPES, Layout, TensorType, TokenType, TupleType
from hloscope.ir.types import DialectType, FunctionType, FutureType, KnownTensor, OpaqueType
from hloscope.mlir.ir import ArrayAttr, DictAttr, ResourceTable, StructAttr, VerbatimAttr
from hloscope.mlir.locations import UNKNOWN, CallSiteLoc, FusedLoc, LazyLoc, LocationTable, NameLoc
from hloscope.simplifier.verdicts import Proof, Verdict
from hloscope.support.source import Source

PACKAGE = Path(__file__).parents[1] / "hloscope"
S32 = ELEMENT_TYPES["s32"]


def test_the_package_has_one_kind_of_value_class() -> None:
    found = [
        f"{path.name}: {line}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith(("from dataclasses ", "import dataclasses"))
    ]
    assert not found, "write `class Name(Struct, frozen=True)`"


def _classes(base: type = Struct) -> Iterator[type]:
    """All classes of the package that derive from `Struct`, as they are loaded."""
    for cls in base.__subclasses__():
        if cls.__module__.startswith("hloscope."):
            yield cls
        yield from _classes(cls)


def load_all() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__main__.py":
            name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
            import_module(name.removesuffix(".__init__"))


def test_every_frozen_value_has_a_hash_and_its_subclasses_are_frozen() -> None:
    load_all()
    classes = list(_classes())
    assert len(classes) > 500
    for cls in classes:
        frozen = {
            base.__struct_config__.frozen for base in (cls, *cls.__bases__) if base in classes
        }
        assert len(frozen) == 1, f"{cls.__name__} and its base: is it frozen?"
        assert not frozen.pop() or cls.__hash__ is not None, f"{cls.__name__} has no `__hash__`"


def _counted(source: Source) -> Source:
    assert source.line_col(2) == (2, 1)
    return source


def _frames() -> StackFrames:
    return StackFrames({1: "a.py"}, {1: "f"}, {1: {"line": 3}}, {1: {"file_location_id": 1}})


SAME: dict[str, tuple[Any, Any]] = {
    "a proof, however long it took": (
        Proof(Verdict.UNDECIDED, reason="a", seconds=1.0),
        Proof(Verdict.UNDECIDED, reason="a", seconds=2.0),
    ),
    "an attribute, whatever resources its text has": (
        VerbatimAttr("dense_resource<a> : tensor<1xi8>", ResourceTable("{-# #-}")),
        VerbatimAttr("dense_resource<a> : tensor<1xi8>"),
    ),
    "a location, whatever aliases its text has": (
        LazyLoc("#loc1", LocationTable({"#loc1": "unknown"})),
        LazyLoc("#loc1"),
    ),
    "a text, though its lines were counted": (_counted(Source("a", "x\ny")), Source("a", "x\ny")),
}
"""Two values that differ in what does not count."""

DIFFERENT: dict[str, tuple[Any, Any]] = {
    "verdicts": (Proof(Verdict.PROVED), Proof(Verdict.REFUTED)),
    "reasons": (Proof(Verdict.UNDECIDED, reason="a"), Proof(Verdict.UNDECIDED, reason="b")),
    "attributes": (VerbatimAttr("a"), VerbatimAttr("b")),
    "an attribute and its text": (VerbatimAttr("a"), "a"),
    "a location and its text": (LazyLoc("a"), "a"),
    "a proof and its verdict": (Proof(Verdict.PROVED), Verdict.PROVED),
    "locations": (LazyLoc("a"), LazyLoc("b")),
    "texts": (Source("a", "x"), Source("a", "y")),
    "texts with other line ends": (Source("a", "x\n", "x\r\n"), Source("a", "x\n")),
    "configurations": (BackendConfig("json", {"a": 1}), BackendConfig("json", {"a": 2})),
    "a type and one whose value is known": (TensorType(S32, (1,)), KnownTensor(S32, (1,))),
    "values that are known": (
        KnownTensor(S32, (1,), value=(1,)),
        KnownTensor(S32, (1,), value=(2,)),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_does_not_count_makes_no_difference(name: str) -> None:
    one, other = SAME[name]
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_counts_makes_a_difference(name: str) -> None:
    one, other = DIFFERENT[name]
    assert one != other
    assert len({one, other}) == 2


def test_frames_are_equal_though_one_was_looked_up() -> None:
    frames = _frames()
    assert [frame.line for frame in frames.trace(1)] == [3]
    assert frames == _frames()


def test_a_configuration_of_json_has_a_hash() -> None:
    one, other = BackendConfig("json", {"a": [1]}), BackendConfig("json", {"a": [1]})
    assert one == other
    assert hash(one) == hash(other)


def test_values_of_other_classes_differ_whatever_their_fields() -> None:
    assert ArrayAttr(()) != DictAttr(())
    assert TokenType() != OpaqueType()
    assert OpaqueType() != DialectType("!shape.shape")


def test_a_changed_copy_finds_derived_fields_anew() -> None:
    pair = TupleType((TokenType(), TokenType()))
    changed = replace(pair, elements=(pair,))
    assert (pair.depth, pair.leaves, changed.depth, changed.leaves) == (1, 2, 2, 2)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: TupleType((inner,)),
        lambda inner: FutureType((inner,)),
        lambda inner: FunctionType((inner,), ()),
        lambda inner: ArrayAttr((inner,)),
        lambda inner: DictAttr((("a", inner),)),
        lambda inner: StructAttr("stablehlo", "a", (("a", inner),)),
        lambda inner: NameLoc("a", inner),
        lambda inner: CallSiteLoc(inner, UNKNOWN),
        lambda inner: FusedLoc((inner,)),
    ],
)
def test_the_hash_of_a_value_nested_without_end_is_refused(wrap: Callable[[Any], Any]) -> None:
    value: Any = TokenType()
    for _ in range(100_000):
        value = wrap(value)
    with pytest.raises(RecursionError):
        hash(value)


@pytest.mark.parametrize(
    "value",
    [
        Access(None, Precision.UNKNOWN, "a"),
        RuntimeVariable(Interval(0, 3), "rt0"),
        TupleType((TokenType(),)),
        KnownTensor(S32, (1,), value=(7,)),
        Source("a", "x\ny"),
        _frames(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_copied_and_pickled(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == copy.deepcopy(value) == value


def test_copies_of_an_interned_variable_are_the_variable() -> None:
    variable = Variable(Interval(0, 7), "th_x")
    assert copy.copy(variable) is variable
    assert copy.deepcopy(variable) is variable
    assert pickle.loads(pickle.dumps(variable)) is variable


def test_a_field_of_a_value_cannot_be_assigned_to() -> None:
    layout: Any = Layout((1, 0))
    with pytest.raises(AttributeError, match="immutable type: 'Layout'"):
        layout.minor_to_major = (0, 1)
    with pytest.raises(AttributeError):
        layout.other = 1
