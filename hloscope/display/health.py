"""The findings of `doctor`, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from hloscope.stablehlo.bytecode import Exported, Health
from hloscope.stablehlo.vhlo import CURRENT, RELEASES, Obstacle, version_text

SCHEMA: Final = "hloscope.doctor/1"
_MOST: Final = 4
"""Maximum number of ops, and of constants, that a line names."""

_MENDED: Final = (
    "the op tan",
    "`operand_batching_dims`",
    "`start_indices_batching_dims`",
    "`input_batching_dims`",
    "`scatter_indices_batching_dims`",
)
"""Features that the pass `stablehlo-compatibility-expander` rewrites into older ops."""


def health_text(health: Health) -> str:
    """Return the findings about an artifact as lines."""
    return "\n".join(_lines(health)) + "\n"


def _lines(health: Health) -> Iterator[str]:
    yield f"{health.name}: {_kind(health)}, {health.size:,} bytes, {health.ops:,} ops"
    for one in health.exported:
        yield from _exported(one)
    producer = health.producer or "not named"
    yield f"  producer      {producer} (bytecode version {health.bytecode})"
    newest = f"the newest version known here is {version_text(CURRENT)}"
    if health.is_of_the_future and not health.unknown:
        yield f"  version       {health.version}; {newest}"
    for name in health.unknown:
        yield f"  unknown       {name}: not an op of a known version"
    if health.unknown:
        written = f"written by {health.producer}; " if health.producer else ""
        yield f"  readable by   no known version: {written}{newest}"
    if health.readable_by:
        yield f"  readable by   StableHLO {health.readable_by} and later"
        yield from _reasons(health.because)
        yield f"  could be      {health.oldest_target}, if it were written for that version"
        yield from _reasons(health.forced_by)
    blocked = list(_blocked(health))
    if blocked:
        yield "  what older versions lack"
        yield from blocked
    yield f"  sections      {', '.join(f'{n} {s:,}' for n, s in health.sections.items())}"
    if health.without_locations is not None:
        share = health.size and (_module_size(health) - health.without_locations)
        percent = 100 * share / max(_module_size(health), 1)
        yield f"  debug info    {share:,} bytes ({percent:.0f} %)"
    for same in health.repeated[:_MOST]:
        what = f"{same.count} constants {same.type} are the same"
        yield f"  repeated      {what} ({same.bytes:,} bytes)"


def _module_size(health: Health) -> int:
    return len(health.exported[0].module) if health.exported else health.size


def _kind(health: Health) -> str:
    if health.exported:
        return "what jax.export wrote"
    return "portable artifact" if health.version else "MLIR bytecode"


def _exported(one: Exported) -> Iterator[str]:
    yield (
        f"  function      {one.function} for {', '.join(one.platforms)} on {one.devices} device"
        f"{'s' * (one.devices != 1)} (format {one.version}, calling convention"
        f" {one.calling_convention})"
    )
    if one.in_tree:
        yield f"                {one.in_tree} -> {one.out_tree}"


def _reasons(found: Iterable[Obstacle]) -> Iterator[str]:
    reasons = list(dict.fromkeys(f"{one.op}: {one.feature}, {one.place}" for one in found))
    for reason in reasons[:_MOST]:
        yield f"                {reason}"
    if len(reasons) > _MOST:
        yield f"                and {len(reasons) - _MOST} more"


def _blocked(health: Health) -> Iterator[str]:
    """Yield a line for each op feature that an artifact has and that older versions lack.

    The line has the first version with the feature, the op, the number of such ops, and whether
    `--expand` rewrites them.
    """
    for release in reversed(RELEASES):
        here = [one for one in health.obstacles if one.version == release.version]
        features: dict[tuple[str, str], int] = {}
        for one in here:
            key = one.op, one.feature
            features[key] = features.get(key, 0) + 1
        for (op, feature), count in features.items():
            mended = "; --expand rewrites it" if feature in _MENDED else ""
            often = f" ({count} times)" if count > 1 else ""
            yield f"    before {version_text(release.version):8}{op}: {feature}{often}{mended}"


def health_json(health: Health) -> dict[str, Any]:
    """Return the findings about an artifact as JSON."""
    return {
        "schema": SCHEMA,
        "file": health.name,
        "bytes": health.size,
        "exported": [
            {
                "function": one.function,
                "version": one.version,
                "calling_convention": one.calling_convention,
                "platforms": list(one.platforms),
                "devices": one.devices,
                "in_tree": one.in_tree,
                "out_tree": one.out_tree,
                "bytes": len(one.module),
            }
            for one in health.exported
        ],
        "producer": health.producer,
        "version": health.version or None,
        "bytecode_version": health.bytecode,
        "ops": health.ops,
        "unknown_ops": list(health.unknown),
        "newest_known": version_text(CURRENT),
        "readable_by": health.readable_by or None,
        "because": [_described(one) for one in health.because],
        "oldest_target": health.oldest_target or None,
        "forced_by": [_described(one) for one in health.forced_by],
        "obstacles": [_described(one) for one in health.obstacles],
        "sections": dict(health.sections),
        "bytes_without_locations": health.without_locations,
        "repeated_constants": [
            {"count": one.count, "type": one.type, "bytes": one.bytes} for one in health.repeated
        ],
    }


def _described(one: Obstacle) -> dict[str, Any]:
    return {
        "op": one.op,
        "feature": one.feature,
        "version": version_text(one.version),
        "location": one.place,
        "mended_by_expander": one.feature in _MENDED,
    }
