"""Fusions to tile, and what is hard about them."""

from __future__ import annotations

from typing import Final

TRANSPOSE: Final = """HloModule transpose
f {
  p = bf16[1024,2080]{0,1} parameter(0)
  b = bf16[2080,1024]{1,0} bitcast(p)
  s = bf16[2048,1024]{1,0} slice(b), slice={[32:2080], [0:1024]}
  t = bf16[1024,2048]{1,0} transpose(s), dimensions={1,0}
  ROOT r = bf16[1024,16,128]{2,1,0} bitcast(t)
}
ENTRY e {
  p = bf16[1024,2080]{0,1} parameter(0)
  ROOT x = bf16[1024,16,128]{2,1,0} fusion(p), kind=kCustom, calls=f
}
"""


def _fusion(body: str, parameters: str, result: str) -> str:
    """A program of one fusion; the body's last line is its root."""
    shapes = parameters.split("|")
    inside = [f"p{k} = {shape} parameter({k})" for k, shape in enumerate(shapes)]
    *rest, root = [line.strip() for line in body.strip().splitlines()]
    names = ", ".join(f"a{k}" for k in range(len(shapes)))
    outside = [f"a{k} = {shape} parameter({k})" for k, shape in enumerate(shapes)]
    lines = ["add { x = f32[] parameter(0)", "y = f32[] parameter(1)", "ROOT s = f32[] add(x, y) }"]
    lines += ["f {", *inside, *rest, f"ROOT {root}", "}", "ENTRY e {", *outside]
    return "\n".join([*lines, f"ROOT x = {result} fusion({names}), kind=kLoop, calls=f", "}"])


PROGRAMS: Final = {
    "elementwise": _fusion("r = f32[10,12] add(p0, p1)", "f32[10,12]|f32[10,12]", "f32[10,12]"),
    "reshape": _fusion("r = f32[48] reshape(p0)", "f32[8,6]", "f32[48]"),
    "collapse": _fusion("r = f32[4,12] reshape(p0)", "f32[48]", "f32[4,12]"),
    "generic reshape": _fusion("r = f32[4,12] reshape(p0)", "f32[8,6]", "f32[4,12]"),
    "softmax": _fusion(
        """z = f32[] constant(0)
        e = f32[6,16] exponential(p0)
        s = f32[6] reduce(e, z), dimensions={1}, to_apply=add
        b = f32[6,16] broadcast(s), dimensions={0}
        r = f32[6,16] divide(e, b)""",
        "f32[6,16]",
        "f32[6,16]",
    ),
    "dot": _fusion(
        """n = f32[64,32] negate(p0)
        r = f32[64,48] dot(n, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        "f32[64,32]|f32[32,48]",
        "f32[64,48]",
    ),
    "two dots": _fusion(
        """d = f32[8,12] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        r = f32[8,4] dot(d, p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
        "f32[8,16]|f32[16,12]|f32[12,4]",
        "f32[8,4]",
    ),
    "concatenate": _fusion(
        "r = f32[24,4] concatenate(p0, p1), dimensions={0}", "f32[8,4]|f32[16,4]", "f32[24,4]"
    ),
    "dynamic slice": _fusion(
        "r = f32[4,8] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={4,8}",
        "f32[16,8]|s32[]|s32[]",
        "f32[4,8]",
    ),
    "update": _fusion(
        "r = f32[16,8] dynamic-update-slice(p0, p1, p2, p3)",
        "f32[16,8]|f32[1,8]|s32[]|s32[]",
        "f32[16,8]",
    ),
    "gather": _fusion(
        """r = f32[6,8] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}""".replace("\n", " "),
        "f32[16,8]|s32[6,1]",
        "f32[6,8]",
    ),
    "tuple": _fusion(
        """n = f32[8,8] negate(p0)
        m = f32[8,8] abs(n)
        r = (f32[8,8], f32[8,8]) tuple(m, n)""",
        "f32[8,8]",
        "(f32[8,8], f32[8,8])",
    ),
    "two roots": _fusion(
        """n = f32[8] negate(p0)
        m = f32[8] abs(p0)
        r = (f32[8], f32[8]) tuple(m, n)""",
        "f32[8]",
        "(f32[8], f32[8])",
    ),
    "empty": _fusion("r = f32[0,4] negate(p0)", "f32[0,4]", "f32[0,4]"),
    "scalar": _fusion("r = f32[] negate(p0)", "f32[]", "f32[]"),
    "unbounded": _fusion("r = f32[<=8] negate(p0)", "f32[<=8]", "f32[<=8]"),
    "reverse": _fusion("r = f32[9] reverse(p0), dimensions={0}", "f32[9]", "f32[9]"),
    "pad": _fusion(
        """z = f32[] constant(0)
        r = f32[12] pad(p0, z), padding=2_2""",
        "f32[8]",
        "f32[12]",
    ),
    "sort": _fusion("r = f32[16] cosine(p0)", "f32[16]", "f32[16]"),
}


def _ten_reshapes() -> str:
    twos, fours = f"f32[{','.join(['2'] * 16)}]", f"f32[{','.join(['4'] * 8)}]"
    lines = [
        f"r{k} = {twos if k % 2 else fours} reshape({f'r{k - 1}' if k else 'p0'})"
        for k in range(10)
    ]
    return _fusion("\n".join(lines), twos, twos)


HARD: Final = _ten_reshapes()
"""Rank 16 through ten reshapes, where a normal form of the constraints would explode."""
