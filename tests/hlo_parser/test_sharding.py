"""Shardings in all versions of their notation."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser.devices import (
    MaximalSharding,
    NamedSharding,
    Sharding,
    TileSharding,
    TupleSharding,
    WholeSharding,
    read_sharding,
)
from hloscope.hlo_parser.scanner import split_attributes
from hloscope.ops.groups import AxisRef, DeviceIota, Mesh

XY = Mesh((("x", 2), ("y", 4)))
X, Y = AxisRef("x"), AxisRef("y")

CASES = [
    ("{replicated}", WholeSharding("replicated")),
    ("{manual}", WholeSharding("manual")),
    ("{unreduced}", WholeSharding("unreduced")),
    ("{unknown}", WholeSharding("unknown")),
    ("{maximal device=3}", MaximalSharding(3)),
    ("{replicated shard_as 1}", WholeSharding("replicated")),
    ('{replicated metadata={op_name="a"}}', WholeSharding("replicated")),
    ("{devices=[2,2]0,1,2,3}", TileSharding((2, 2), (0, 1, 2, 3))),
    ("{devices=[2,2]<=[4]}", TileSharding((2, 2), DeviceIota((4,), (0,)))),
    ("{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
     TileSharding((2, 1, 2), (0, 1, 2, 3), ("replicated",))),
    ("{devices=[2,1,2,2]<=[2,2,2]T(1,0,2) last_tile_dims={manual, replicated}}",
     TileSharding((2, 1, 2, 2), DeviceIota((2, 2, 2), (1, 0, 2)), ("manual", "replicated"))),
    ('{devices=[2,2]<=[4] shard_like 7 metadata={{op_name="a"}, {op_name="b}"}}}',
     TileSharding((2, 2), DeviceIota((4,), (0,)))),
    ("{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}", NamedSharding(XY, ((X,), (Y,)))),
    ("{mesh['x'=2,'y'=4], [{'x', 'y':(1)2}, {}]}",
     NamedSharding(XY, ((X, AxisRef("y", 1, 2)), ()))),
    ("{mesh['x'=2,'y'=4], [{'x', ?}, {?}], unreduced={'y'}}",
     NamedSharding(XY, ((X,), ()), (0, 1), (("unreduced", (Y,)),))),
    ("{mesh['x'=2,'y'=4], [{}], replicated={'x'}, manual={'y'}}",
     NamedSharding(XY, ((),), (), (("replicated", (X,)), ("manual", (Y,))))),
    ("{mesh['x'=2,'y'=4], replicated}", NamedSharding(XY, (), (), (("replicated", ()),))),
    ("{mesh['x'=2], device_ids=(1,0), [{'x'}]}",
     NamedSharding(Mesh((("x", 2),), (1, 0)), ((X,),))),
    ("{}", TupleSharding(())),
    ("{{replicated}, /*index=1*/{maximal device=0}}",
     TupleSharding((WholeSharding("replicated"), MaximalSharding(0)))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sharding"), CASES, ids=[text for text, _ in CASES])
def test_each_form_is_read(text: str, sharding: Sharding) -> None:
    assert read_sharding(text) == sharding


def test_tiles_know_their_devices_and_rank() -> None:
    sharding = read_sharding("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}")
    assert isinstance(sharding, TileSharding)
    assert sharding.device_list == (0, 2, 1, 3)
    assert sharding.rank == 2


ERRORS = [
    ("replicated", "expected `{…}`"),
    ("{sharded}", "expected a sharding, found `sharded`"),
    ("{devices=[2,2]0,1,2}", "expected 4 devices for these tiles, found 3"),
    ("{devices=[2,2]<=[5]}", "expected 4 devices for these tiles, found 5"),
    ("{devices=2}", "expected `devices=[sizes]`"),
    ("{devices=[2]}", "expected device numbers"),
    ("{devices=[2]<=[2] last_tile_dims={x}}", "unknown kind of subgroup `x`"),
    ("{replicated x}", "unknown part of a sharding: ` x`"),
    ("{mesh['x'=2], [{'z'}]}", "the mesh has no axis `z`"),
    ("{mesh['x'=2], shared={'x'}}", "expected dimensions or axes"),
    ("{{replicated}, x}", "expected `{…}`, found `x`"),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_wrong_shardings_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_sharding(text)
    assert message in caught.value.message


def test_shardings_of_a_real_program_are_read(shared: Path) -> None:
    folder = shared / "real" / "pass_dumps" / "sharded_fsdp_tp_transformer_grad.cpu"
    text = next(path for path in sorted(folder.iterdir()) if path.name.startswith("0004"))
    texts = {
        split_attributes(line[line.index(", sharding=") :])[0][1]
        for line in text.read_text().splitlines()
        if ", sharding={devices" in line
    }
    assert len(texts) > 5
    for found in texts:
        assert isinstance(read_sharding(found), TileSharding)
