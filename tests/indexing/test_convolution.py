"""The three arrays of a convolution against its definition, for each pair of them."""

from __future__ import annotations

from itertools import product

import pytest

from hloscope.indexing import Access, IndexingMap, Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from hloscope.indexing.rules.convolution import ConvolutionMaps
from hloscope.ops.convolution import ConvDimensions, Convolution
from hloscope.ops.windows import Window
from hloscope.stablehlo import parse_stablehlo
from tests.indexing.relations import Values, instruction, pairs, without_domain

Triple = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
NAMES = ConvDimensions(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))  # b0f_0io->b0f


def window(
    size: int,
    stride: int = 1,
    pad: tuple[int, int] = (0, 0),
    *,
    base: int = 1,
    dilate: int = 1,
    reverse: bool = False,
) -> Window:
    return Window((size,), (stride,), (pad,), (base,), (dilate,), (reverse,))


# window, input size, batch, input features, output features, feature groups, batch groups
CASES = [
    (window(3), 5, 1, 2, 2, 1, 1),
    (window(2, stride=2, pad=(1, 1)), 4, 2, 1, 2, 1, 1),
    (window(3, pad=(1, 1), base=2, reverse=True), 3, 1, 1, 1, 1, 1),
    (window(2, dilate=2, pad=(-1, 2)), 5, 1, 2, 1, 1, 1),
    (window(2, pad=(1, 0)), 3, 1, 4, 4, 2, 1),
    (window(2), 3, 4, 1, 4, 1, 2),
    (window(1), 2, 2, 3, 1, 1, 1),
]


def triples(
    op: Convolution, lhs: tuple[int, ...], rhs: tuple[int, ...], out: tuple[int, ...]
) -> set[Triple]:
    """(input, kernel, output) of every product that the definition sums."""
    w, found = op.window, set()
    for (b, o, f), tap, c in product(product(*map(range, out)), range(rhs[0]), range(rhs[1])):
        at = o * w.strides[0] + tap * w.window_dilations[0] - w.padding[0][0]
        batch, feature = b, c
        if op.feature_group_count > 1:
            feature += f // (out[2] // op.feature_group_count) * rhs[1]
        if op.batch_group_count > 1:
            batch += f // (out[2] // op.batch_group_count) * out[0]
        if at % w.base_dilations[0] == 0 and 0 <= at // w.base_dilations[0] < lhs[1]:
            kernel = rhs[0] - 1 - tap if w.reversal[0] else tap
            found.add(((batch, at // w.base_dilations[0], feature), (kernel, c, f), (b, o, f)))
    return found


def relation(map: IndexingMap) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(here, there) for here, there, _ in pairs(Access(map), Values(1))}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_arrays_meet_where_the_definition_multiplies_them(
    case: tuple[Window, int, int, int, int, int, int],
) -> None:
    win, size, batch, features, out_features, groups, batch_groups = case
    op = Convolution(win, NAMES, groups, batch_groups)
    lhs, rhs = (batch, size, features), (win.sizes[0], features // groups, out_features)
    padded = (size - 1) * win.base_dilations[0] + 1 + sum(win.padding[0])
    reach = (win.sizes[0] - 1) * win.window_dilations[0] + 1
    out = (batch // batch_groups, (padded - reach) // win.strides[0] + 1, out_features)
    meeting, known = ConvolutionMaps(op, (lhs, rhs, out), None), triples(op, lhs, rhs, out)
    assert relation(meeting.output_to_input()) == {(o, i) for i, _, o in known}
    assert relation(meeting.input_to_output()) == {(i, o) for i, _, o in known}
    assert relation(meeting.input_to_kernel()) == {(i, k) for i, k, _ in known}
    assert relation(meeting.kernel_to_input()) == {(k, i) for i, k, _ in known}
    assert relation(meeting.output_to_kernel()) == {(o, k) for _, k, o in known}
    assert relation(meeting.kernel_to_output()) == {(k, o) for _, k, o in known}
    # as XLA has it, a kernel element counts as read in padding, too
    loose = relation(meeting.output_to_kernel(tight=False))
    assert loose >= {(o, k) for _, k, o in known}
    assert relation(meeting.kernel_to_output(tight=False)) == {(k, o) for o, k in loose}


CUDNN = """
(f32[1,3,2], u8[0]) custom-call(f32[1,5,4], f32[2,3,4]), window={size=3}, \
dim_labels=b0f_o0i->b0f, custom_call_target="__cudnn$convForward"
(f32[1,3,2], u8[0]) custom-call(f32[1,5,4], f32[2,3,4], f32[2], f32[1,3,2]), window={size=3}, \
dim_labels=b0f_o0i->b0f, custom_call_target="__cudnn$convBiasActivationForward"
(f32[1,5,4], u8[0]) custom-call(f32[1,3,2], f32[2,3,4]), window={size=3}, \
dim_labels=b0f_o0i->b0f, custom_call_target="__cudnn$convBackwardInput"
(f32[2,3,4], u8[0]) custom-call(f32[1,5,4], f32[1,3,2]), window={size=3}, \
dim_labels=b0f_o0i->b0f, custom_call_target="__cudnn$convBackwardFilter"
"""


@pytest.mark.parametrize("line", CUDNN.strip().splitlines())
def test_a_cudnn_convolution_is_a_convolution(line: str) -> None:
    ins = instruction(line)
    for k, reads in enumerate(output_to_input(ins)):
        (read,), ((write,), workspace) = reads, input_to_output(ins, k)
        assert (read.precision, write.precision, workspace) == (Precision.EXACT,) * 2 + ((),)
        assert read.map is not None
        assert write.map is not None
        assert relation(read.map) == {(there, here) for here, there in relation(write.map)}
    assert all(accesses == () for accesses in output_to_input(ins, 1))


def test_a_bias_is_read_by_its_feature() -> None:
    answer = output_to_input(instruction(CUDNN.strip().splitlines()[1]))
    assert [without_domain(access.map) for (access,) in answer[2:]] == [
        "(d0, d1, d2) -> (d2)",
        "(d0, d1, d2) -> (d0, d1, d2)",
    ]


def test_tight_maps_leave_out_what_meets_padding() -> None:
    ins = instruction(
        "f32[1,3,1] convolution(f32[1,3,1], f32[3,1,1]), window={size=3 pad=1_1}, "
        "dim_labels=b0f_0io->b0f"
    )
    loose, tight = output_to_input(ins, tight=False), output_to_input(ins)
    assert loose[0] == tight[0]
    assert loose[1][0].map is not None
    assert tight[1][0].map is not None
    assert len(relation(loose[1][0].map)) == 9
    assert len(relation(tight[1][0].map)) == 7
    assert (loose[1][0].precision, tight[1][0].precision) == (Precision.OVER, Precision.EXACT)
    ((back,),) = input_to_output(ins, 1)
    assert back.map is not None
    assert len(relation(back.map)) == 7
    plain = instruction("f32[2] add(f32[2], f32[2])")
    assert output_to_input(plain, tight=False) == output_to_input(plain)


def test_padding_that_is_a_value_is_read_also_where_the_kernel_meets_it() -> None:
    text = """func.func @main(%a: tensor<1x3x1xf32>, %k: tensor<3x1x1xf32>, %p: tensor<1x2xi32>)
        -> tensor<1x3x1xf32> {
      %r = "stablehlo.dynamic_conv"(%a, %k, %p) <{batch_group_count = 1 : i64,
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
        feature_group_count = 1 : i64}>
        : (tensor<1x3x1xf32>, tensor<3x1x1xf32>, tensor<1x2xi32>) -> tensor<1x3x1xf32>
      return %r : tensor<1x3x1xf32> }"""
    ins = parse_stablehlo(text).entry["r"]
    loose, tight = output_to_input(ins, tight=False), output_to_input(ins)
    assert (loose[0], loose[2]) == (tight[0], tight[2])
    assert str(loose[2][0].map).startswith("(d0, d1, d2)[s0, s1] -> (s0, s1)")
