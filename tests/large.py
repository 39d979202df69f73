"""Texts of programs that are deep, long or wide: one kind each, of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final


def _entry(*lines: str) -> str:
    return "ENTRY e {\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def call_chain(n: int) -> str:
    """A computation that calls another one that calls another one …"""
    levels = [
        f"c{i} {{ p = s32[] parameter(0) ROOT r = s32[] call(p), to_apply=c{i - 1} }}"
        for i in range(1, n)
    ]
    first = "c0 { p = s32[] parameter(0) ROOT r = s32[] negate(p) }"
    last = _entry("p = s32[] parameter(0)", f"ROOT r = s32[] call(p), to_apply=c{n - 1}")
    return "\n".join(["HloModule m", first, *levels, last])


def func_chain(n: int) -> str:
    """The same in StableHLO, the caller first."""
    head = "tensor<4xf32>) -> tensor<4xf32>"
    calls = [
        f"func.func {'' if i == n else 'private '}@f{i}(%a: {head} {{\n"
        f"  %0 = func.call @f{i - 1}(%a) : ({head}\n  return %0 : tensor<4xf32>\n}}"
        for i in range(n, 0, -1)
    ]
    end = f"func.func private @f0(%a: {head} {{\n  %0 = stablehlo.negate %a : tensor<4xf32>\n"
    return "\n".join([*calls, end + "  return %0 : tensor<4xf32>\n}\n"]).replace(f"@f{n}", "@main")


def call_tree(n: int) -> str:
    """Each computation calls the next one twice."""
    levels = [
        f"c{i} {{ p = s32[4] parameter(0) a = s32[4] call(p), to_apply=c{i - 1} "
        f"ROOT r = s32[4] call(a), to_apply=c{i - 1} }}"
        for i in range(1, n)
    ]
    first = "c0 { p = s32[4] parameter(0) ROOT r = s32[4] negate(p) }"
    last = _entry("p = s32[4] parameter(0)", f"ROOT r = s32[4] call(p), to_apply=c{n - 1}")
    return "\n".join(["HloModule m", first, *levels, last])


def recursion(n: int) -> str:
    """Functions that call each other in a circle, where a value says so."""
    head = "(%a: tensor<4xf32>, %b: tensor<i1>) -> tensor<4xf32>"
    kind = "(tensor<4xf32>, tensor<i1>) -> tensor<4xf32>"
    return "".join(
        f"func.func {'' if not i else 'private '}@{f'f{i}' if i else 'main'}{head} {{\n"
        '  %0 = "stablehlo.if"(%b) ({\n'
        f"    %1 = func.call @{f'f{(i + 1) % n}' if (i + 1) % n else 'main'}(%a, %b) : {kind}\n"
        "    stablehlo.return %1 : tensor<4xf32>\n  }, {\n"
        "    stablehlo.return %a : tensor<4xf32>\n  }) : (tensor<i1>) -> tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}\n"
        for i in range(n)
    )


def nested_tuple(n: int) -> str:
    """A tuple of a tuple of a tuple …, made level by level and taken apart again."""
    kinds = ["f32[4]"]
    for _ in range(n):
        kinds.append(f"({kinds[-1]})")
    made = [f"t{i} = {kinds[i]} tuple(t{i - 1})" for i in range(1, n + 1)]
    taken = [
        f"g{i} = {kinds[i]} get-tuple-element({f'g{i + 1}' if i + 1 < n else f't{n}'}), index=0"
        for i in reversed(range(n))
    ]
    return _entry("t0 = f32[4] parameter(0)", *made, *taken, "ROOT r = f32[4] negate(g0)")


def tuple_tree(n: int) -> str:
    """A tuple of two tuples of two tuples …, each of them twice the one before."""
    lines, type_ = ["t0 = f32[4] parameter(0)"], "f32[4]"
    for i in range(1, n + 1):
        type_ = f"({type_}, {type_})"
        lines.append(f"t{i} = {type_} tuple(t{i - 1}, t{i - 1})")
    return _entry(*lines[:-1], f"ROOT {lines[-1]}")


def shared_locations(n: int) -> str:
    """A location that is fused of another one twice, which is fused of another one twice …"""
    aliases = ['#l0 = loc("f.py":1:1)']
    aliases += [f"#l{i} = loc(fused[#l{i - 1}, #l{i - 1}])" for i in range(1, n + 1)]
    return "\n".join(aliases) + (
        "\nfunc.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
        f"  %0 = stablehlo.add %a, %a : tensor<4xf32> loc(#l{n})\n"
        "  return %0 : tensor<4xf32>\n}\n"
    )


def wide_tuple(n: int) -> str:
    """A tuple of so many parts, from a parameter that has them all."""
    kind = f"({', '.join(['f32[2]'] * n)})"
    return _entry(
        f"p = {kind} parameter(0)",
        f"g = f32[2] get-tuple-element(p), index={n - 1}",
        "r = f32[2] negate(g)",
        f"ROOT t = (f32[2], {kind}) tuple(r, p)",
    )


def chain(n: int) -> str:
    """Operations of one operand one after the other."""
    lines = [f"v{i} = f32[4,8] negate(v{i - 1})" for i in range(1, n)]
    return _entry(
        "v0 = f32[4,8] parameter(0)", *lines, f"ROOT r = f32[4,8] negate(v{max(n - 1, 0)})"
    )


def fused_chain(n: int) -> str:
    """The same inside a fusion."""
    inner = chain(n).replace("ENTRY e", "f", 1)
    return inner + _entry(
        "p = f32[4,8] parameter(0)", "ROOT r = f32[4,8] fusion(p), kind=kLoop, calls=f"
    )


def diamonds(n: int) -> str:
    """Each value is read twice by the next one."""
    lines = [f"v{i} = s32[8] add(v{i - 1}, v{i - 1})" for i in range(1, n)]
    return _entry("v0 = s32[8] parameter(0)", *lines, f"ROOT r = s32[8] add(v{n - 1}, v{n - 1})")


def constant_chain(n: int) -> str:
    """Nothing depends on an argument."""
    return (
        chain(n)
        .replace("f32[4,8] parameter(0)", "f32[4,8] constant({...})", 1)
        .replace("constant({...})", "constant({" + ",".join(["{1,2,3,4,5,6,7,8}"] * 4) + "})")
    )


def mlir_chain(n: int) -> str:
    """A chain in StableHLO."""
    lines = [f"  %{i} = stablehlo.negate %{i - 1 if i else 'a'} : tensor<4xf32>" for i in range(n)]
    head = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {"
    return "\n".join([head, *lines, f"  return %{n - 1} : tensor<4xf32>", "}\n"])


def many_parameters(n: int) -> str:
    """A sum of so many parameters."""
    lines = [f"p{i} = f32[4] parameter({i})" for i in range(n)]
    sums = [f"s{i} = f32[4] add({f's{i - 1}' if i > 1 else 'p0'}, p{i})" for i in range(1, n)]
    return _entry(*lines, *sums, f"ROOT r = f32[4] negate({f's{n - 1}' if n > 1 else 'p0'})")


def wide_concatenate(n: int) -> str:
    """So many operands of one operation."""
    operands = ", ".join(["p", "q"] * (n // 2))
    return _entry(
        "p = f32[2] parameter(0)", "q = f32[2] parameter(1)",
        f"ROOT r = f32[{n // 2 * 4}] concatenate({operands}), dimensions={{0}}",
    )  # fmt: skip


def wide_result(n: int) -> str:
    """A tuple of so many operands."""
    kinds = ", ".join(["f32[2]"] * n)
    return _entry(
        "p = f32[2] parameter(0)", "q = f32[2] negate(p)",
        f"ROOT r = ({kinds}) tuple({', '.join(['q'] * n)})",
    )  # fmt: skip


def loops(n: int) -> str:
    """A loop in a loop in a loop …"""
    condition = (
        "k { p = s32[] parameter(0) c = s32[] constant(1) "
        "ROOT r = pred[] compare(p, c), direction=LT }"
    )
    body = "b0 { p = s32[] parameter(0) c = s32[] constant(1) ROOT r = s32[] add(p, c) }"
    levels = [
        f"b{i} {{ p = s32[] parameter(0) ROOT w = s32[] while(p), condition=k, body=b{i - 1} }}"
        for i in range(1, n)
    ]
    last = _entry("p = s32[] parameter(0)", f"ROOT r = s32[] while(p), condition=k, body=b{n - 1}")
    return "\n".join(["HloModule m", condition, body, *levels, last])


def reduce_of_chain(n: int) -> str:
    """A reduction whose body calls a chain of computations."""
    first = "c0 { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"
    levels = [
        f"c{i} {{ a = f32[] parameter(0) b = f32[] parameter(1) "
        f"ROOT r = f32[] call(a, b), to_apply=c{i - 1} }}"
        for i in range(1, n)
    ]
    last = _entry(
        "p = f32[4,8] parameter(0)", "z = f32[] constant(0)",
        f"ROOT r = f32[4] reduce(p, z), dimensions={{1}}, to_apply=c{n - 1}",
    )  # fmt: skip
    return "\n".join(["HloModule m", first, *levels, last])


def regions(n: int) -> str:
    """A region in a region in a region …, the innermost with a value from outside."""
    opened = ['"stablehlo.if"(%b) ({'] * n
    closed = [
        f"stablehlo.return %v{i} : tensor<4xf32> }}, {{ stablehlo.return %a : tensor<4xf32> }}) "
        ": (tensor<i1>) -> tensor<4xf32>"
        for i in range(n, 0, -1)
    ]
    inner = f"%v{n} = stablehlo.negate %a : tensor<4xf32>"
    names = [f"%v{i} = {text}" for i, text in enumerate(opened)]
    return (
        "func.func @main(%a: tensor<4xf32>, %b: tensor<i1>) -> tensor<4xf32> {\n"
        + "\n".join([*names, inner, *closed])
        + "\nreturn %v0 : tensor<4xf32>\n}\n"
    )


def many_dimensions(n: int) -> str:
    """A tensor of so many dimensions, reversed."""
    sizes, order = ",".join(["2"] + ["1"] * (n - 1)), ",".join(map(str, reversed(range(n))))
    back = ",".join(["1"] * (n - 1) + ["2"])
    return _entry(
        f"p = f32[{sizes}] parameter(0)",
        f"ROOT t = f32[{back}] transpose(p), dimensions={{{order}}}",
    )


def large_sizes(n: int) -> str:
    """Dimensions of 2^n elements."""
    size = 1 << n
    return _entry(
        f"p = f32[{size},{size}]{{1,0}} parameter(0)",
        f"t = f32[{size},{size}]{{1,0}} transpose(p), dimensions={{1,0}}",
        "z = f32[] constant(0)",
        f"ROOT s = f32[{size},3]{{1,0}} slice(t), slice={{[0:{size}], [{size - 3}:{size}]}}",
    )


KINDS: Final[dict[str, tuple[Callable[[int], str], int]]] = {
    "call chain": (call_chain, 10_000),
    "func chain": (func_chain, 5_000),
    "call tree": (call_tree, 30),
    "recursion": (recursion, 1_000),
    "nested tuple": (nested_tuple, 60),
    "tuple tree": (tuple_tree, 10),
    "shared locations": (shared_locations, 60),
    "wide tuple": (wide_tuple, 100_000),
    "chain": (chain, 20_000),
    "fused chain": (fused_chain, 20_000),
    "diamonds": (diamonds, 5_000),
    "constant chain": (constant_chain, 20_000),
    "mlir chain": (mlir_chain, 20_000),
    "many parameters": (many_parameters, 5_000),
    "wide concatenate": (wide_concatenate, 10_000),
    "wide result": (wide_result, 10_000),
    "loops": (loops, 50),
    "reduce of chain": (reduce_of_chain, 2_000),
    "regions": (regions, 60),
    "many dimensions": (many_dimensions, 65),
    "large sizes": (large_sizes, 66),
}
"""How each kind is made, and a size that is a lot of it."""
