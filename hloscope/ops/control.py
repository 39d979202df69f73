"""Structural ops: parameters, tuples, calls, fusions, branches, loops, custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from hloscope.errors import MessageTemplate, Name, VerifyError, message_of
from hloscope.ir import (
    Callee,
    Callees,
    Computation,
    FutureType,
    Instruction,
    Op,
    TensorType,
    TokenType,
    TupleType,
    Type,
    Types,
    compatible,
)
from hloscope.ops.convolution import ConvDimensions
from hloscope.ops.inference import (
    PRED,
    U32,
    array,
    count,
    kind,
    op,
    packed,
    require,
    returned,
    without_layouts,
)
from hloscope.ops.result_types import least_specific
from hloscope.ops.windows import Window
from hloscope.support.limits import MOST_LEAVES, MOST_NESTING


def _listed(types: Sequence[Type]) -> MessageTemplate:
    """Return types as a list, as text for messages."""
    return message_of(", ".join(["{}"] * len(types)), *types)


def _all_compatible(a: Sequence[Type], b: Sequence[Type]) -> bool:
    return len(a) == len(b) and all(map(compatible, a, b))


@op("parameter")
class Parameter(Op):
    """Parameter `number` of the computation."""

    number: int
    settings: tuple[tuple[str, str], ...] = ()  # such as parameter_replication


@op("tuple")
class Tuple(Op):
    """A tuple of the operands.

    Source: StableHLO spec `tuple` (C1).
    """

    result_rule: ClassVar[str] = "tuple_c1"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        whole = TupleType(operands)
        require(whole.depth <= MOST_NESTING, "", f"tuples are nested more than {MOST_NESTING} deep")
        require(whole.leaves <= MOST_LEAVES, "", f"a tuple of {whole.leaves:,} parts in all")
        return TupleType(tuple(map(without_layouts, operands)))


@op("get_tuple_element")
class GetTupleElement(Op):
    """Element `index` of a tuple.

    Source: StableHLO spec `get_tuple_element` (C1), (C2).
    """

    result_rule: ClassVar[str] = "get_tuple_element_c2"
    index: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        whole = operands[0]
        if not isinstance(whole, TupleType):
            raise VerifyError(
                message_of(
                    f"the operand of `{{}}` is a {kind(whole)}, needs a tuple", Name(self.name)
                )
            )
        size = len(whole.elements)
        require(
            0 <= self.index < size,
            "get_tuple_element_c1",
            f"index {self.index} is out of bounds of operand with size {size}",
        )
        return without_layouts(whole.elements[self.index])


@op("result")
class Result(GetTupleElement):
    """Result `index` of a StableHLO op with several results (`%0#1`); not written as an op."""


@op("call")
class Call(Op):
    """Calls a computation (HLO `call`, StableHLO `func.call`).  Callee: the computation."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return returned(self.name, calls)


@op("fusion")
class Fusion(Op):
    """A fused computation, run as one kernel (HLO).  Callee: the computation.

    Attributes:
        kind: `kLoop`, `kInput`, `kOutput`, `kCustom`.
        settings: Other attributes such as `output_to_operand_aliasing`, as written.
    """

    kind: str
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return returned(self.name, calls)


def fused_twice(fused: str, first: str, second: str) -> str:
    """Return the error message for a computation that two fusions call, which HLO forbids.

    Args:
        fused: The computation, as the message names it.
        first: The first fusion.
        second: The second fusion.
    """
    return f"{fused} is fused twice, by {first} and {second}"


@op("while")
class While(Op):
    """Loop.  Callees: condition, body.

    Source: StableHLO spec `while` (C1)-(C3).
    """

    result_rule: ClassVar[str] = "while_c3"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return packed(operands)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if len(calls) == 2:
            condition, body = calls
            checks: tuple[tuple[str, Sequence[Type], str], ...] = (
                ("condition block arguments", condition.arguments, "while_c1"),
                ("body block arguments", body.arguments, "while_c2"),
                ("body block return types", body.results, "while_c2"),
            )
            for what, types, rule in checks:
                require(
                    _all_compatible(operands, types),
                    rule,
                    message_of(
                        f"expect operands to be compatible with {what} but got {{}} vs {{}}",
                        _listed(operands),
                        _listed(types),
                    ),
                )
            _check_condition(condition.results)
        super().verify(operands, results, calls)


def _check_condition(results: Types) -> None:
    """Check that the condition of a loop returns one boolean scalar."""
    require(
        len(results) == 1,
        "while_c1",
        f"expect condition body returns a single value but got {len(results)}",
    )
    (result,) = results
    require(
        isinstance(result, TensorType) and result.rank == 0 and result.element == PRED,
        "while_c1",
        message_of(
            "expect condition block return a zero-ranked tensor of i1 but got {}",
            _listed(results),
        ),
    )


class _BranchRules(NamedTuple):
    """Labels of the constraints on branches.

    Attributes:
        scalar: The selecting operand is a scalar.
        some: There is at least one branch.
        arguments: Branches take no arguments.
        agree: All branches return the same types.
        result: The result has these types.
    """

    scalar: str
    some: str
    arguments: str
    agree: str
    result: str


_CASE: Final = _BranchRules("case_i1", "case_c1", "case_c2", "case_c3", "case_c4")
_IF: Final = _BranchRules("if_i1", "if_i2", "if_c1", "if_c2", "if_c3")


@op("case")
class Case(Op):
    """One of several branches, selected by operand 0 (HLO `conditional`).  Callees: the branches.

    HLO gives each branch its own operand (operands 1…); StableHLO's branches read outer values.

    Attributes:
        predicated: Operand 0 is a predicate; calls are (true branch, false branch).

    Source: StableHLO spec `case` (C1)-(C4), `if` (C1)-(C3).
    """

    predicated: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        rules = _IF if self.predicated else _CASE
        index, in_hlo = operands[0], len(operands) > 1
        rank = index.rank if isinstance(index, TensorType) else 0
        require(rank == 0, rules.scalar, f"operand should be rank 0 tensor but got rank {rank}")
        require(bool(calls), rules.some, "expect at least one branch")
        first = calls[0].results
        for i, branch in enumerate(calls):
            require(
                in_hlo or not branch.arguments,
                rules.arguments,
                f"branch {i} must have 0 arguments, but found {len(branch.arguments)}",
            )
            require(
                _all_compatible(first, branch.results),
                rules.agree,
                message_of(
                    f"branch 0 and branch {i} have mismatched return types: {{}} vs {{}}",
                    _listed(first),
                    _listed(branch.results),
                ),
            )
        # Any branch may be taken, so only what holds for all branches is known about a size.
        results = zip(*(branch.results for branch in calls), strict=True)
        return packed(least_specific(types, rules.result) for types in results)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return (_IF if self.predicated else _CASE).result


BARE_STARTS: Final = ("all_reduce", "all-reduce")
"""Ops whose `-start` has the type of the op itself; for others it is (operands, result, …)."""


@op("async_start")
class AsyncStart(Op):
    """Starts an asynchronous computation.  Callee: the computation or region.

    HLO has `async-start`, or `<op>-start` for any op; the result of StableHLO's is a future.

    Attributes:
        wrapped: The op in the short form `<op>-start`; `None` if it calls a computation.
        settings: Other attributes such as `async_execution_thread`, as written.
        region: Whether the op is StableHLO's, which has a region.

    Source: StableHLO spec `async_start` (C1).
    """

    result_rule: ClassVar[str] = "async_start_c1"
    wrapped: Op | None = None
    settings: tuple[tuple[str, str], ...] = ()
    region: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        if self.region:
            return _future(operands, calls[0]) if calls else Op.infer(self, operands, calls)
        result = self.wrapped.infer(operands, calls) if self.wrapped else returned(self.name, calls)
        match self.wrapped.name if self.wrapped else "":
            case "all_reduce":
                return result
            case "all_gather" | "collective_permute":
                return TupleType((packed(operands), result))
            case _:
                return TupleType((TupleType(tuple(map(without_layouts, operands))), result))


def _future(operands: Types, body: Callee) -> FutureType:
    """Return the future of the region's results; check that the region takes the operands."""
    rule, found, at = "async_start_c1", body.arguments, "'stablehlo.async_start' op"
    require(
        len(found) == len(operands),
        rule,
        f"{at} number of operands ({len(operands)}) must match number of region arguments"
        f" ({len(found)})",
    )
    for i, (operand, argument) in enumerate(zip(operands, found, strict=True)):
        require(
            without_layouts(operand) == without_layouts(argument),
            rule,
            message_of(
                f"{at} operand type {{}} at index {i} must match region argument type {{}}",
                operand,
                argument,
            ),
        )
    return FutureType(tuple(map(without_layouts, body.results)))


@op("async_update")
class AsyncUpdate(Op):
    """A step of an asynchronous computation (HLO).

    Attributes:
        wrapped_name: Name of the op in the short form `<op>-update`.
        settings: Other attributes, as written.
    """

    wrapped_name: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        if len(operands) != 1:  # it may bring further operands of the computation
            return Op.infer(self, operands, calls)
        return without_layouts(operands[0])


@op("async_done")
class AsyncDone(Op):
    """Waits for an asynchronous computation and returns its results.

    Attributes:
        wrapped_name: Name of the op in HLO's short form `<op>-done`.
        settings: Other attributes, as written.
        region: Whether the op is StableHLO's, which waits for a future.

    Source: StableHLO spec `async_done` (C1).
    """

    result_rule: ClassVar[str] = "async_done_c1"
    wrapped_name: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    region: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        match without_layouts(operands[0]):
            case FutureType(results):
                return packed(results)
            case other if self.region:
                raise VerifyError(
                    f"the operand of `async_done` is a {kind(other)}, needs a future",
                    rule="async_done_i1",
                )
            case TupleType((_, result, *_)) if self.wrapped_name not in BARE_STARTS:
                return result
            case other:
                return other


@op("copy-start")
class CopyStart(Op):
    """Starts a copy (HLO); returns (target, source, context)."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = without_layouts(operands[0])
        return TupleType((t, t, array(U32, ())))


@op("copy-done")
class CopyDone(Op):
    """Waits for a copy (HLO) and returns the target."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        match without_layouts(operands[0]):
            case TupleType((target, *_)):
                return target
            case other:
                raise VerifyError(
                    f"the operand of `copy-done` is a {kind(other)}, needs a copy-start's tuple"
                )


@op("after_all")
class AfterAll(Op):
    """A token that is ready after all operands; HLO's `create-token` has no operands."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return TokenType()


@op("create_token")
class CreateToken(Op):
    """The former `create_token` of StableHLO."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return TokenType()


@op("add-dependency")
class AddDependency(Op):
    """Operand 0, computed after operand 1 (HLO)."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 2)
        return without_layouts(operands[0])


@op("optimization_barrier")
class OptimizationBarrier(Op):
    """The operands; optimizers must not move ops across it.

    Source: StableHLO spec `optimization_barrier` (C1).
    """

    result_rule: ClassVar[str] = "optimization_barrier_c1"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return packed(operands)


@op("domain")
class Domain(Op):
    """Boundary between domains, such as regions of one sharding (HLO)."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return without_layouts(operands[0])


@op("custom_call")
class CustomCall(Op):
    """A call of a function outside of the program.

    Attributes:
        call_target_name: Name of the function.
        has_side_effect: Whether the call must not be removed even if its results are not used.
        settings: Other attributes, as written (schedules, constraints …).
        window: Window of a convolution.
        dimensions: Dimension numbers of a convolution.
        feature_group_count: Number of feature groups of a convolution.
        batch_group_count: Number of batch groups of a convolution.
    """

    call_target_name: str
    has_side_effect: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    window: Window | None = None
    dimensions: ConvDimensions | None = None
    feature_group_count: int = 1
    batch_group_count: int = 1


API_VERSIONS: Final = (
    "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI",
)  # fmt: skip
"""Calling conventions of custom calls, at the index that is StableHLO's number for them.

HLO and VHLO have the name.

Source: `CustomCallApiVersion` in XLA's `xla_data.proto`, `VhloEnums.td`.
"""


@op("composite")
class Composite(Op):
    """A named op with a decomposition.  Callee: the decomposition."""

    composite_name: str
    version: int = 0
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return returned(self.name, calls) if calls else Op.infer(self, operands, calls)


@op("return")
class Return(Op):
    """StableHLO's terminator, the root of a computation; its operands are the results."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return packed(operands)


def returned_values(computation: Computation) -> tuple[Instruction, ...]:
    """Return the values that a computation returns: its root, or the operands of a root tuple.

    A tuple inside the tuple is one value.
    """
    root = computation.root
    return root.operands if isinstance(root.op, Tuple | Return) else (root,)


@op("unknown")
class UnknownOp(Op):
    """An op that is not known; its attributes stay as written."""

    opcode: str
    settings: tuple[tuple[str, str], ...] = ()
