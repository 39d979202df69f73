"""HLO programs of a few instructions: right ones of every opcode, changed ones, free combinations.

A right program is a row of `_ROWS`: types of the parameters `a`, `b`, `c` …, then instructions, the
last of which is the root.  A change takes one thing of it: an operand, a type, an attribute, the
opcode, a computation.  A free combination takes opcode, operands, types and attributes from
different rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final

COMPUTATIONS: Final = """
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }
sum_s32 { x = s32[] parameter(0) y = s32[] parameter(1) ROOT r = s32[] add(x, y) }
ge { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = pred[] compare(x, y), direction=GE }
both { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
 s = f32[] add(a, c) t = s32[] add(b, d) ROOT r = (f32[], s32[]) tuple(s, t) }
less2 { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
 ROOT r = pred[] compare(a, b), direction=LT }
square { x = f32[] parameter(0) ROOT r = f32[] multiply(x, x) }
turn { x = f32[4,3] parameter(0) ROOT r = f32[3,4] transpose(x), dimensions={1,0} }
twice { x = f32[4,3] parameter(0) ROOT r = f32[4,3] add(x, x) }
three { x = f32[4,3] parameter(0) y = f32[4,3] parameter(1) ROOT r = f32[4,3] subtract(x, y) }
pair { x = f32[4,3] parameter(0) y = s32[] parameter(1)
 ROOT r = (f32[4,3], s32[]) tuple(x, y) }
few { x = (f32[4,3], s32[]) parameter(0) i = s32[] get-tuple-element(x), index=1
 n = s32[] constant(2) ROOT r = pred[] compare(i, n), direction=LT }
step { x = (f32[4,3], s32[]) parameter(0) v = f32[4,3] get-tuple-element(x), index=0
 i = s32[] get-tuple-element(x), index=1 n = s32[] constant(1) j = s32[] add(i, n)
 w = f32[4,3] negate(v) ROOT r = (f32[4,3], s32[]) tuple(w, j) }
scanned { x = f32[3] parameter(0) c = f32[3] parameter(1) s = f32[3] add(x, c)
 ROOT r = (f32[3], f32[3]) tuple(s, s) }
nothing { ROOT r = () tuple() }
token_of { x = f32[4,3] parameter(0) ROOT r = token[] after-all() }
"""
"""What the programs call."""

_UNARY: Final = """
    abs ceil cosine cbrt erf exponential exponential-minus-one floor log log-plus-one logistic
    negate round-nearest-afz round-nearest-even rsqrt sign sine sqrt tan tanh acos acosh asin asinh
    atanh cosh sinh copy
"""
_BINARY: Final = "add subtract multiply divide maximum minimum power remainder atan2"
_BITS: Final = "and or xor shift-left shift-right-arithmetic shift-right-logical"

_ROWS: Final = """
f32[4,3] | f32[4,3] convert(a)
s32[4,3] | u8[4,3] convert(a)
f32[4,3] u32[4,3] | s8[4,3] stochastic-convert(a, b)
pred[4] | pred[4] not(a)
s32[4] | s32[4] popcnt(a)
s32[4] | s32[4] count-leading-zeros(a)
f32[4,3] | pred[4,3] is-finite(a)
c64[4] | f32[4] real(a)
c64[4] | f32[4] imag(a)
f32[4] f32[4] | c64[4] complex(a, b)
f32[4,3] f32[4,3] | pred[4,3] compare(a, b), direction=LT
f32[4,3] | f32[4,3] reduce-precision(a), exponent_bits=5, mantissa_bits=10
pred[4,3] f32[4,3] f32[4,3] | f32[4,3] select(a, b, c)
f32[] f32[4,3] f32[] | f32[4,3] clamp(a, b, c)
f32[4,3] f32[4,3] | f32[4,3] map(a, b), dimensions={0,1}, to_apply=sum
f32[4,3] s32[] | (f32[4,3], s32[]) tuple(a, b)
(f32[4,3],s32[]) | s32[] get-tuple-element(a), index=1
(f32[4],(s32[2],pred[]),s32[]) | (s32[2], pred[]) get-tuple-element(a), index=1
f32[4,3] | f32[3,4] call(a), to_apply=turn
f32[4,3] f32[4,3] | f32[4,3] fusion(a, b), kind=kLoop, calls=three
f32[4,3] s32[] | (f32[4,3], s32[]) fusion(a, b), kind=kLoop, calls=pair
(f32[4,3],s32[]) | (f32[4,3], s32[]) while(a), condition=few, body=step
pred[] f32[4,3] | f32[3,4] conditional(a, b, b), true_computation=turn, false_computation=turn
s32[] f32[4,3] | f32[4,3] conditional(a, b, b), branch_computations={twice, twice}
f32[4,3] | token[] after-all()
f32[4,3] token[] | f32[4,3] add-dependency(a, b)
(f32[4,3],s32[]) | (f32[4,3], s32[]) opt-barrier(a)
f32[4,3] | f32[4,3] opt-barrier(a)
f32[4,3] | f32[4,3] domain(a), domain={kind="sharding", entry={}, exit={}}
f32[4,3] | f32[3,4] custom-call(a), custom_call_target="mine"
f32[4,3] | f32[4,3] custom-call(a), custom_call_target="Sharding"
f32[4,3] | (f32[4,2], s32[4,2]) custom-call(a), custom_call_target="TopK", called_computations={ge}
 | f32[4,3] iota(), iota_dimension=1
 | f32[2,2] constant({{1, 2}, {3, 4}})
 | s32[] constant(3)
f32[4,3] | f32[2,4,3] broadcast(a), dimensions={1,2}
f32[] | f32[4,3] broadcast(a), dimensions={}
f32[4,3] | f32[2,6] reshape(a)
f32[4,3] s32[] s32[] | f32[<=4,<=3] dynamic-reshape(a, b, c)
f32[4,3] | f32[3,4] transpose(a), dimensions={1,0}
f32[4,3] | f32[4,3] reverse(a), dimensions={0}
f32[4,3]{1,0} | f32[3,4]{0,1} bitcast(a)
f32[4,3] | s32[4,3] bitcast-convert(a)
f32[4,3] | u8[4,3,4] bitcast-convert(a)
f32[4,3] f32[2,3] | f32[6,3] concatenate(a, b), dimensions={0}
f32[4,3] f32[] | f32[7,4] pad(a, b), padding=1_2x0_-1_1
f32[4,3] | f32[2,3] slice(a), slice={[1:4:2],[0:3]}
f32[4,3] s32[] s32[] | f32[2,2] dynamic-slice(a, b, c), dynamic_slice_sizes={2,2}
f32[4,3] f32[2,2] s32[] s32[] | f32[4,3] dynamic-update-slice(a, b, c, d)
f32[4,3] | s32[] get-dimension-size(a), dimensions={0}
f32[4,3] s32[] | f32[<=4,3] set-dimension-size(a, b), dimensions={0}
f32[4,3] s32[5,1] | f32[5,3] gather(a, b), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
f32[4,3] s32[4,5] | f32[4,5] gather(a, b), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}
f32[4,3] s32[5,1] f32[5,3] | f32[4,3] scatter(a, b, c), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
f32[4,3] f32[] | f32[4] reduce(a, b), dimensions={1}, to_apply=sum
f32[4,3] s32[4,3] f32[] s32[] | (f32[3], s32[3]) reduce(a, b, c, d), dimensions={0}, to_apply=both
f32[4,3] f32[3] | (f32[4,3], f32[3]) scan(a, b), dimensions={0}, num_carries=1, to_apply=scanned
f32[4,3] | f32[4,3] sort(a), dimensions={1}, to_apply=ge
f32[4,3] s32[4,3] | (f32[4,3], s32[4,3]) sort(a, b), dimensions={0}, is_stable=true, to_apply=less2
f32[4,3] | (f32[4,2], s32[4,2]) topk(a), k=2, largest=true
f32[4,6] f32[] | f32[4,3] reduce-window(a, b), window={size=1x2 stride=1x2}, to_apply=sum
f32[4,6] s32[4,6] f32[] s32[] | (f32[4,5], s32[4,5]) reduce-window(a, b, c, d), window={size=1x2}, to_apply=both
f32[4,6] f32[4,3] f32[] | f32[4,6] select-and-scatter(a, b, c), window={size=1x2 stride=1x2}, select=ge, scatter=sum
f32[1,6,6,2] f32[3,3,2,4] | f32[1,6,6,4] convolution(a, b), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
f32[2,5,4] f32[3,2,4] | f32[2,3,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2
f32[4,3] f32[3,5] | f32[4,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
f32[2,4,3] f32[2,3,5] | f32[2,4,5] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
f32[6,3] f32[2,3,5] s32[2] | f32[6,5] ragged-dot(a, b, c), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
f8e4m3fn[4,32] f8e4m3fn[5,32] f8e8m0fnu[4,1] f8e8m0fnu[5,1] | f32[4,5] scaled-dot(a, b, c, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
f32[4,3] f32[3] f32[3] | (f32[4,3], f32[3], f32[3]) batch-norm-training(a, b, c), epsilon=0.001, feature_index=1
f32[4,3] f32[3] f32[3] f32[3] f32[3] | f32[4,3] batch-norm-inference(a, b, c, d, e), epsilon=0.001, feature_index=1
f32[4,3] f32[3] f32[3] f32[3] f32[4,3] | (f32[4,3], f32[3], f32[3]) batch-norm-grad(a, b, c, d, e), epsilon=0.001, feature_index=1
f32[2,3,3] | f32[2,3,3] cholesky(a), lower=true
f32[3,3] f32[3,2] | f32[3,2] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
f32[2,8] | c64[2,5] fft(a), fft_type=RFFT, fft_length={8}
c64[2,5] | f32[2,8] fft(a), fft_type=IRFFT, fft_length={8}
c64[4,8] | c64[4,8] fft(a), fft_type=FFT, fft_length={4,8}
f32[] f32[] | f32[4,3] rng(a, b), distribution=rng_uniform
u64[2] | (u64[2], u32[4]) rng-bit-generator(a), algorithm=rng_default
 | u64[2] rng-get-and-update-state(), delta=4
f32[4,3] | f32[8,3] all-gather(a), replica_groups={{0,1}}, dimensions={0}
f32[4,3] f32[2,3] | (f32[8,3], f32[4,3]) all-gather(a, b), replica_groups={{0,1}}, dimensions={0}
f32[4,3] | f32[4,3] all-reduce(a), replica_groups={{0,1}}, to_apply=sum
f32[4,3] | f32[2,3] reduce-scatter(a), replica_groups={{0,1}}, dimensions={0}, to_apply=sum
f32[4,3] | f32[4,3] all-to-all(a), replica_groups={{0,1}}, dimensions={0}
f32[4,3] f32[4,3] | (f32[4,3], f32[4,3]) all-to-all(a, b), replica_groups={{0,1}}
f32[4,3] f32[4,3] s32[2] s32[2] s32[2] s32[2] | f32[4,3] ragged-all-to-all(a, b, c, d, e, f), replica_groups={{0,1}}
f32[4,3] | f32[4,3] collective-broadcast(a), replica_groups={{0,1}}
f32[4,3] | f32[4,3] collective-permute(a), source_target_pairs={{0,1},{1,0}}
 | u32[] partition-id()
 | u32[] replica-id()
token[] | ((f32[4,3]), token[]) infeed(a)
f32[4,3] token[] | token[] outfeed(a, b), outfeed_shape=f32[4,3]
f32[4,3] token[] | s = (f32[4,3], u32[], token[]) send(a, b), channel_id=1 | token[] send-done(s), channel_id=1
token[] | s = (f32[4,3], u32[], token[]) recv(a), channel_id=1 | (f32[4,3], token[]) recv-done(s), channel_id=1
f32[4,3] | s = (f32[4,3], f32[4,3], u32[]) copy-start(a) | f32[4,3] copy-done(s)
f32[4,3] | s = (f32[4,3], f32[8,3]) all-gather-start(a), replica_groups={{0,1}}, dimensions={0} | f32[8,3] all-gather-done(s)
f32[4,3] f32[2,3] | s = ((f32[4,3], f32[2,3]), (f32[8,3], f32[4,3])) all-gather-start(a, b), replica_groups={{0,1}}, dimensions={0} | (f32[8,3], f32[4,3]) all-gather-done(s)
f32[4,3] | s = f32[4,3] all-reduce-start(a), replica_groups={{0,1}}, to_apply=sum | f32[4,3] all-reduce-done(s)
f32[4,3] | s = (f32[4,3], f32[4,3], u32[], u32[]) collective-permute-start(a), source_target_pairs={{0,1},{1,0}} | f32[4,3] collective-permute-done(s)
f32[4,3] | s = ((f32[4,3]), f32[2,3]) reduce-scatter-start(a), replica_groups={{0,1}}, dimensions={0}, to_apply=sum | f32[2,3] reduce-scatter-done(s)
f32[4,3] | s = ((f32[4,3]), f32[2,3], s32[]) slice-start(a), slice={[1:3],[0:3]} | u = ((f32[4,3]), f32[2,3], s32[]) slice-update(s) | f32[2,3] slice-done(u)
f32[4,3] f32[3,5] | s = ((f32[4,3], f32[3,5]), f32[4,5], u32[]) dot-start(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} | u = ((f32[4,3], f32[3,5]), f32[4,5], u32[]) dot-update(s) | f32[4,5] dot-done(u)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) custom-call-start(a), custom_call_target="mine" | f32[3,4] custom-call-done(s)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) async-start(a), calls=turn | u = ((f32[4,3]), f32[3,4], s32[]) async-update(s) | f32[3,4] async-done(u)
f32[4,3] | s = ((f32[4,3]), f32[3,4], s32[]) call-start(a), to_apply=turn | f32[3,4] call-done(s)
f32[4,3] f32[4,3] | s = ((f32[4,3], f32[4,3]), f32[4,3], s32[]) fusion-start(a, b), kind=kLoop, calls=three | f32[4,3] fusion-done(s)
"""  # noqa: E501  (a table reads best with one row a line)

_WORD: Final = re.compile(r"^(?:(\w+) = )?(.*?) ?([a-z][a-z0-9-]*)\(([^()]*)\)(.*)$")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d+(?![\w.])")
_ATTRIBUTE: Final = re.compile(r", ([\w-]+)=(\{.*?\}+(?=, [\w-]+=|$)|[^,]*)")
_NAMES: Final = tuple("abcdefgh")


@dataclass(frozen=True)
class Line:
    """One instruction: a name, a type (empty: not written), opcode, operands and attributes."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    def __str__(self) -> str:
        inside = ", ".join(self.operands)
        return f"{self.name} = {self.type} {self.opcode}({inside}){self.attributes}"


@dataclass(frozen=True)
class Program:
    """Types of the parameters, and the instructions, the root last."""

    parameters: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The opcodes."""
        return tuple([line.opcode for line in self.lines])

    def text(self) -> str:
        """The module."""
        named = zip(_NAMES, self.parameters, strict=False)
        body = [f"{n} = {t} parameter({i})" for i, (n, t) in enumerate(named)]
        body += map(str, self.lines)
        body[-1] = "ROOT " + body[-1]
        return f"HloModule m\n{_called(body)}ENTRY e {{\n  " + "\n  ".join(body) + "\n}\n"


def _called(body: list[str]) -> str:
    """The computations that the instructions name."""
    text = "\n".join(body)
    return "".join(
        f"{whole}\n" for name, whole in _BY_NAME.items() if re.search(rf"[={{ ]{name}\b", text)
    )


_BY_NAME: Final = {
    found[1]: found[0]
    for found in re.finditer(r"^(\w+) \{.*?\}$", COMPUTATIONS, re.MULTILINE | re.DOTALL)
}


def _types(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _line(text: str) -> Line:
    found = _WORD.match(text.strip())
    assert found is not None, text
    name, type_, opcode, operands, attributes = found.groups()
    inside = (operands,) if opcode == "constant" else tuple(operands.split(", "))
    return Line(name or "r", type_, opcode, inside if operands else (), attributes)


def _programs() -> Iterator[Program]:
    rows = [row for row in _ROWS.split("\n") if row.strip()]
    rows += [f"f32[4,3] | f32[4,3] {opcode}(a)" for opcode in _UNARY.split()]
    rows += [f"f32[4,3] f32[4,3] | f32[4,3] {opcode}(a, b)" for opcode in _BINARY.split()]
    rows += [f"s32[4] s32[4] | s32[4] {opcode}(a, b)" for opcode in _BITS.split()]
    for row in rows:
        parameters, *lines = row.split(" | ") if not row.startswith(" |") else ["", row[3:]]
        yield Program(_types(parameters), tuple(map(_line, lines)))


RIGHT: Final = tuple(_programs())
"""Right programs: every opcode, the asynchronous ones among them."""

TYPES: Final = tuple(
    "f32[] f32[4] f32[3] f32[4,3] f32[3,4] f32[0,3] f32[1] f32[2,4,3] f32[3,3] s32[] s32[2] s32[4]"
    " s64[] u32[] u8[4] pred[] pred[4,3] c64[4] bf16[4,3] f64[] token[] () (f32[4,3],s32[])"
    " (f32[4],(s32[],pred[])) f32[<=4,3] s32[<=4] f32[4,3]{0,1} s4[4,3] f8e4m3fn[4] opaque[]"
    " ((f32[4,3]),f32[3,4],s32[]) (f32[4,3],f32[4,3],u32[]) f32[1,6,6,2] (token[],f32[])".split()
)
OPCODES: Final = tuple(dict.fromkeys(line.opcode for p in RIGHT for line in p.lines))
_LINES: Final = {opcode: [x for p in RIGHT for x in p.lines if x.opcode == opcode]
                 for opcode in OPCODES}  # fmt: skip

# ---------------------------------------------------------------------------------- changes


def _operand_left_out(line: Line, program: Program, c: Random) -> Line:
    if not line.operands:
        return line
    at = c.randrange(len(line.operands))
    return replace(line, operands=line.operands[:at] + line.operands[at + 1 :])


def _operand_repeated(line: Line, program: Program, c: Random) -> Line:
    if not line.operands:
        return line
    return replace(line, operands=line.operands + (c.choice(line.operands),) * c.randint(1, 2))


def _operands_swapped(line: Line, program: Program, c: Random) -> Line:
    return replace(line, operands=tuple(c.sample(line.operands, len(line.operands))))


def _type(line: Line, program: Program, c: Random) -> Line:
    return replace(line, type=other_type(line.type, c))


def _type_left_out(line: Line, program: Program, c: Random) -> Line:
    return replace(line, type="")


def _number(line: Line, program: Program, c: Random) -> Line:
    numbers = list(_NUMBER.finditer(line.attributes))
    if not numbers:
        return line
    one = c.choice(numbers)
    n = int(one[0])
    new = c.choice([n + 1, n - 1, -1, 0, 2, 100])
    text = line.attributes
    return replace(line, attributes=f"{text[: one.start()]}{new}{text[one.end() :]}")


def _number_left_out(line: Line, program: Program, c: Random) -> Line:
    text = line.attributes
    numbers = list(re.finditer(r"(?<=[{,])-?\d+,?|,-?\d+(?=})", text))
    if not numbers:
        return line
    one = c.choice(numbers)
    return replace(line, attributes=text[: one.start()] + text[one.end() :])


def _number_added(line: Line, program: Program, c: Random) -> Line:
    text = line.attributes
    places = list(re.finditer(r"(?<=\d)(?=})", text))
    if not places:
        return line
    at = c.choice(places).start()
    return replace(line, attributes=f"{text[:at]},{c.randrange(4)}{text[at:]}")


def _attribute_left_out(line: Line, program: Program, c: Random) -> Line:
    found = list(_ATTRIBUTE.finditer(line.attributes))
    if not found:
        return line
    one = c.choice(found)
    return replace(line, attributes=line.attributes[: one.start()] + line.attributes[one.end() :])


def _attribute_of_another(line: Line, program: Program, c: Random) -> Line:
    """The value that another program gives an attribute of this name, or one more attribute."""
    other = c.choice(c.choice(RIGHT).lines)
    theirs = list(_ATTRIBUTE.finditer(other.attributes))
    if not theirs:
        return line
    one = c.choice(theirs)
    mine = [m for m in _ATTRIBUTE.finditer(line.attributes) if m[1] == one[1]]
    text = line.attributes
    for m in mine:
        text = text[: m.start()] + text[m.end() :]
    return replace(line, attributes=text + one[0])


def _opcode(line: Line, program: Program, c: Random) -> Line:
    opcode = c.choice(OPCODES)
    attributes = c.choice(_LINES[opcode]).attributes if c.random() < 0.7 else line.attributes
    return replace(line, opcode=opcode, attributes=attributes)


def _asynchronous(line: Line, program: Program, c: Random) -> Line:
    step = c.choice(("start", "update", "done"))
    base = line.opcode.removesuffix("-start").removesuffix("-done").removesuffix("-update")
    return replace(line, opcode=f"{base}-{step}")


def _computation(line: Line, program: Program, c: Random) -> Line:
    used = [name for name in _BY_NAME if re.search(rf"[={{ ]{name}\b", line.attributes)]
    if not used:
        return line
    new = c.choice(list(_BY_NAME))
    text = re.sub(rf"(?<=[={{ ]){c.choice(used)}\b", new, line.attributes)
    return replace(line, attributes=text)


def _operand_of_another(line: Line, program: Program, c: Random) -> Line:
    known = [*_NAMES[: len(program.parameters)], *(x.name for x in program.lines)]
    before = known[: known.index(line.name)] if line.name in known else known
    if not before or not line.operands:
        return line
    at = c.randrange(len(line.operands))
    return replace(line, operands=(*line.operands[:at], c.choice(before), *line.operands[at + 1 :]))


_CHANGES: Final[tuple[Callable[[Line, Program, Random], Line], ...]] = (
    _operand_left_out,
    _operand_repeated,
    _operands_swapped,
    _operand_of_another,
    _type,
    _type,
    _type_left_out,
    _number,
    _number,
    _number_left_out,
    _number_added,
    _attribute_left_out,
    _attribute_of_another,
    _opcode,
    _asynchronous,
    _computation,
)


def other_type(text: str, c: Random) -> str:
    """A type much like that one, or quite another."""
    found = re.fullmatch(r"(\w+)\[([^]]*)\](.*)", text)
    if c.random() < 0.25:
        return c.choice(TYPES)
    if found is None or text.startswith("token"):
        parts = re.findall(r"\w+\[[^]]*\](?:\{[^}]*\})?", text)
        match c.randrange(4):
            case 0 if parts:
                return c.choice(parts)
            case 1 if parts:
                return f"({', '.join(c.sample(parts, c.randint(0, len(parts))))})"
            case 2 if parts:
                one = c.choice(parts)
                return text.replace(one, other_type(one, c), 1)
            case _:
                return f"({text})"
    element, inside, layout = found.groups()
    sizes = inside.split(",") if inside else []
    match c.randrange(7):
        case 0 | 1:
            element = c.choice("f32 s32 pred c64 bf16 u32 f64 s8 u64 s4 f8e4m3fn token".split())
        case 2:
            sizes.insert(c.randint(0, len(sizes)), c.choice("0 1 2 3 4 <=4".split()))
            layout = ""
        case 3 if sizes:
            sizes.pop(c.randrange(len(sizes)))
            layout = ""
        case 4:
            return f"({text})"
        case _ if sizes:
            sizes[c.randrange(len(sizes))] = c.choice("0 1 2 3 4 5 8 <=4 <=3".split())
    return f"{element}[{','.join(sizes)}]{layout}"


def changed(program: Program, c: Random) -> Program:
    """The program with one thing changed."""
    if program.parameters and c.random() < 0.3:
        at = c.randrange(len(program.parameters))
        types = list(program.parameters)
        types[at] = other_type(types[at], c).replace(" ", "")
        return replace(program, parameters=tuple(types))
    at = c.randrange(len(program.lines))
    line = c.choice(_CHANGES)(program.lines[at], program, c)
    return replace(program, lines=(*program.lines[:at], line, *program.lines[at + 1 :]))


def combined(c: Random) -> Program:
    """Opcode, operands, types and attributes from anywhere."""
    opcode = c.choice(OPCODES)
    parameters = tuple(c.choice(TYPES) for _ in range(c.randrange(5)))
    if c.random() < 0.5:
        parameters = (c.choice(TYPES),) * c.randrange(5)
    names = _NAMES[: len(parameters)]
    operands = (
        names if c.random() < 0.6 else tuple(c.choices(names, k=c.randrange(6)) if names else ())
    )
    attributes = c.choice(_LINES[opcode]).attributes
    type_ = c.choice([*TYPES, *parameters, *parameters, "", ""])
    return Program(parameters, (Line("r", type_, opcode, tuple(operands), attributes),))


def program_of(seed: int) -> Program:
    """A right program with one to three changes, or a free combination."""
    c = Random(seed)
    if c.random() < 0.3:
        return combined(c)
    program = c.choice(RIGHT)
    for _ in range(c.choice((1, 1, 1, 2, 3))):
        program = changed(program, c)
    return program
