"""Sliding windows, and the ops `reduce_window` and `select_and_scatter`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.errors import message_of
from hloscope.ir import Callee, Callees, Dims, Op, TensorType, Type, Types
from hloscope.ops.inference import (
    PRED,
    Pairs,
    array,
    compatible_shapes,
    count,
    extents,
    halves,
    op,
    packed,
    require,
    resized,
    same_elements,
    tensor,
    tensors,
)
from hloscope.ops.reduction import (
    ReducerRules,
    accumulators,
    check_input_shapes,
    check_reducer,
    could_have_type,
)
from hloscope.ops.result_types import mismatch


class WindowRules(NamedTuple):
    """Labels of the constraints on windows.

    `strides` to `reversal` label the numbers of entries, `size` to `window_dilation` that entries
    are positive.
    """

    strides: str
    padding: str
    base_dilations: str = ""
    window_dilations: str = ""
    reversal: str = ""
    size: str = ""
    stride: str = ""
    base_dilation: str = ""
    window_dilation: str = ""


def check_padding_shape(padding: tuple[Any, ...], rule: str) -> None:
    """Check that padding consists of pairs (low, high); `padding` is nested as in the program.

    `rule` is the label of the constraint.

    >>> check_padding_shape(((0, 1), (0, 0)), "convolution_c4")
    """
    shape: list[int] = []
    part: Any = padding
    while isinstance(part, tuple):
        shape.append(len(part))
        part = part[0] if part else None
    found = ", ".join(map(str, shape))
    message = f"expects the shape of padding-attribute to be {{N, 2}}, but got {{{found}}}."
    require(shape == [0] or (len(shape) == 2 and shape[1] == 2), rule, message)


class Window(Struct, frozen=True):
    """A sliding window, with one entry per windowed dimension.  All sizes are in elements.

    Along a dimension, tap `w` at position `o` reads the coordinate
    `o * strides + w * window_dilations - padding[0]` of the dilated base array.  It is base element
    `coordinate / base_dilations`, if that is an integer and inside; else it is padding or a hole.

    Attributes:
        sizes: Number of taps.
        strides: Step between positions.
        padding: Elements added before and after; negative cuts.
        base_dilations: Distance of neighbouring base elements.
        window_dilations: Distance of neighbouring taps.
        reversal: The taps are applied in reverse order (convolution).

    In an invalid program, numbers of entries may differ and paddings may not be pairs; `check` and
    `check_padding_shape` report that.
    """

    sizes: Dims
    strides: Dims
    padding: Pairs
    base_dilations: Dims
    window_dilations: Dims
    reversal: tuple[bool, ...]

    def check(self, sizes: Sequence[int | None], rules: WindowRules) -> None:
        """Check that each kind of entry has one per dimension, and that entries are positive.

        Args:
            sizes: Number of taps along each dimension; `None` if unknown.
            rules: Labels of the constraints.
        """
        kinds = (
            ("window-strides", self.strides, rules.strides),
            ("base-dilation factors", self.base_dilations, rules.base_dilations),
            ("window-dilation factors", self.window_dilations, rules.window_dilations),
            ("padding-entries", self.padding, rules.padding),
            ("window-reversal", self.reversal, rules.reversal),
        )
        for what, entries, rule in kinds:
            require(
                len(entries) == len(sizes),
                rule,
                f"expects {what} to have same dimension-size as size of window dimensions"
                f" ({len(sizes)}), but got: {len(entries)}.",
            )
        for d, size in enumerate(sizes):
            numbers = (
                ("value", size, rules.size),
                ("stride", self.strides[d], rules.stride),
                ("base dilation factor", self.base_dilations[d], rules.base_dilation),
                ("window dilation factor", self.window_dilations[d], rules.window_dilation),
            )
            for what, number, rule in numbers:
                require(
                    number is None or number > 0,
                    rule,
                    f"expects window to have positive {what} for {d}-th window dimension, but got"
                    f" {number}.",
                )

    def positions(self, d: int, size: int) -> int:
        """Return the number of window positions along dimension `d` of `size` base elements."""
        low, high = self.padding[d]
        dilated = (size - 1) * self.base_dilations[d] + 1 if size else 0
        spread = (self.sizes[d] - 1) * self.window_dilations[d] + 1
        room = low + dilated + high
        return (room - spread) // self.strides[d] + 1 if room >= spread else 0


NO_WINDOW: Final = Window((), (), (), (), (), ())
"""The window without dimensions, of an op that states none."""


@op("reduce_window")
class ReduceWindow(Op):
    """Reduces every window.  Operands: N inputs, N initial values.  Callee: the body."""

    window: Window

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        inputs, inits = halves(self.name, operands)
        _check_windowed(self.window, inputs)
        elements = accumulators(self.name, calls, inits)
        return packed(
            array(e, [resized(x, partial(self.window.positions, d)) for d, x in enumerate(dims)])
            for e, dims in zip(elements, map(extents, inputs), strict=True)
        )

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        require(bool(operands), "reduce_window_c1", "requires at least 1 input value")
        inputs, inits = halves(self.name, operands[: len(operands) // 2 * 2])
        _check_windowed(self.window, inputs)
        if calls:
            check_reducer(calls[0], inputs, inits, self.window.sizes, _REDUCE_WINDOW_BODY)
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred,
            declared,
            number="reduce_window_c1",
            sizes="reduce_window_c15",
            element="reduce_window_c16",
        )


_REDUCE_WINDOW = WindowRules(
    strides="reduce_window_c6",
    padding="reduce_window_c12",
    base_dilations="reduce_window_c8",
    window_dilations="reduce_window_c10",
    size="reduce_window_c5",
    stride="reduce_window_c7",
    base_dilation="reduce_window_c9",
    window_dilation="reduce_window_c11",
)
_REDUCE_WINDOW_BODY = ReducerRules(
    body="reduce_window_c13", init_shape="reduce_window_i2", input_element="reduce_window_c3"
)


def _check_windowed(window: Window, inputs: Sequence[TensorType]) -> None:
    """Check that the inputs have one shape, and that the window has one entry per dimension."""
    check_input_shapes(inputs, "reduce_window_c2")
    check_padding_shape(window.padding, "reduce_window_c12")
    for t in inputs:
        require(
            t.rank == len(window.sizes),
            "reduce_window_c4",
            message_of(
                "expects window-dimensions size == input rank, but got window-dimensions size:"
                f" {len(window.sizes)} and input: {{}} with rank = {t.rank}.",
                t,
            ),
        )
    window.check(window.sizes, _REDUCE_WINDOW)


@op("select_and_scatter")
class SelectAndScatter(Op):
    """Adds each source element to the element that its window selects.

    Operands: operand, source, initial value.  Callees: select, scatter.
    """

    window: Window

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 3)
        operand = tensor(self.name, operands[0], "the operand")
        (element,) = accumulators(self.name, calls[1:], [operand])
        return array(element, extents(operand))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        operand, source, init = tensors(self.name, operands, 3)
        if len(calls) > 1:
            _check_select(operand, calls[0])
            value = array(source.element, ())
            check_reducer(calls[1], (value,), (init,), (), _SCATTER_BODY)
        window = self.window
        require(
            operand.rank == len(window.sizes),
            "select_and_scatter_c4",
            message_of(
                "expects window-dimensions size == operand rank, but got window-dimensions size:"
                f" {len(window.sizes)} and operand-type: {{}} with rank ="
                f" {operand.rank}.",
                operand,
            ),
        )
        check_padding_shape(window.padding, "select_and_scatter_c8")
        window.check(window.sizes, _SELECT_AND_SCATTER)
        # The source has one element per window position.  Its bound is not compared, so only the
        # size is given.
        needed = array(
            operand.element,
            [
                (resized(x, partial(window.positions, d))[0], None)
                for d, x in enumerate(extents(operand))
            ],
        )
        fits = compatible_shapes(needed, source)
        require(
            fits and same_elements((needed, source)),
            "select_and_scatter_c1" if fits else "select_and_scatter_c2",
            message_of("expects source-type to be {}, but got{}", needed, source),
        )
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred,
            declared,
            number="",
            sizes="select_and_scatter_c11",
            element="select_and_scatter_c12",
        )


_SELECT_AND_SCATTER = WindowRules(
    strides="select_and_scatter_c6",
    padding="select_and_scatter_c8",
    size="select_and_scatter_c5",
    stride="select_and_scatter_c7",
)
_SCATTER_BODY = ReducerRules(body="select_and_scatter_c10", init_element="select_and_scatter_c3")


def _check_select(operand: TensorType, body: Callee) -> None:
    """Check the region that selects an element: two scalar parameters, one boolean result."""
    rule = "select_and_scatter_c9"
    message = f"expects the select-region to take 2 parameters, but takes {len(body.arguments)}"
    require(len(body.arguments) == 2, rule, message)
    needed = array(operand.element, ())
    for i, parameter in enumerate(body.arguments):
        require(
            could_have_type(needed, parameter),
            rule,
            message_of(
                f"expects the type of select-region's parameter at index {i} to be"
                " {}, but got {}",
                needed,
                parameter,
            ),
        )
    message = f"expects select-region to return single value, but got: {len(body.results)}"
    require(len(body.results) == 1, rule, message)
    require(
        isinstance(result := body.results[0], TensorType)
        and result.rank == 0
        and result.element == PRED,
        rule,
        message_of(
            "expects the return-type of select-region to be {:bare}, but got: {}",
            array(PRED, ()),
            body.results[0],
        ),
    )
