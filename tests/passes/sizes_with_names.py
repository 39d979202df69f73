"""Maps in terms of named sizes of all recorded dynamic programs, compared at some sizes.

    python -m tests.passes.sizes_with_names

Those of the refined programs (`hloscope.parametric`) beside the maps at five sizes each, and those
of the programs as they are (`indexing()`) beside the rules for known sizes.
"""

from __future__ import annotations

from collections import Counter

import hloscope
from hloscope.api import Program
from hloscope.indexing import SymbolicAnalysis, has_unknown_sizes
from hloscope.ir import TensorType
from tests.passes import dynamic_corpus
from tests.passes.test_parametric import templates

SIZES = 5


def of_refined() -> Counter[str]:
    """The maps of the refined programs by precision; each is compared before it is told."""
    counts: Counter[str] = Counter()
    for record in dynamic_corpus.records():
        text = dynamic_corpus.path_of(record).read_text()
        for each in hloscope.parametric(text, templates(record)):
            assert len(each.checked) == SIZES, record["file"]
            counts.update([one.precision for one in each.maps])
        counts["programs"] += 1
    return counts


def compared(program: Program) -> tuple[Counter[str], list[str]]:
    """The maps of a program as it is: known, unknown, compared; and what is wrong."""
    analysis = SymbolicAnalysis(program.module, program.analysis.bodies)
    counts: Counter[str] = Counter()
    wrong = []
    for computation in program.module:
        for ins in computation:
            if not has_unknown_sizes(ins) or not isinstance(ins.type, TensorType):
                continue
            for some in analysis.reads(computation, ins, 0):
                counts["known"] += sum(access.map is not None for access in some)
                counts["unknown"] += sum(access.map is None for access in some)
            try:
                found = analysis.compared(computation, ins, 0, None, SIZES, 0)
            except LookupError:
                continue
            counts["compared"] += len(found.sizes)
            if found.difference is not None:
                wrong.append(f"{ins.name}: {found.difference}")
    return counts, wrong


def of_programs(step: int = 1) -> tuple[Counter[str], list[str]]:
    """The same of all programs, or of every so many."""
    counts: Counter[str] = Counter()
    wrong = []
    for record in [*dynamic_corpus.records()][::step]:
        path = dynamic_corpus.path_of(record)
        here, bad = compared(hloscope.read(str(path)))
        counts += here
        wrong += [f"{path.stem} {each}" for each in bad]
    return counts, wrong


def figure() -> tuple[str, list[str]]:
    """Both, as a row of the status table."""
    refined, (asis, wrong) = of_refined(), of_programs()
    known = refined["exact"] + refined["over"]
    said = (
        f"{known:,} maps of {refined['programs']} refined programs, {refined['unknown']} unknown;"
        f" {asis['known']:,} as they are, {asis['unknown']} unknown,"
        f" {len(wrong)} wrong at {asis['compared']:,} instances"
    )
    return said, wrong


if __name__ == "__main__":
    text, notes = figure()
    print("\n".join([*notes, text]))
