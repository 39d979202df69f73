"""Files that reproduce a violation: the program, and its inputs before and after the change."""

from __future__ import annotations

import re
from pathlib import Path

from hloscope import compare
from hloscope.errors import InputError
from hloscope.hlo_parser import print_hlo
from hloscope.ir import Body, Computation, Instruction, TupleType
from hloscope.ops import Result, Return
from hloscope.proof.instance import module_of
from hloscope.proof.involved import within
from hloscope.proof.violation import Violation
from hloscope.stablehlo import print_stablehlo


def write_evidence(violation: Violation, folder: str | Path, name: str) -> tuple[Path, ...]:
    """Write the files and return their paths: `NAME.hlo` or `NAME.mlir`, and two files of values.

    `hloscope run NAME.hlo --input NAME.before.npz`, and with `.after.npz`, show the element that
    changes.  On several devices there is a file for each, `NAME.before.0.npz` and so on.  The
    command takes all of them, and `--replicas` and `--partitions` as in the program's first line.

    Raises:
        InputError: A file cannot be written.
    """
    text, ending = _text(violation)
    plain = re.sub(r"[^\w.-]+", "_", name)
    folder = Path(folder)
    path = folder / f"{plain}.{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f"// {violation}{_grid(violation)}\n{text}")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    types = violation.instance.running.arguments
    devices = violation.instance.devices.count
    paths = [path]
    for when, values in (("before", violation.before), ("after", violation.after)):
        for k in range(devices):
            number = f".{k}" if devices > 1 else ""
            paths.append(folder / f"{plain}.{when}{number}.npz")
            # Values are stored device by device, in the order of the parameters.
            own = values[k * len(types) : (k + 1) * len(types)]
            compare.save(paths[-1], compare.named(own, types))
    return tuple(paths)


def _grid(violation: Violation) -> str:
    """Return the command-line options for the number of devices; empty for one device."""
    devices = violation.instance.devices
    if devices.count == 1:
        return ""
    return f"; --replicas {devices.replicas} --partitions {devices.partitions}"


def _text(violation: Violation) -> tuple[str, str]:
    """Return the program's text and file ending, in the language that has all its ops."""
    running = violation.instance.running
    ops = {inner.op.name for ins in running for inner in within(ins)}
    if "return" not in ops:
        return print_hlo(module_of(running)), "hlo"
    return print_stablehlo(module_of(_function(running))), "mlir"


def _function(computation: Computation) -> Computation:
    """Return the computation with a `return` at its end."""
    root = computation.root
    results: tuple[Instruction, ...] = (root,)
    if isinstance(root.type, TupleType):
        parts = enumerate(root.type.elements)
        results = tuple([Instruction(f"result{k}", t, Result(k), (root,)) for k, t in parts])
    inside = (*computation.instructions, *(results if results != (root,) else ()))
    types = tuple([r.type for r in results])
    end = Instruction("return", TupleType(types), Return(), results)
    return Computation("main", Body((*inside, end), computation.parameters, end))
