"""Structure: parameters, tuples, calls, fusions, branches, loops, async pairs, custom calls."""

from __future__ import annotations

from hloscope.errors import VerifyError
from hloscope.ir.types import TokenType, TupleType
from hloscope.ops.base import Callee, Op, Type, op
from hloscope.ops.infer_util import U32, array, bare, count, kind, packed, require, returned


@op("parameter")
class Parameter(Op):
    """Argument `number` of the computation."""

    number: int
    settings: tuple[tuple[str, str], ...] = ()  # parameter_replication …


@op("tuple")
class Tuple(Op):
    """A tuple of the operands."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return TupleType(tuple(map(bare, operands)))


@op("get_tuple_element")
class GetTupleElement(Op):
    """Element `index` of a tuple."""

    index: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        whole = operands[0]
        if not isinstance(whole, TupleType):
            raise VerifyError(f"the operand of `{self.name}` is a {kind(whole)}, needs a tuple")
        size = len(whole.elements)
        require(
            0 <= self.index < size,
            "get_tuple_element_c1",
            f"index {self.index} is not in [0, {size})",
        )
        return bare(whole.elements[self.index])


@op("result")
class Result(GetTupleElement):
    """Result `index` of a StableHLO op with several; not an operation of its own (`%0#1`)."""


@op("call")
class Call(Op):
    """Calls a computation (HLO `call`, StableHLO `func.call`)."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return returned(self.name, calls)


@op("fusion")
class Fusion(Op):
    """A fused computation, run as one kernel (HLO).

    Attributes:
        kind: `kLoop`, `kInput`, `kOutput`, `kCustom`.
        settings: `output_to_operand_aliasing` and the like, as written.
    """

    kind: str
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return returned(self.name, calls)


@op("while")
class While(Op):
    """Loop.  Calls: condition, body."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        return packed(operands)


@op("case")
class Case(Op):
    """One of several branches by operand 0; HLO `conditional` too.  Calls: the branches.

    HLO gives each branch its own operand (operands 1…); StableHLO's branches read outer values.

    Attributes:
        predicated: Operand 0 is a predicate; calls are (true branch, false branch).
    """

    predicated: bool = False

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        result = returned(self.name, calls)
        for i, branch in enumerate(calls):
            require(
                packed(branch.results) == result,
                "case_c3",
                f"branch {i} returns another type than 0",
            )
        return result


@op("async_start")
class AsyncStart(Op):
    """Begins an asynchronous computation (`async-start`, or `<op>-start` for any op).

    Attributes:
        wrapped: The op itself in the sugared form `<op>-start`, `None` where it calls a
            computation.
        settings: `async_execution_thread` and the like, as written.
    """

    wrapped: Op | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        result = self.wrapped.infer(operands, calls) if self.wrapped else returned(self.name, calls)
        match self.wrapped.name if self.wrapped else "":
            case "all_reduce":
                return result
            case "all_gather" | "collective_permute":
                return TupleType((packed(operands), result))
            case _:
                return TupleType((TupleType(tuple(map(bare, operands))), result))


@op("async_update")
class AsyncUpdate(Op):
    """A step of an asynchronous computation; `wrapped_name` for the sugared spelling."""

    wrapped_name: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        if len(operands) != 1:  # it may bring further operands of the computation
            return Op.infer(self, operands, calls)
        return bare(operands[0])


@op("async_done")
class AsyncDone(Op):
    """Ends an asynchronous computation; `wrapped_name` for the sugared spelling."""

    wrapped_name: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        match bare(operands[0]):
            case TupleType((_, result, *_)) if self.wrapped_name not in (
                "all-reduce",
                "all_reduce",
            ):
                return result
            case other:
                return other  # all-reduce-start has the type of all-reduce


@op("copy-start")
class CopyStart(Op):
    """Begins a copy (HLO); returns (target, source, context)."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = bare(operands[0])
        return TupleType((t, t, array(U32, ())))


@op("copy-done")
class CopyDone(Op):
    """Ends a copy (HLO)."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        match bare(operands[0]):
            case TupleType((target, *_)):
                return target
            case other:
                raise VerifyError(
                    f"the operand of `copy-done` is a {kind(other)}, needs a copy-start's tuple"
                )


@op("after_all")
class AfterAll(Op):
    """A token that waits for the operands; HLO's `create-token` has none."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return TokenType()


@op("create_token")
class CreateToken(Op):
    """StableHLO's old `create_token`."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return TokenType()


@op("add-dependency")
class AddDependency(Op):
    """Operand 0, after operand 1 (HLO)."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        return bare(operands[0])


@op("optimization_barrier")
class OptimizationBarrier(Op):
    """The operands, unmoved by the optimizer."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(operands)


@op("domain")
class Domain(Op):
    """Boundary between domains such as shardings (HLO)."""

    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        return bare(operands[0])


@op("custom_call")
class CustomCall(Op):
    """A call out of the language.

    Attributes:
        call_target_name: Name of the target.
        has_side_effect: May not be removed.
        settings: Everything else, as written (window, dim_labels, schedules, constraints …).
    """

    call_target_name: str
    has_side_effect: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("composite")
class Composite(Op):
    """A named op with a decomposition.  Calls: the decomposition."""

    composite_name: str
    version: int = 0
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return returned(self.name, calls)


@op("return")
class Return(Op):
    """StableHLO's terminator: a computation's root with the values it returns as operands."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(operands)


@op("unknown")
class UnknownOp(Op):
    """An op nothing is known about, kept as written."""

    opcode: str
    settings: tuple[tuple[str, str], ...] = ()
