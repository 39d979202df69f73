"""StableHLO programs of one op: right ones of nearly every op, changed ones, free combinations.

A right program is a row of `_ROWS`: `op(types) {attributes} regions -> types`, with types as in
`4x3xf32`.  A change takes one thing of it; a free combination takes the parts from different rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final


def _region(takes: str, line: str, gives: str) -> str:
    names = ", ".join(f"%x{i}: tensor<{t}>" for i, t in enumerate(takes.split()))
    block = f"^bb0({names}):\n" if names else ""
    used = ", ".join(f"%y{i}" if line else f"%x{i}" for i in range(len(gives.split())))
    types = ", ".join(f"tensor<{t}>" for t in gives.split())
    return f'{{\n{block}{line}\n"stablehlo.return"({used}) : ({types}) -> ()\n}}'


def _two(op: str, type_: str, gives: str = "", attributes: str = "") -> str:
    gives = gives or type_
    line = (
        f'%y0 = "stablehlo.{op}"(%x0, %x1) {attributes} : (tensor<{type_}>, tensor<{type_}>)'
        f" -> tensor<{gives}>"
    )
    return _region(f"{type_} {type_}", line, gives)


_LESS: Final = "<{comparison_direction = #stablehlo<comparison_direction LT>}>"
REGIONS: Final = {
    "sum": _two("add", "f32"),
    "sum_i32": _two("add", "i32"),
    "less": _two("compare", "f32", "i1", _LESS),
    "first": _region("f32 i32 f32 i32", "", "f32 i32"),
    "less2": _region(
        "f32 f32 i32 i32",
        f'%y0 = "stablehlo.compare"(%x0, %x1) {_LESS} : (tensor<f32>, tensor<f32>) -> tensor<i1>',
        "i1",
    ),
    "nothing": _region("", "", ""),
    "same": _region("4x3xf32", "", "4x3xf32"),
    "turned": _region(
        "",
        '%y0 = "stablehlo.transpose"(%a1) <{permutation = array<i64: 1, 0>}> :'
        " (tensor<4x3xf32>) -> tensor<3x4xf32>",
        "3x4xf32",
    ),
    "never": _region(
        "4x3xf32",
        '%y0 = "stablehlo.constant"() <{value = dense<false> : tensor<i1>}> : () -> tensor<i1>',
        "i1",
    ),
    "square": _region(
        "f32",
        '%y0 = "stablehlo.multiply"(%x0, %x0) : (tensor<f32>, tensor<f32>) -> tensor<f32>',
        "f32",
    ),
}
"""Regions by name."""

_UNARY: Final = """
    abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate
    round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh
"""
_TWO: Final = "add atan2 divide maximum minimum multiply power remainder subtract"
_BITS: Final = "and or xor shift_left shift_right_arithmetic shift_right_logical"
_CHLO: Final = "acos acosh asin asinh atan atanh cosh sinh erf erfc erf_inv lgamma digamma square"
_IMPLICIT: Final = "add subtract multiply divide maximum minimum power atan2"

_GROUPS: Final = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_WINDOW: Final = "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>"
_SCATTER: Final = (
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims"
    " = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
)
_GATHER: Final = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],"
    " start_index_map = [0], index_vector_dim = 1>"
)
_CONV: Final = (
    "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,"
    " feature_group_count = 1, batch_group_count = 1"
)
_ROWS: Final = f"""
convert(4x3xf32) -> 4x3xi32
not(4xi1) -> 4xi1
popcnt(4xi32) -> 4xi32
count_leading_zeros(4xi32) -> 4xi32
is_finite(4x3xf32) -> 4x3xi1
real(4xcomplex<f32>) -> 4xf32
imag(4xcomplex<f32>) -> 4xf32
complex(4xf32 4xf32) -> 4xcomplex<f32>
compare(4x3xf32 4x3xf32) {{comparison_direction = #stablehlo<comparison_direction LT>}} -> 4x3xi1
reduce_precision(4x3xf32) {{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}} -> 4x3xf32
select(4x3xi1 4x3xf32 4x3xf32) -> 4x3xf32
select(i1 4x3xf32 4x3xf32) -> 4x3xf32
clamp(f32 4x3xf32 f32) -> 4x3xf32
map(4x3xf32) {{dimensions = array<i64: 0, 1>}} square -> 4x3xf32
optimization_barrier(4x3xf32 i32) -> 4x3xf32 i32
after_all(token token) -> token
create_token() -> token
iota() {{iota_dimension = 1 : i64}} -> 4x3xf32
constant() {{value = dense<[1, 2, 3]> : tensor<3xi32>}} -> 3xi32
broadcast_in_dim(4x1xf32) {{broadcast_dimensions = array<i64: 1, 2>}} -> 2x4x3xf32
broadcast(4x3xf32) {{broadcast_sizes = array<i64: 2>}} -> 2x4x3xf32
reshape(4x3xf32) -> 2x6xf32
transpose(4x3xf32) {{permutation = array<i64: 1, 0>}} -> 3x4xf32
reverse(4x3xf32) {{dimensions = array<i64: 0>}} -> 4x3xf32
bitcast_convert(4x3xf32) -> 4x3xi32
bitcast_convert(4x3xf32) -> 4x3x4xi8
concatenate(4x3xf32 2x3xf32) {{dimension = 0 : i64}} -> 6x3xf32
pad(4x3xf32 f32) {{edge_padding_low = array<i64: 1, 0>, edge_padding_high = array<i64: 2, -1>, interior_padding = array<i64: 0, 1>}} -> 7x4xf32
slice(4x3xf32) {{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 4, 3>, strides = array<i64: 2, 1>}} -> 2x3xf32
dynamic_slice(4x3xf32 i32 i32) {{slice_sizes = array<i64: 2, 2>}} -> 2x2xf32
dynamic_update_slice(4x3xf32 2x2xf32 i32 i32) -> 4x3xf32
real_dynamic_slice(4x3xf32 2xi32 2xi32 2xi32) -> ?x?xf32
dynamic_pad(4x3xf32 f32 2xi32 2xi32 2xi32) -> ?x?xf32
dynamic_reshape(4x3xf32 2xi32) -> ?x?xf32
dynamic_iota(2xi32) {{iota_dimension = 1 : i64}} -> ?x?xf32
dynamic_broadcast_in_dim(4x3xf32 3xi32) {{broadcast_dimensions = array<i64: 1, 2>}} -> ?x4x3xf32
dynamic_gather(4x3xf32 5x1xi32 2xi32) {{{_GATHER}}} -> 5x?xf32
dynamic_conv(1x6x6x2xf32 3x3x2x4xf32 2x2xi32) {{{_CONV}}} -> 1x?x?x4xf32
get_dimension_size(4x?xf32) {{dimension = 1 : i64}} -> i32
set_dimension_size(4x3xf32 i32) {{dimension = 0 : i64}} -> ?x3xf32
gather(4x3xf32 5x1xi32) {{{_GATHER}, slice_sizes = array<i64: 1, 3>}} -> 5x3xf32
scatter(4x3xf32 5x1xi32 5x3xf32) {{{_SCATTER}}} sum -> 4x3xf32
reduce(4x3xf32 f32) {{dimensions = array<i64: 1>}} sum -> 4xf32
reduce(4x3xf32 4x3xi32 f32 i32) {{dimensions = array<i64: 0>}} first -> 3xf32 3xi32
sort(4x3xf32) {{dimension = 1 : i64}} less -> 4x3xf32
sort(4x3xf32 4x3xi32) {{dimension = 0 : i64, is_stable = true}} less2 -> 4x3xf32 4x3xi32
reduce_window(4x6xf32 f32) {{{_WINDOW}}} sum -> 4x3xf32
reduce_window(4x6xf32 4x6xi32 f32 i32) {{{_WINDOW}}} first -> 4x3xf32 4x3xi32
select_and_scatter(4x6xf32 4x3xf32 f32) {{{_WINDOW}}} less sum -> 4x6xf32
convolution(1x6x6x2xf32 3x3x2x4xf32) {{{_CONV}, padding = dense<1> : tensor<2x2xi64>}} -> 1x6x6x4xf32
convolution(1x6x6x2xf32 3x3x2x4xf32) {{{_CONV}, window_strides = array<i64: 2, 1>}} -> 1x2x4x4xf32
dot(4x3xf32 3x5xf32) -> 4x5xf32
dot_general(2x4x3xf32 2x3x5xf32) {{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>}} -> 2x4x5xf32
einsum(4x3xf32 3x5xf32) {{einsum_config = "ab,bc->ac"}} -> 4x5xf32
unary_einsum(4x3xf32) {{einsum_config = "ab->a"}} -> 4xf32
torch_index_select(4x3xf32 2xi32) {{dim = 0 : i64, batch_dims = 0 : i64}} -> 2x3xf32
batch_norm_training(4x3xf32 3xf32 3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32 3xf32 3xf32
batch_norm_inference(4x3xf32 3xf32 3xf32 3xf32 3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32
batch_norm_grad(4x3xf32 3xf32 3xf32 3xf32 4x3xf32) {{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}} -> 4x3xf32 3xf32 3xf32
cholesky(2x3x3xf32) {{lower = true}} -> 2x3x3xf32
triangular_solve(3x3xf32 3x2xf32) {{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}} -> 3x2xf32
fft(2x8xf32) {{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 8>}} -> 2x5xcomplex<f32>
fft(2x5xcomplex<f32>) {{fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 8>}} -> 2x8xf32
rng(f32 f32 2xi64) {{rng_distribution = #stablehlo<rng_distribution UNIFORM>}} -> ?x?xf32
rng_bit_generator(2xui64) {{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}} -> 2xui64 4xui32
while(4x3xf32) never same -> 4x3xf32
if(i1 4x3xf32) turned turned -> 3x4xf32
case(i32 4x3xf32) turned turned turned -> 3x4xf32
all_gather(4x3xf32) {{all_gather_dim = 0 : i64, {_GROUPS}}} -> 8x3xf32
all_reduce(4x3xf32) {{{_GROUPS}}} sum -> 4x3xf32
reduce_scatter(4x3xf32) {{scatter_dimension = 0 : i64, {_GROUPS}}} sum -> 2x3xf32
all_to_all(4x3xf32) {{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, {_GROUPS}}} -> 2x6xf32
collective_broadcast(4x3xf32) {{{_GROUPS}}} -> 4x3xf32
collective_permute(4x3xf32) {{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}} -> 4x3xf32
partition_id() -> ui32
replica_id() -> ui32
send(4x3xf32 token) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}} -> token
recv(token) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false}} -> 4x3xf32 token
infeed(token) {{infeed_config = ""}} -> 4x3xf32 token
outfeed(4x3xf32 token) {{outfeed_config = ""}} -> token
custom_call(4x3xf32) {{call_target_name = "mine"}} -> 3x4xf32
chlo.top_k(4x3xf32) {{k = 2 : i64}} -> 4x2xf32 4x2xi32
chlo.constant_like(4x3xf32) {{value = 2.0 : f32}} -> 4x3xf32
chlo.broadcast_select(4x3xi1 4x3xf32 3xf32) -> 4x3xf32
chlo.broadcast_compare(4x3xf32 3xf32) {{comparison_direction = #chlo<comparison_direction LT>}} -> 4x3xi1
uniform_quantize(4x3xf32) -> 4x3x!quant.uniform<i8:f32,0.5:1>
uniform_dequantize(4x3x!quant.uniform<i8:f32,0.5:1>) -> 4x3xf32
add(4x3x!quant.uniform<i8:f32,0.5:1> 4x3x!quant.uniform<i8:f32,0.5:1>) -> 4x3x!quant.uniform<i8:f32,0.5:1>
"""  # noqa: E501  (a table reads best with one row a line)

_ROW: Final = re.compile(r"([\w.]+)\(([^()]*)\)(?: \{(.*)\})?((?: \w+)*) -> (.*)$")
_NUMBER: Final = re.compile(r"(?<![\w.#])-?\d+(?![\w.])")


@dataclass(frozen=True)
class Program:
    """One op: the types of the parameters, which of them it takes, its parts and results."""

    op: str
    parameters: tuple[str, ...]
    operands: tuple[int, ...]
    attributes: tuple[str, ...]
    regions: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The op."""
        return (self.op,)

    def text(self) -> str:
        """The module."""
        takes = ", ".join(f"%a{i}: {_type(t)}" for i, t in enumerate(self.parameters))
        gives = ", ".join(map(_type, self.results))
        names = ", ".join(f"%r#{i}" for i in range(len(self.results)))
        held = f" <{{{', '.join(self.attributes)}}}>" if self.attributes else ""
        regions = ", ".join(REGIONS[name] for name in self.regions)
        used = ", ".join(f"%a{i}" for i in self.operands)
        types = ", ".join(_type(self.parameters[i]) for i in self.operands)
        left = f"%r:{len(self.results)} = " if self.results else ""
        name = self.op if "." in self.op else f"stablehlo.{self.op}"
        return (
            f"func.func @main({takes}) -> ({gives}) {{\n"
            f'  {left}"{name}"({used}){held}{f" ({regions})" if regions else ""}'
            f" : ({types}) -> ({gives})\n"
            f"  return{f' {names} : {gives}' if names else ''}\n}}\n"
        )


def _type(text: str) -> str:
    return "!stablehlo.token" if text == "token" else f"tensor<{text}>" if text[0] != "!" else text


def _split(text: str) -> tuple[str, ...]:
    """The attributes between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())


def _program(row: str) -> Program:
    found = _ROW.match(row)
    assert found is not None, row
    op, types, attributes, regions, results = found.groups()
    parameters = tuple(types.split())
    taken = parameters[:1] if op in ("if", "case") else parameters
    held = _split(attributes.replace("->", "\0")) if attributes else ()
    return Program(
        op,
        parameters,
        tuple(range(len(taken))),
        tuple(a.replace("\0", "->") for a in held),
        tuple(regions.split()),
        tuple(results.split()),
    )


def _programs() -> Iterator[Program]:
    rows = [row for row in _ROWS.split("\n") if row.strip()]
    rows += [f"{op}(4x3xf32) -> 4x3xf32" for op in _UNARY.split()]
    rows += [f"{op}(4x3xf32 4x3xf32) -> 4x3xf32" for op in _TWO.split()]
    rows += [f"{op}(4xi32 4xi32) -> 4xi32" for op in _BITS.split()]
    rows += [f"chlo.{op}(4x3xf32) -> 4x3xf32" for op in _CHLO.split()]
    rows += [f"chlo.broadcast_{op}(4x3xf32 3xf32) -> 4x3xf32" for op in _IMPLICIT.split()]
    return map(_program, rows)


RIGHT: Final = tuple(_programs())
"""Right programs."""
TYPES: Final = tuple(
    "f32 4xf32 3xf32 4x3xf32 3x4xf32 0x3xf32 1xf32 2x4x3xf32 3x3xf32 i32 2xi32 4xi32 i64 ui32 4xi8"
    " i1 4x3xi1 4xcomplex<f32> 4x3xbf16 f64 token ?xf32 ?x3xf32 ?x?xf32 *xf32 index 2xindex"
    " 4x3x!quant.uniform<i8:f32,0.5:1> 4x3x!quant.uniform<i8:f32:1,{0.5,0.25,1.0}> 4xi4"
    " ?x3xf32,#stablehlo.bounds<4,?> 4xf8E4M3FN".split()
)


def other_type(text: str, c: Random) -> str:
    """A type much like that one, or quite another."""
    found = re.fullmatch(r"((?:[\d?]+x)*)([^,#]*)", text)
    if found is None or text == "token" or c.random() < 0.2:
        return c.choice(TYPES)
    sizes, element = found[1].split("x")[:-1], found[2]
    match c.randrange(6):
        case 0 | 1:
            element = c.choice("f32 f64 bf16 i1 i4 i8 i32 i64 ui32 index complex<f32>".split())
        case 2:
            sizes.insert(c.randint(0, len(sizes)), c.choice("0 1 2 3 4 ?".split()))
        case 3 if sizes:
            sizes.pop(c.randrange(len(sizes)))
        case _ if sizes:
            sizes[c.randrange(len(sizes))] = c.choice("? ? 0 1 2 3 4 5 8".split())
    return "".join(f"{size}x" for size in sizes) + element


def _other(items: tuple[str, ...], c: Random, new: Callable[[str], str]) -> tuple[str, ...]:
    if not items:
        return items
    at = c.randrange(len(items))
    return (*items[:at], new(items[at]), *items[at + 1 :])


def _number(text: str, c: Random) -> str:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text
    one = c.choice(numbers)
    n = int(one[0])
    return f"{text[: one.start()]}{c.choice([n + 1, n - 1, -1, 0, 2, 100])}{text[one.end() :]}"


def _more_or_fewer(text: str, c: Random) -> str:
    """A list with one number left out, or one more."""
    numbers = list(re.finditer(r"-?\d+, |, -?\d+(?=[\]>])", text))
    if numbers and c.random() < 0.5:
        one = c.choice(numbers)
        return text[: one.start()] + text[one.end() :]
    places = list(re.finditer(r"(?<=[\d])(?=[\]>])", text))
    if not places:
        return text
    at = c.choice(places).start()
    return f"{text[:at]}, {c.randrange(3)}{text[at:]}"


def changed(p: Program, c: Random) -> Program:
    """The program with one thing changed."""
    match c.randrange(12):
        case 0 if p.operands:
            at = c.randrange(len(p.operands))
            return replace(p, operands=p.operands[:at] + p.operands[at + 1 :])
        case 1 if p.operands:
            return replace(p, operands=(*p.operands, c.choice(p.operands)))
        case 2:
            return replace(p, operands=tuple(c.sample(p.operands, len(p.operands))))
        case 3 | 4:
            return replace(p, parameters=_other(p.parameters, c, lambda t: other_type(t, c)))
        case 5:
            return replace(p, results=_other(p.results, c, lambda t: other_type(t, c)))
        case 6:
            return replace(p, attributes=_other(p.attributes, c, lambda t: _number(t, c)))
        case 7:
            return replace(p, attributes=_other(p.attributes, c, lambda t: _more_or_fewer(t, c)))
        case 8 if p.attributes:
            at = c.randrange(len(p.attributes))
            return replace(p, attributes=p.attributes[:at] + p.attributes[at + 1 :])
        case 9:
            return replace(p, regions=_other(p.regions, c, lambda _: c.choice(list(REGIONS))))
        case 10 if p.results:
            results = p.results[:-1] if c.random() < 0.5 else (*p.results, p.results[0])
            return replace(p, results=results)
        case _:
            other = c.choice(RIGHT)
            return replace(p, op=other.op, attributes=other.attributes, regions=other.regions)


def combined(c: Random) -> Program:
    """An op, operands, types and attributes from anywhere."""
    p = c.choice(RIGHT)
    parameters = tuple(c.choice(TYPES) for _ in range(c.randrange(5)))
    if c.random() < 0.5:
        parameters = (c.choice(TYPES),) * c.randrange(5)
    return replace(
        p,
        parameters=parameters,
        operands=tuple(range(len(parameters))),
        results=tuple(c.choice((*TYPES, *parameters)) for _ in p.results),
    )


def program_of(seed: int) -> Program:
    """A right program with one to three changes, or a free combination."""
    c = Random(seed)
    if c.random() < 0.3:
        return combined(c)
    program = c.choice(RIGHT)
    for _ in range(c.choice((1, 1, 1, 2, 3))):
        program = changed(program, c)
    return program
