"""Make a StableHLO program, verify it, print it, and ask it what it reads."""

import hloscope as hs

b = hs.Builder("softmax")
with b.function("main", x="4x128xf32") as (x,):
    peak = b.reduce([x], [b.constant(float("-inf"), "f32")], dimensions=[1], body=b.maximum)
    wide = b.broadcast_in_dim(peak, broadcast_dimensions=[0], type=x.type)
    e = b.exponential(b.subtract(x, wide))
    total = b.reduce([e], [b.constant(0.0, "f32")], dimensions=[1], body=b.add)
    b.return_(b.divide(e, b.broadcast_in_dim(total, broadcast_dimensions=[0], type=x.type)))
assert not hs.verify(b.module)
print(b)

print(hs.read(str(b)).root.to_parameters())
