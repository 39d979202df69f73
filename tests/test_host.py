"""A library call leaves its process as it was: alone, in eight threads, and from a deep stack."""

from __future__ import annotations

import gc
import locale
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloscope as hs
from hloscope.api import read_ptx
from hloscope.memory.dumps import DumpFolder

HLO = """f { p = f32[8,16] parameter(0) ROOT t = f32[16,8] transpose(p), dimensions={1,0} }
ENTRY e { p = f32[8,16] parameter(0) ROOT r = f32[16,8] fusion(p), kind=kInput, calls=f }"""
MLIR = """func.func @main(%a: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}"""
DYNAMIC = """func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}"""
PTX = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 .ptr p) {
  .reg .b32 %r<5>; .reg .b64 %d<4>; .reg .f32 %f<2>;
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r3, %r2, 32, %r1;
  mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2;
  ld.global.f32 %f1, [%d3]; div.rn.f32 %f1, %f1, %f1; st.global.f32 [%d3], %f1;
  ret;
}
"""
TESTS = Path(__file__).parent
DUMP = TESTS.parent / "examples/dump"
KERNELS = TESTS / "memory/ptx/dumps"
KERNEL = "module_0040.jit_own_sort"
DEEP = 480
WRONG = "func.func @main( {"


def tolerant(function: Callable[[], object]) -> Callable[[], object]:
    """A call whose `HloscopeError` is expected: it leaves nothing behind either."""

    def call() -> object:
        with pytest.raises(hs.HloscopeError):
            function()
        return None

    return call


CALLS: dict[str, Callable[[], object]] = {
    "read": lambda: list(hs.read(HLO, strict=True)),
    "read, wrong text": tolerant(lambda: hs.read(WRONG, strict=True)),
    "parse_hlo": lambda: hs.parse_hlo(HLO, strict=True),
    "print_hlo": lambda: hs.print_hlo(hs.parse_hlo(HLO)),
    "parse_stablehlo": lambda: hs.parse_stablehlo(MLIR),
    "parse_stablehlo, deep": lambda: hs.parse_stablehlo(nested_ifs(DEEP)),
    "print_stablehlo": lambda: hs.print_stablehlo(hs.parse_stablehlo(MLIR)),
    "verify": lambda: (str(hs.verify(MLIR)), str(hs.verify(HLO))),
    "evaluate": lambda: hs.evaluate(MLIR, np.ones((4, 8), "f4")),
    "evaluate_grid": lambda: hs.evaluate_grid(MLIR, [np.ones((4, 8), "f4")]),
    "serialize": lambda: hs.serialize(MLIR),
    "deserialize": lambda: hs.deserialize(hs.serialize(MLIR)),
    "doctor": lambda: str(hs.doctor(hs.serialize(MLIR))),
    "diff": lambda: str(hs.diff(hs.read(HLO), hs.read(HLO))),
    "opt": lambda: hs.opt(MLIR, ["cse"]),
    "fold": lambda: hs.fold(hs.parse_stablehlo(MLIR)),
    "refine": lambda: hs.refine(DYNAMIC, "tensor<4xf32>"),
    "explain_dynamic": lambda: hs.explain_dynamic(DYNAMIC),
    "parametric": lambda: hs.parametric(DYNAMIC, ["tensor<{b}xf32>"]),
    "infer": lambda: hs.infer("transpose", ["tensor<4x8xf32>"], permutation=(1, 0)),
    "schema": lambda: hs.schema("index"),
    "simplify": lambda: hs.IndexingMap.parse(
        "(d0) -> ((d0 * 6 + 3) / 4 mod 5), domain: d0 in [0, 99]"
    ).simplify(exact=True),
    "thread_values": lambda: str(hs.thread_values("(4, 8):(8, 1)")),
    "shared_banks": lambda: str(hs.shared_banks("(8, 32):(32, 1)")),
    "bank_conflicts": lambda: str(
        hs.bank_conflicts("(d0) -> (d0 * 2), domain: d0 in [0, 31]", (64,))
    ),
    "Builder": hs.Builder,
    "indexing": lambda: str(hs.read(HLO).root.indexing()),
    "to_parameters": lambda: str(hs.read(MLIR).root.to_parameters()),
    "coalescing": lambda: str(hs.read(HLO).root.coalescing()),
    "footprint": lambda: str(hs.read(HLO).root.footprint()),
    "tiles": lambda: str(hs.read(HLO).root.tiles()),
    "cancellations": lambda: list(map(str, hs.read(HLO).cancellations())),
    "cost": lambda: str(hs.read(HLO).cost()),
    "read, a dump folder": lambda: str(hs.read(DUMP).root.coalescing()),
    "run_ptx": lambda: str(hs.run_ptx(PTX, {"p": np.zeros(64, "f4")}, grid=2, block=32)),
    "run_ptx, wrong text": tolerant(lambda: hs.run_ptx("oops", [], grid=1, block=1)),
    "run_ptx, outside": tolerant(lambda: hs.run_ptx(PTX, [np.zeros(5, "f4")], grid=2, block=32)),
    "execute_kernel": lambda: str(hs.execute_kernel(KERNELS, "fusion", module=KERNEL)),
}
NOT_CALLS = {
    *("Access", "Coalescing", "ComputationView", "Element", "Footprint", "Indexing", "Tensor"),
    *("IndexingMap", "InstructionView", "Precision", "Program"),  # classes of answers
    *("sliders",),  # needs a notebook
    *("scan_files",),  # its own test below: it starts processes
}


def masks() -> object:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def state() -> dict[str, object]:
    """What a call could leave behind in this process, besides descriptors and threads."""
    main = threading.current_thread() is threading.main_thread()
    return {
        "recursion limit": sys.getrecursionlimit(),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "collector's callbacks": list(gc.callbacks),
        "switch interval": sys.getswitchinterval(),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.gettrace()),
        "signals": [signal.getsignal(s) for s in signal.valid_signals()],
        "signal mask": masks() if main else None,
        "warnings": list(warnings.filters),
        "numpy errors": np.geterr(),
        "numpy printing": str(np.get_printoptions()),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "path": list(sys.path),
        "digits": sys.get_int_max_str_digits(),
        "children": [child.pid for child in multiprocessing.active_children()],
        "children of the system": children(),
    }


def children() -> list[str]:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return []
    return sorted(pid for task in tasks.glob("*/children") for pid in task.read_text().split())


def descriptors() -> dict[str, str]:
    folder = Path("/proc/self/fd")
    found = {}
    for entry in folder.iterdir() if folder.exists() else ():
        try:
            found[entry.name] = os.readlink(entry)
        except OSError:
            continue  # the listing's own
    return found


def test_every_public_function_is_called() -> None:
    kinds = {name for name in hs.__dir__() if not name.startswith("_")}
    public = {n for n in kinds if callable(getattr(hs, n)) and not _is_error(getattr(hs, n))}
    named = {name.partition(",")[0] for name in CALLS}
    assert public - named - NOT_CALLS - {"Diagnostic", "door"} == set()


def _is_error(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException)


@pytest.mark.slow(keep=8)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_the_process_as_it_was(name: str) -> None:
    CALLS[name]()  # modules are imported and libraries initialised
    threads = threading.active_count()
    before, files = state(), descriptors()
    CALLS[name]()
    assert state() == before
    assert descriptors() == files
    assert threading.active_count() == threads


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_stays_on_or_off(enabled: bool) -> None:
    before, thresholds = gc.isenabled(), gc.get_threshold()
    try:
        gc.set_threshold(613, 11, 7)
        (gc.enable if enabled else gc.disable)()
        for call in CALLS.values():
            call()
            assert gc.isenabled() is enabled
            assert gc.get_threshold() == (613, 11, 7)
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if before else gc.disable)()


@pytest.mark.slow
def test_eight_threads_leave_the_process_as_it_was() -> None:
    for call in CALLS.values():
        call()
    before, files = state(), descriptors()
    seen: list[object] = []
    failed: list[BaseException] = []

    def work(first: int) -> None:
        names = [*CALLS][first:] + [*CALLS][:first]
        try:
            for name in names:
                CALLS[name]()
                seen.append((sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(4 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(seen) == 8 * len(CALLS)
    limits = (sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold())
    assert set(map(str, seen)) == {str(limits)}  # while they run as well
    assert state() == before
    assert descriptors() == files


@pytest.mark.parametrize("attempt", range(3))
def test_eight_threads_share_a_dump_folder_and_a_ptx_module(attempt: int) -> None:
    """What is read late may be read twice, and is the same."""
    module, folder, program = read_ptx(PTX), DumpFolder(DUMP), hs.read(DUMP)
    start = threading.Barrier(8)
    found: list[tuple[str, ...]] = []

    def work() -> None:
        start.wait()
        run = hs.run_ptx(module, [np.ones(64, "f4")], grid=2, block=32)
        found.append((str(run), str(folder.module().thunks), str(program.root.coalescing())))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def nested_ifs(depth: int) -> str:
    begin = "".join(f'%{k} = "stablehlo.if"(%p) ({{\n' for k in range(depth))
    end = "".join(
        "}, {stablehlo.return %a : tensor<4xf32>}) : (tensor<i1>) -> tensor<4xf32>\n"
        + (f"stablehlo.return %{k} : tensor<4xf32>\n" if k else "")
        for k in reversed(range(depth))
    )
    return (
        "func.func @main(%p: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {\n"
        f"{begin}stablehlo.return %a : tensor<4xf32>\n{end}return %0 : tensor<4xf32>\n}}"
    )


def below(frames: int, function: Callable[[], Any]) -> Any:
    return function() if frames == 0 else below(frames - 1, function)


@pytest.mark.slow
def test_nested_regions_are_read_from_a_deep_stack_of_the_host() -> None:
    text = nested_ifs(DEEP)
    printed = hs.print_stablehlo(hs.parse_stablehlo(text))
    frames = sys.getrecursionlimit() - 500 - len(_stack())
    assert hs.print_stablehlo(below(frames, lambda: hs.parse_stablehlo(text))) == printed


def _stack() -> list[object]:
    found, frame = [], sys._getframe()
    while frame is not None:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def test_too_many_nested_regions_are_counted_and_refused() -> None:
    with pytest.raises(hs.ParseError, match="regions are nested deeper than 500"):
        hs.parse_stablehlo(nested_ifs(501))


def test_an_error_in_a_deep_region_is_the_callers() -> None:
    text = nested_ifs(100).replace("stablehlo.return %a : tensor<4xf32>\n}, {", "oops }, {", 1)
    with pytest.raises(hs.ParseError, match="oops"):
        hs.parse_stablehlo(text)
    assert not [t for t in threading.enumerate() if t.name == "hloscope-nested"]


GUARDLESS = """import hloscope, sys
hloscope.scan_files([sys.argv[1]], sys.argv[2], jobs=2)
"""


@pytest.mark.slow
def test_scan_files_without_a_guard_names_the_line_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(HLO)
    script = tmp_path / "host.py"
    script.write_text(GUARDLESS)
    run = [sys.executable, str(script), str(tmp_path / "a.hlo"), str(tmp_path / "out")]
    package = str(Path(hs.__file__).parents[1])
    done = subprocess.run(
        run, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": package}
    )
    assert 'call it below `if __name__ == "__main__":`' in done.stderr
