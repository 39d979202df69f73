"""Values sent and received by pairs of ops, and exchanged with the host."""

from __future__ import annotations

from typing import Any, Final

from hloscope.errors import VerifyError, message_of
from hloscope.ir import Callees, Op, TensorType, TokenType, TupleType, Type, Types, Written
from hloscope.ops.groups import Table
from hloscope.ops.inference import U32, array, count, kind, op, require, without_layouts

DEVICE_TO_DEVICE: Final = 1
DEVICE_TO_HOST: Final = 2
HOST_TO_DEVICE: Final = 3


def _check_channel(op: Send | Recv, rule: str, host: int, name: str) -> None:
    """Check that the channel type is `host` for host transfers, else that between devices.

    Args:
        op: The op.
        rule: Label of the constraint.
        host: StableHLO's number of the channel type of host transfers.
        name: Name of that channel type, for the message.
    """
    wanted, found = (host, name) if op.is_host_transfer else (DEVICE_TO_DEVICE, "DEVICE_TO_DEVICE")
    require(
        op.channel_type == wanted,
        rule,
        f"channel_type should be {found} when is_host_transfer is"
        f" {str(op.is_host_transfer).lower()}",
    )


def _check_results(results: Types, rules: tuple[str, str, str], arrays: str) -> None:
    """Check that the results are arrays, then a token; HLO packs the arrays into a tuple.

    Args:
        results: Types of the results.
        rules: Labels of three constraints: there is a result, all but the last are arrays, the last
            one is a token.
        arrays: Start of the message for a result that is not an array.
    """
    some, before, last = rules
    require(
        bool(results), some, f"result is expected to be at least of size 1, but got {len(results)}"
    )
    for result in results[:-1]:
        require(
            isinstance(result, TensorType | TupleType),
            before,
            message_of(f"{arrays} of tensor type, but got {{}}", result),
        )
    require(
        isinstance(results[-1], TokenType),
        last,
        message_of(
            "last element of result types is expected to be of token type, but got {}", results[-1]
        ),
    )


@op("send")
class Send(Op):
    """Sends data on a channel.  Operands: the data, a token.

    The result is a token in StableHLO, where channels always have a type; in HLO it is
    (data, context, token).
    Source: StableHLO spec `send` (C1).
    """

    channel_id: int | None = None
    channel_type: int | None = None
    is_host_transfer: bool = False
    source_target_pairs: Table | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        if self.channel_type is not None:
            count(self.name, operands, 1, at_least=True)
            _check_channel(self, "send_c1", DEVICE_TO_HOST, "DEVICE_TO_HOST")
            return TokenType()
        count(self.name, operands, 2)
        return TupleType((without_layouts(operands[0]), array(U32, ()), TokenType()))


@op("send-done")
class SendDone(Op):
    """Waits for a `send` (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        return TokenType()


@op("recv")
class Recv(Op):
    """Receives data on a channel; only StableHLO gives the channel a type.

    Source: StableHLO spec `recv` (C1)-(C4).
    """

    channel_id: int | None = None
    channel_type: int | None = None
    is_host_transfer: bool = False
    source_target_pairs: Table | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if self.channel_type is None:
            return
        _check_channel(self, "recv_c1", HOST_TO_DEVICE, "HOST_TO_DEVICE")
        _check_results(
            results,
            ("recv_c2", "recv_c3", "recv_c4"),
            "everything but the last element of result types is expected to be",
        )


@op("recv-done")
class RecvDone(Op):
    """Waits for a `recv` and returns its data (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        match without_layouts(operands[0]):
            case TupleType((data, _, token)):
                return TupleType((data, token))
            case other:
                raise VerifyError(
                    f"the operand of `recv-done` is a {kind(other)}, needs a recv's tuple"
                )


@op("infeed")
class Infeed(Op):
    """Reads from the host.

    Attributes:
        layout: StableHLO's layouts of the arrays; lists of numbers are tuples, other entries stay
            as written.  `None` if no layouts are given.

    Source: StableHLO spec `infeed` (C1)-(C3).
    """

    infeed_config: str = ""
    layout: tuple[Any, ...] | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        _check_results(
            results,
            ("infeed_c1", "infeed_c2", "infeed_c3"),
            "all elements of result types, except the last element, are expected to be",
        )
        if self.layout is not None:
            self._check_layout(self.layout, len(results) - 1)

    def _check_layout(self, layouts: tuple[Any, ...], needed: int) -> None:
        """Check that the layout has one list of integers for each of the `needed` arrays."""
        label = "infeed_i3"
        require(
            len(layouts) == needed,
            label,
            f"layout-attribute size must be {needed} (which is the number of op-results - 1 (for"
            f" token result)), but got {len(layouts)}",
        )
        for layout in layouts:
            require(
                isinstance(layout, tuple),
                label,
                "layout-attribute expected to have elements of type array, but got"
                f" {layout}{' : i64' if isinstance(layout, int) else ''}",
            )
            for leaf in layout:
                require(
                    isinstance(leaf.value if isinstance(leaf, Written) else leaf, int),
                    label,
                    "layout-attribute's leaf elements are expected to be of type integer, but got"
                    f" {leaf}",
                )


@op("outfeed")
class Outfeed(Op):
    """Writes to the host."""

    outfeed_config: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        return TokenType()
