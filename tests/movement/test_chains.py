"""Verdicts about chains of movement agree with running them on numbered elements."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hloscope
from hloscope.hlo_parser import print_hlo
from hloscope.interpreter import call, dtype_of
from hloscope.ir import Module, TensorType
from hloscope.movement import (
    Chain,
    Flow,
    Kind,
    Planner,
    chain_program,
    chain_to,
    chains_of,
    rewrite,
)
from tests.movement.programs import random_chain

Numbers = NDArray[np.int64]


def addresses(type_: TensorType) -> Numbers:
    """Where each element stands in memory."""
    order = type_.layout.major_to_minor if type_.layout else tuple(range(type_.rank))
    placed = [type_.shape[k] for k in order]
    numbers = np.arange(prod(placed)).reshape(placed)
    return numbers.transpose([order.index(k) for k in range(type_.rank)])


def digits_of(values: Numbers) -> list[tuple[int, int]] | None:
    """Sizes and strides, the fastest first, of which the values are the sums; by looking at all."""
    modes: list[tuple[int, int]] = []
    rest = values - values[0]
    while len(rest) > 1:
        stride = int(rest[1])
        ends = [n for n in range(2, len(rest) + 1) if len(rest) % n == 0]
        fits = [n for n in ends if (rest[:n] == stride * np.arange(n)).all()]
        if not fits:
            return None
        size = max(fits)
        rows = rest.reshape(-1, size)
        if not (rows - rows[:, :1] == stride * np.arange(size)).all():
            return None
        modes.append((size, stride))
        rest = rows[:, 0]
    return modes


def observed(moved: Numbers, source: TensorType, output: TensorType) -> Kind:
    """The verdict that the numbers of the elements that came out ask for: 0 is none."""
    if moved.size != source.num_elements or (moved == 0).any():
        return Kind.MOVEMENT
    come_from = addresses(source).ravel()[moved.ravel() - 1].reshape(moved.shape)
    here = addresses(output)
    if (come_from == here).all():
        same = source.shape == output.shape and (addresses(source) == here).all()
        same = same and (moved.ravel() - 1 == np.arange(moved.size)).all()
        same = same and _order(source) == _order(output)
        return Kind.NO_OP if same else Kind.BITCAST
    in_memory = np.empty(moved.size, np.int64)
    in_memory[here.ravel()] = come_from.ravel()
    if len(set(in_memory.tolist())) < len(in_memory) or digits_of(in_memory) is None:
        return Kind.MOVEMENT
    modes = digits_of(in_memory)
    return (
        Kind.TRANSPOSE
        if in_memory[0] == 0 and all(s > 0 for _, s in modes or ())
        else Kind.MOVEMENT
    )


def _order(type_: TensorType) -> tuple[int, ...]:
    return type_.layout.minor_to_major if type_.layout else tuple(range(type_.rank))[::-1]


def run(module: Module) -> Numbers:
    """The numbers of the elements of the first parameter that are returned, from 1 on."""
    first, *others = [p.type for p in module.entry.parameters]
    assert isinstance(first, TensorType)
    numbers = (
        np.arange(1, prod(first.shape) + 1).reshape(first.shape).astype(dtype_of(first.element))
    )
    rest = [np.zeros(t.shape, dtype_of(t.element)) for t in others if isinstance(t, TensorType)]
    return np.abs(np.asarray(call(module, [numbers, *rest]))).astype(np.int64)


def main_chain(program: hloscope.Program) -> Chain | None:
    """The chain that ends in the root, if the root is moved."""
    flow = Flow(program.module)
    root = flow.source(program.entry.ir.root)
    return next((c for c in chains_of(flow) if c.sink is root), None)


def check(text: str) -> Kind | None:
    """Compare the verdict with what is observed; the verdict."""
    program = hloscope.read(text)
    chain = main_chain(program)
    if chain is None:
        return None
    leaf = chain.main[0]
    is_whole = leaf.value is program.entry.ir.parameters[0]
    moved = run(program.module if is_whole else chain_program(chain))
    source = leaf.type
    assert chain.kind is observed(moved, source, chain.type), text
    judged = chain.judgements[0]
    if judged.output_layout or judged.source_layout:
        types = [
            TensorType(type_.element, type_.shape, layout or type_.layout)
            for type_, layout in (
                (source, judged.source_layout),
                (chain.type, judged.output_layout),
            )
        ]
        assert observed(moved, *types) in (Kind.BITCAST, Kind.NO_OP), text
    shorter = rewrite(chain)  # which runs both programs
    assert shorter.checked == "run" or chain.kind is Kind.MOVEMENT, (text, shorter)
    return chain.kind


@pytest.mark.slow
def test_random_chains_are_judged_as_numbered_elements_show(full: bool) -> None:
    kinds = [check(random_chain(seed)) for seed in range(1150 if full else 70)]
    assert {*Kind} - {Kind.UNDECIDED} <= {*kinds}
    assert Kind.UNDECIDED not in kinds


def test_chains_through_a_value_are_those_of_all_chains(full: bool) -> None:
    for seed in range(300 if full else 40):
        flow = Flow(hloscope.read(random_chain(seed)).module)
        every = list(chains_of(flow))
        for value in {flow.source(ins) for c in flow.computations() for ins in c}:
            found = [(c.sink, c.steps) for c in chains_of(flow, [value])]
            through = [(c.sink, c.steps) for c in every if c.sink is value or value in c.steps]
            assert [pair for pair in found if pair in through] == through


def layers() -> str:
    """Layers that are nearly alike, each twice: of another layout, operand, part, or number of
    readers."""
    lines: list[str] = []
    returned: list[str] = []
    differences = product(("1,0", "0,1"), ("t", "q", "v"), ("0:2", "1:3"), (False, True))
    for k, (order, other, part, both) in enumerate([*differences] * 2):
        lines += [
            f"p{k} = f32[2,3] parameter({k})",
            f"one{k} = f32[] constant({k})",
            f"t{k} = f32[3,2]{{{order}}} transpose(p{k}), dimensions={{1,0}}",
            f"q{k} = f32[3,2]{{{order}}} reshape(p{k})",
            f"v{k} = f32[3,2]{{{order}}} broadcast(one{k}), dimensions={{}}",
            f"a{k} = f32[3,2]{{{order}}} add(t{k}, {other}{k})",
            f"r{k} = f32[2,3] transpose(a{k}), dimensions={{1,0}}",
            f"s{k} = f32[2,2] slice(r{k}), slice={{[0:2],[{part}]}}",
        ]
        returned += [f"s{k}", *([f"t{k}"] if both else [])]
    body = "\n".join(lines)
    return f"ENTRY e {{\n{body}\nROOT out = tuple({', '.join(returned)})\n}}"


def long(depth: int, *, half: bool = False) -> str:
    """Two chains that are alike as far as a walk goes, or far on, and then not.

    Half of what lies around their ends may not arrive there.
    """
    rows, returned = [], []
    for first in range(2):
        for side in "ab":
            name = f"{side}{first}_"
            rows.append(f"{name}0 = f32[1] slice(p), slice={{[{first}:{first + 1}]}}")
            rows += [
                f"{name}{k + 1} = f32[{k + 2}] concatenate({name}{k}, one), dimensions={{0}}"
                for k in range(depth)
            ]
        returned.append(f"a{first}_{depth}")
        if half:
            size, end = depth + 1, f"{first}_{depth}"
            rows.append(f"c{first} = f32[{2 * size}] concatenate(a{end}, b{end}), dimensions={{0}}")
            rows.append(f"s{first} = f32[{size}] slice(c{first}), slice={{[0:{size}]}}")
            returned[-1] = f"s{first}"
    body = "\n".join(rows)
    return (
        "ENTRY e { p = f32[2] parameter(0) one = f32[1] parameter(1)\n"
        f"{body}\nROOT out = tuple({', '.join(returned)}) }}"
    )


def told(chain: Chain) -> list[Any]:
    """All that is said of a chain."""
    leaves = [(leaf.value, leaf.maps, leaf.via) for leaf in chain.leaves]
    known = [chain.flow, chain.sink, leaves, chain.steps, chain.read, chain.is_cut, chain.kind]
    return [*known, chain.judgements, chain.blocking, Planner(chain.flow).saved_alone(chain)]


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(
    "text",
    [layers(), long(10), long(200), long(90, half=True)],
    ids=["layers", "short", "long", "half"],
)
def test_chains_that_are_like_others_are_told_as_if_asked_alone(text: str) -> None:
    flow = Flow(hloscope.read(text).module)
    found = [*chains_of(flow)]
    for chain in found:
        alone = chain_to(flow, chain.sink)
        assert alone is not None
        assert alone.model is alone
        assert told(chain) == told(alone)


def test_of_chains_that_are_alike_one_is_walked() -> None:
    found = [*chains_of(Flow(hloscope.read(layers()).module))]
    models = {chain.model for chain in found}
    assert 12 <= len(models) <= len(found) / 2


@pytest.mark.slow
def test_chains_of_real_programs_are_told_as_if_asked_alone(shared: Path, full: bool) -> None:
    names = ["transformer_encoder_train_step.gpu.opt.hlo.txt", "unet_fwd.stablehlo.mlir"]
    names += ["unet_grad.gpu.opt.hlo.txt", "resnet_block_bn_train.opt.hlo.txt"] if full else []
    for name in names:
        flow = Flow(hloscope.read(shared / "real" / "models" / name).module)
        found = [*chains_of(flow)]
        assert any(chain.model is not chain for chain in found)
        for chain in found:
            alone = chain_to(flow, chain.sink)
            assert alone is not None
            assert told(chain) == told(alone)


@pytest.mark.parametrize("size", [64, 1 << 63, 1 << 64])
def test_a_chain_of_arrays_past_64_bits_hides_no_other(size: int) -> None:
    program = hloscope.read(f"""HloModule m
ENTRY e {{
  p = f32[{size}] parameter(0)
  a = f32[{size}] negate(p)
  s = f32[8] slice(a), slice={{[41:49]}}
  r = f32[2,4] reshape(s)
  q = f32[4,2] transpose(r), dimensions={{1,0}}
  x = f32[4,8] parameter(1)
  y = f32[8,4] transpose(x), dimensions={{1,0}}
  z = f32[4,8] transpose(y), dimensions={{1,0}}
  ROOT t = (f32[4,2], f32[4,8]) tuple(q, z)
}}
""")
    told = {c.name: str(c.kind) for c in program.cancellations()}
    assert told["q"] == ("undecided" if size > 1 << 63 else "real movement")
    assert told["z"] == "no-op"


@pytest.mark.parametrize("order", ["s, b", "b, s"])
@pytest.mark.parametrize(("size", "kind"), [(64, Kind.MOVEMENT), (1 << 64, Kind.UNDECIDED)])
def test_a_chain_is_undecided_if_the_movement_from_one_source_is(
    order: str, size: int, kind: Kind
) -> None:
    """Addresses in the larger source exceed 64 bits; the other source is moved."""
    program = hloscope.read(f"""ENTRY e {{
      a = f32[{size}] parameter(0)
      b = f32[8] parameter(1)
      s = f32[8] slice(a), slice={{[41:49]}}
      ROOT c = f32[16] concatenate({order}), dimensions={{0}}
    }}""")
    chain = main_chain(program)
    assert chain is not None
    kinds = {leaf.value.name: j.kind for leaf, j in zip(chain.main, chain.judgements, strict=True)}
    assert kinds == {"a": kind, "b": Kind.MOVEMENT}
    assert chain.kind is kind
    assert (chain.blocking is None) == (kind is Kind.UNDECIDED)


@pytest.mark.parametrize(
    ("source", "moves"),
    [
        ("s32[6]{0}", ["s32[6]{0:T(4)} copy"]),
        ("s32[6]{0:T(4)}", ["s32[6]{0} copy"]),
        ("s32[3,5]{1,0:T(2,4)}", ["s32[3,5]{0,1} negate", "s32[3,5]{1,0:T(4,2)} copy"]),
        ("s32[3,5]{1,0}", ["s32[15]{0} reshape", "s32[5,3]{1,0:T(2,2)(2,1)} reshape"]),
        ("s32[2]{0}", ["s32[2]{0:T(4)(2,1)} copy"]),
    ],
)
def test_what_only_gets_other_tiles_is_copied(source: str, moves: list[str]) -> None:
    lines = [f"x{k + 1} = {move}(x{k})" for k, move in enumerate(moves)]
    text = "\n  ".join([f"x0 = {source} parameter(0)", *lines[:-1], f"ROOT {lines[-1]}"])
    chain = main_chain(hloscope.read(f"ENTRY e {{\n  {text}\n}}"))
    assert chain is not None
    assert rewrite(chain).checked == "run"


def test_a_chain_of_nothing_but_padding_has_a_rewriting() -> None:
    """Nothing arrives of what is padded: the chain begins with the value of the padding."""
    program = hloscope.read(
        """
        ENTRY e {
          p = s32[1,6] parameter(0)
          zero = s32[] constant(0)
          padded = s32[2,6] pad(p, zero), padding=1_0x0_0
          first = s32[1,1] slice(padded), slice={[0:1],[4:5]}
          ROOT last = s32[1]{0} bitcast(first)
        }"""
    )
    chain = main_chain(program)
    assert chain is not None
    assert [leaf.value.name for leaf in chain.leaves] == ["zero"]
    assert chain.kind is Kind.BITCAST
    assert rewrite(chain).checked == "run"


def test_a_broadcast_of_stablehlo_is_written_in_the_form_of_hlo() -> None:
    program = hloscope.read("""func.func @main(%a: tensor<2x3xf32>) -> tensor<3x2x4xf32> {
      %0 = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 4>}
          : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
      %1 = stablehlo.transpose %0, dims = [2, 1, 0]
          : (tensor<4x2x3xf32>) -> tensor<3x2x4xf32>
      return %1 : tensor<3x2x4xf32> }""")
    chain = main_chain(program)
    assert chain is not None
    assert "broadcast(%a), dimensions={1,2}" in print_hlo(chain_program(chain))
