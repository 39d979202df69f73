"""Coalescing as text, tables and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from hloscope.display.provenance import Provenance
from hloscope.display.table import columns
from hloscope.hlo_parser import brief_type
from hloscope.ir import size_text
from hloscope.memory import ArrayUse, BankUse, Coalescing, Request, Traffic

COALESCE_SCHEMA: Final = "hloscope.coalesce/2"
FULL: Final = 0.995
"""From here on a utilisation is full for the eye."""


class KernelPlace(Struct, frozen=True):
    """The computation and the origin of a kernel."""

    computation: str
    origin: Provenance


def coalescing_text(answer: Coalescing) -> str:
    """The three verdicts for each operand and output, and the causes of unused sectors."""
    lines = [answer.name, f"  {answer.model}", ""]
    lines += [f"  {line}" for line in columns([_HEAD, *map(_row(answer), answer.arrays)],
                                              right=_RIGHT).splitlines()]  # fmt: skip
    said = [line for array in answer.arrays for line in _said(array)]
    if said:
        lines += ["", *[f"  {line}" for line in said]]
    if answer.banks:
        lines += ["", "  shared memory, words that the busiest bank serves in one request:"]
        lines += [f"    {bank_text(bank)}" for bank in answer.banks]
    lines += [f"  finding: {finding}" for finding in answer.findings]
    lines += [f"  note: {note}" for note in answer.notes]
    return "\n".join(lines)


_HEAD: Final = ("", "array", "XLA heuristic", "XLA map", "sectors", "of ideal", "used",
                "asked", "moved", "touched")  # fmt: skip
_RIGHT: Final = (4, 5, 6, 7, 8, 9)


def _row(answer: Coalescing) -> Any:
    def cells(array: ArrayUse) -> list[str]:
        what = f"{'output' if array.is_output else 'operand'} {array.number}"
        name = f"{array.name}  {brief_type(array.type)}"
        heuristic = "" if array.is_output else _verdict(answer.by_heuristic)
        return [what, name, heuristic, _verdict(array.by_map), *_figures(array)]

    return cells


def _verdict(is_coalesced: bool | None) -> str:
    return "" if is_coalesced is None else "coalesced" if is_coalesced else "uncoalesced"


def _figures(array: ArrayUse) -> list[str]:
    touched = ("" if array.touched.is_exact else "≤ ") + size_text(array.touched.bytes)
    traffic = array.traffic
    if array.tile is not None:
        return [f"tile {'x'.join(map(str, array.tile.sizes))}", "",
                percent(array.tile.utilisation), "", "", touched]  # fmt: skip
    if traffic is None:
        return ["", "", "", "", "", touched]
    if not traffic.requests:
        return ["none", "", "", "0 bytes", "0 bytes", touched]
    around = "~" if traffic.precision == "sampled" else ""
    if traffic.best is not None:
        best = traffic.best
        return [
            f"{best.fewest} to {traffic.most}",
            f"{percent(traffic.efficiency)} to {percent(best.efficiency)}",
            f"{percent(traffic.utilisation)} to {percent(best.utilisation)}",
            size_text(traffic.asked),
            f"{size_text(best.moved)} to {size_text(traffic.moved)}",
            touched,
        ]
    return [
        sectors_text(traffic),
        around + percent(traffic.efficiency),
        around + percent(traffic.utilisation),
        around + size_text(traffic.asked),
        around + size_text(traffic.moved),
        touched,
    ]


def sectors_text(traffic: Traffic) -> str:
    """Sectors of a request: one number, or the fewest, the mean and the most."""
    if traffic.fewest == traffic.most:
        return str(traffic.most)
    return f"{traffic.fewest} / {traffic.mean:.4g} / {traffic.most}"


def percent(share: float) -> str:
    """A share as percent text.

    >>> percent(1.0), percent(0.125), percent(0.9999)
    ('100 %', '12.5 %', '100 %')
    """
    return "100 %" if share >= FULL else f"{100 * share:.3g} %"


def _said(array: ArrayUse) -> Iterable[str]:
    kind = "output" if array.is_output else "operand"
    head = f"{kind} {array.number}"
    if array.spoiler is not None:
        yield f"{head}: {array.spoiler}"
    worst = array.traffic.worst if array.traffic is not None else None
    if worst is not None and array.spoiler is not None:
        yield f"{head}: worst request {_at(worst)}: {_of_request(worst)}"
    if array.traffic is not None and array.traffic.vector > 1:
        yield f"{head}: a lane touches {array.traffic.vector} elements at once"
    if array.traffic is not None and array.traffic.precision == "sampled":
        yield f"{head}: sampled, as there are too many different requests"
    if any(map.runtime for touch in array.touches for map in touch.maps) and _is_bounded(array):
        yield f"{head}: addresses depend on run-time values; worst to best case"
    if array.traffic is None and array.by_map is not None and array.touches == ():
        yield f"{head}: not read"
    if array.emitted_traffic is not None:
        yield f"{head}: as emitted {_requests_text(array.emitted_traffic)}"
    if array.traffic is not None and array.emitted_traffic is not None:
        yield f"{head}: as compiled {_requests_text(array.traffic)}: {array.change}"
    if array.traffic is not None and array.traffic.tries > 1:
        yield f"{head}: a request may be made up to {array.traffic.tries} times"
    if array.reason:
        yield f"{head}: {array.reason}"


def _requests_text(traffic: Traffic) -> str:
    """Requests and transferred bytes of one level; best and worst if they have bounds."""
    if traffic.best is None:
        return f"{traffic.requests} requests move {size_text(traffic.moved)}"
    return (
        f"{traffic.best.requests} to {traffic.requests} requests move "
        f"{size_text(traffic.best.moved)} to {size_text(traffic.moved)}"
    )


def _is_bounded(array: ArrayUse) -> bool:
    return array.traffic is not None and array.traffic.best is not None


def _at(request: Request) -> str:
    return ", ".join(f"{name} {value}" for name, value in request.at.items()) or "the only one"


def _of_request(request: Request) -> str:
    asked = len({a for a in request.addresses if a is not None}) * request.unit
    return f"{request.sectors} sectors for {asked} bytes"


def bank_text(bank: BankUse) -> str:
    """The conflicts of one access, on one line."""
    size = "x".join(map(str, bank.shape))
    told = "no conflicts" if bank.most <= 1 else f"{bank.mean:.3g} on average, {bank.most} at worst"
    return f"{bank.what} [{size}], {size_text(bank.bytes)}: {told}"


# ----------------------------------------------------------------------------------------- JSON


def coalescing_json(
    answer: Coalescing, place: KernelPlace | None = None, runs: int | None = None
) -> dict[str, Any]:
    """One kernel as in schema `hloscope.coalesce/2`."""
    kernel = answer.kernel
    launch = kernel.launch
    told: dict[str, Any] = {"name": answer.name}
    if place is not None:
        told |= {"computation": place.computation, **place.origin.to_json()}
    if runs is not None:
        told["runs"] = runs
    told |= {
        "device": answer.device.name,
        "model": answer.model,
        "emitter": kernel.emitter,
        "launch": launch and {"threads": list(launch.threads), "blocks": list(launch.blocks)},
        "unroll": kernel.unroll,
        "xla_heuristic": answer.by_heuristic,
        "wasted_bytes": answer.wasted,
        "utilisation": answer.utilisation,
        "efficiency": answer.lowest,
        "arrays": [_array_json(array) for array in answer.arrays],
        "banks": [bank_json(bank) for bank in answer.banks],
        "notes": list(answer.notes),
        "findings": list(answer.findings),
    }
    return told


def _array_json(array: ArrayUse) -> dict[str, Any]:
    told: dict[str, Any] = {
        "role": "output" if array.is_output else "operand",
        "number": array.number,
        "leaf": array.leaf,
        "name": array.name,
        "type": brief_type(array.type),
        "xla_map": array.by_map,
        "precision": array.precision,
        "reason": array.reason,
        "touched": {
            "elements": array.touched.elements,
            "bytes": array.touched.bytes,
            "sectors": array.touched.sectors,
            "exact": array.touched.is_exact,
        },
        "accesses": [str(map) for touch in array.touches for map in touch.maps],
    }
    if array.traffic is not None:
        told |= traffic_json(array.traffic)
    if array.emitted_traffic is not None:
        told["as_emitted"] = traffic_json(array.emitted_traffic)
        told["as_compiled"] = array.change
    if array.tile is not None:
        tile = array.tile
        told["tile"] = {
            "sizes": list(tile.sizes),
            "strides": list(tile.strides),
            "run_bytes": tile.run,
            "utilisation": tile.utilisation,
        }
    if array.spoiler is not None:
        spoiler = array.spoiler
        told["spoiler"] = {
            "term": spoiler.term,
            "every_lanes": spoiler.every,
            "step_bytes": spoiler.step,
            "text": str(spoiler),
        }
    return told


def traffic_json(traffic: Traffic) -> dict[str, Any]:
    """The figures of an access."""
    told: dict[str, Any] = {
        "requests": traffic.requests,
        "sectors": traffic.sectors,
        "needed_sectors": traffic.needed,
        "lines": traffic.lines,
        "asked_bytes": traffic.asked,
        "moved_bytes": traffic.moved,
        "utilisation": traffic.utilisation,
        "efficiency": traffic.efficiency,
        "vector": traffic.vector,
        "sectors_per_request": {
            "min": traffic.fewest,
            "mean": traffic.mean,
            "max": traffic.most,
            "histogram": {str(k): n for k, n in traffic.histogram.items()},
        },
    }
    for name, request in (("worst", traffic.worst), ("typical", traffic.typical)):
        if request is not None:
            told[name] = {
                "at": dict(request.at),
                "sectors": request.sectors,
                "lane_bytes": request.unit,
                "addresses": list(request.addresses),
            }
    if traffic.tries > 1:
        told["tries"] = traffic.tries
    if traffic.best is not None:
        told["best"] = traffic_json(traffic.best)
    return told


def bank_json(bank: BankUse) -> dict[str, Any]:
    """The conflicts of one access, as in the schemas `hloscope.coalesce/2` and `banks/1`."""
    return {
        "what": bank.what,
        "shape": list(bank.shape),
        "bytes": bank.bytes,
        "requests": bank.requests,
        "mean": bank.mean,
        "max": bank.most,
        "exact": bank.is_exact,
    }
