"""Chains of data movement as text and JSON; `movement_picture` draws them."""

from __future__ import annotations

from typing import Any

from hloscope.display.answer import opcode_of
from hloscope.display.movement_picture import chain_svg
from hloscope.display.table import columns
from hloscope.hlo_parser import print_type
from hloscope.ir import Instruction, Layout
from hloscope.movement import (
    Chain,
    Figures,
    Judgement,
    Kind,
    Leaf,
    Passing,
    Rewriting,
    bytes_of,
    is_view,
    passings_of,
)
from hloscope.visible import in_page


def chain_text(chain: Chain, rewriting: Rewriting, figures: Figures) -> str:
    """The chain from its sources on, the verdict with its reason, and a replacement."""
    rows = [["", leaf.value.name, "", print_type(leaf.type), ""] for leaf in chain.leaves]
    rows += [
        [str(k), step.name, opcode_of(step), print_type(step.type), _note(chain, step)]
        for k, step in enumerate(chain.steps, 1)
    ]
    lines = [f"{chain.sink.name}: {_verdict(chain, figures)}", "", columns(rows, indent=2)]
    lines += [f"  {line}" for line in _why(chain)]
    lines += [f"  {_passing_text(passing)}" for passing in passings_of(chain)]
    if rewriting.text:
        known = {"run": "run beside the chain on numbered elements: the same", "proved": "proved"}
        lines += ["", f"instead ({known[rewriting.checked]}):", "", rewriting.text.strip()]
    elif rewriting.reason:
        lines += ["", f"instead: {rewriting.reason}"]
    return "\n".join(lines)


def _passing_text(passing: Passing) -> str:
    """Whether the movement can be exchanged with a neighbouring op, and the bytes then."""
    where = "after" if passing.is_reduction else "before"
    told = f"{where} {opcode_of(passing.op)} `{passing.op.name}`"
    if passing.judged is None:
        return f"not {told}: {passing.reason}"
    return (
        f"{told}: {passing.judged.kind}, {passing.after:,} bytes written"
        f" instead of {passing.before:,} (proved)"
    )


def _passing_json(passing: Passing) -> dict[str, Any]:
    return {
        "op": passing.op.name,
        "opcode": opcode_of(passing.op),
        "verdict": None if passing.judged is None else str(passing.judged.kind),
        "bytes_before": passing.before,
        "bytes_after": passing.after,
        "proof": str(passing.proof.verdict) if passing.judged is not None else None,
        "text": passing.text or None,
        "reason": passing.reason or None,
    }


def _note(chain: Chain, step: Instruction) -> str:
    if step is chain.blocking:
        return "<- the bytes move here"
    return "a view: no bytes" if is_view(step) else ""


def _verdict(chain: Chain, figures: Figures) -> str:
    said = str(chain.kind)
    if chain.kind in (Kind.MOVEMENT, Kind.TRANSPOSE):
        said += f" of {bytes_of(chain.sink):,} bytes"
    if figures.moved:
        runs = f" in {figures.runs:,} runs" if figures.runs > 1 else ""
        said += f"; moves {figures.moved:,} bytes{runs}, could save {figures.saved:,}"
    if figures.how:
        said += f" ({f'{figures.how} {figures.like}'.strip()})"
    return said


def _why(chain: Chain) -> list[str]:
    lines: list[str] = []
    for leaf, judged in zip(chain.main, chain.judgements, strict=True):
        lines.append(f"{leaf.value.name}: {judged.kind}{_because(judged)}")
        lines += [f"  {m}" for m in leaf.maps[:4]]
        lines += [f"  {line}" for line in _layouts(judged)]
        example = judged.proof.counter_example
        if example is not None and not judged.kind.is_free:
            (address,) = example.results or (None,)
            there = "output" if not example.only_in else "source"
            lines.append(
                f"  not free: element {list(example.dims)} is at {address} in the {there} only"
            )
    if chain.is_cut:
        lines.append("incomplete: the chain has too many values")
    return lines


def _because(judged: Judgement) -> str:
    if judged.kind is Kind.TRANSPOSE and judged.form is not None:
        modes = judged.form.merged().modes[::-1]
        order = sorted(range(len(modes)), key=lambda k: -modes[k].stride)
        sizes = [modes[k].size for k in order]
        by = [order.index(k) for k in range(len(modes))]
        return f": {sizes} in memory, by {by}"
    return f": {judged.reason}" if judged.reason else ""


def _layouts(judged: Judgement) -> list[str]:
    pairs = ("output", judged.output_layout), ("source", judged.source_layout)
    said = [f"the {what} as {layout_text(layout)}" for what, layout in pairs if layout is not None]
    return [f"a bitcast with {' and '.join(said)}"] if said else []


def layout_text(layout: Layout) -> str:
    """The order of the dimensions in HLO's syntax, fastest-varying first."""
    return f"{{{','.join(map(str, layout.minor_to_major))}}}"


def chain_json(figures: Figures, rewriting: Rewriting | None = None) -> dict[str, Any]:
    """Return a chain as JSON; with its rewriting if that is given."""
    chain = figures.chain
    assert chain is not None
    described: dict[str, Any] = {
        "name": chain.sink.name,
        "verdict": str(chain.kind),
        "type": print_type(chain.type),
        "bytes": bytes_of(chain.sink),
        "runs": figures.runs,
        "bytes_moved": figures.moved,
        "bytes_saved": figures.saved,
        "how": figures.how or None,
        "like": figures.like or None,
        "blocking": None if chain.blocking is None else chain.blocking.name,
        "steps": [
            {
                "name": step.name,
                "opcode": opcode_of(step),
                "type": print_type(step.type),
                "is_view": is_view(step),
            }
            for step in chain.steps
        ],
        "sources": [
            _leaf_json(leaf, judged)
            for leaf, judged in zip(chain.main, chain.judgements, strict=True)
        ],
    }
    if rewriting is not None:
        described["passing"] = [_passing_json(passing) for passing in passings_of(chain)]
        described["rewriting"] = {
            "text": rewriting.text or None,
            "checked": rewriting.checked or None,
            "reason": rewriting.reason or None,
        }
    return described


def _leaf_json(leaf: Leaf, judged: Judgement) -> dict[str, Any]:
    example = judged.proof.counter_example
    form = judged.form
    return {
        "name": leaf.value.name,
        "type": print_type(leaf.type),
        "verdict": str(judged.kind),
        "reason": judged.reason or None,
        "maps": list(map(str, leaf.maps)),
        "proof": str(judged.proof.verdict) if judged.kind.is_free else None,
        "counter_example": None
        if example is None
        else {"index": list(example.dims), "address": list(example.results)},
        "digits": None
        if form is None
        else [{"size": mode.size, "stride": mode.stride} for mode in form.modes],
        "offset": None if form is None else form.offset,
        "output_layout": _order_json(judged.output_layout),
        "source_layout": _order_json(judged.source_layout),
    }


def _order_json(layout: Layout | None) -> list[int] | None:
    return None if layout is None else list(layout.minor_to_major)


def chain_html(chain: Chain, rewriting: Rewriting, figures: Figures) -> str:
    """Return a page with the picture, the verdict and the rewriting."""
    said = in_page(chain_text(chain, rewriting, figures))
    title = in_page(f"{chain.sink.name}: {chain.kind}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title></head>\n'
        f"<body>\n{chain_svg(chain, figures)}<pre>{said}</pre>\n</body></html>\n"
    )
