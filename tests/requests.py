"""Commands with what they are given: programs in every form, maps and arrays, right and broken."""

from __future__ import annotations

import gzip
import io
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

import numpy as np

import hloscope
from hloscope.cli import command
from hloscope.errors import HloscopeError
from hloscope.interpreter.values import dtype_of
from hloscope.ir.types import TensorType
from tests.careful import changes
from tests.extreme import KINDS as EXTREME, chain_map
from tests.generator import generate, options_of
from tests.generator.hlo_text import hlo_text
from tests.generator.stablehlo_text import stablehlo_text
from tests.hlo_parser.test_proto import MODULE
from tests.mutations import KINDS, originals
from tests.wire import changed_message

_MOST: Final = 20_000
"""Characters of a program that is changed many times."""
_LONG: Final = 3.0
"""Seconds after which a program is no longer verified."""
_GENERATED: Final = 200
_EVALUATED: Final = (
    "math", "testdata", "testdata/dynamic", "testdata/quantized", "jax_samples",
)  # fmt: skip
"""Folders of programs of which each process takes some others: there are thousands."""
_OF_EACH: Final = 100
_NAMES: Final = ("r", "t", "a", "p0", "fusion", "0", "%0", "*", "add*", "reduce.1", "entry/a")
COMMANDS: Final = """
    verify -
    verify - --json
    verify - --allow-unregistered
    print -
    print - --generic
    print - --locations --names source
    ls - --all
    ls - --json
    ls - --tree
    ls - --fusions
    ls - --opcode * --sort flops
    ls - --all --sort bytes --top 3
    show - NAME
    show - NAME --full --around 2
    show - NAME --json
    infer -
    infer - --json
    run - --random 1 --max-steps 20000 --max-flops 9999999 --max-bytes 10000000
    run - --random 2 --max-steps 20000 --max-flops 9999999 --max-bytes 10000000 --json
    run - --random 3 --max-steps 20000 --max-flops 9999999 --max-bytes 10000000 --dense
    run - --random 4 --max-steps 5000 --max-flops 9999999 --max-bytes 1000000 --replicas 2
    run - --random 5 --max-steps 999 --max-flops 99999 --max-bytes 99999 --replicas 2 --partitions 2
    opt - --fold
    index -
    index - --json
    index - NAME
    index - NAME --at 0,1
    index - --at 0 --json
    index - --all
    index - --all --to-parameters
    index - --all --verify
    index - --all --verify --by-execution
    index - --verify --by-execution
    index - --to-parameters --verify
    index - --to-parameters --verify --by-execution
    index - --to-parameters --format print_indexing
    index - --from-operand 0
    index - --from-operand 1 --verify
    index - --all --from-operand 0 --verify
    index - --physical
    index - --linear
    index - --convention xla --all
    index - --all --linear --verify
    index - --all --physical --verify
    index - --format svg
    index - --format html
    index - --format latex
    ls - --source a.py:3 --users
    ls - --top 0
    tile -
    tile - NAME --json
    tile - NAME --sizes 4,8
    tile - NAME --space
    tile - NAME --search --device a6000 --top 2
    coalesce -
    coalesce - --json --device h100
    coalesce - NAME --format html
    coalesce - NAME --threads 64 --vector 4
    footprint -
    footprint - --json --device a6000
    footprint - NAME --format svg
    cancel -
    cancel - --json
    cancel - NAME --format svg
    html -
    html - --without maps
    check - --rule utilisation --rule copies --rule precision
    check - --list
    check - --json
    opt - --pass stablehlo-aggressive-simplification
    opt - --pass stablehlo-aggressive-folder --max-steps 2000 --max-bytes 1000000
    opt - --pass stablehlo-refine-shapes --pass stablehlo-canonicalize-dynamism
    opt - --pass stablehlo-legalize-to-vhlo
    opt - --statistics --pass chlo-legalize-to-stablehlo
    opt - --split-input-file --verify-diagnostics
    refine - --args tensor<4xf32>
    refine - --dims b=4 --explain
    refine - --args tensor<4xf32>,tensor<2x3xi32> --json
    serialize - --text
    serialize - --target 1.0.0
    serialize - --target current --expand
    serialize - --allow-other-dialects
    deserialize -
    deserialize - --vhlo
    doctor -
    doctor - --json
""".strip().splitlines()
ODD_VALUES: Final = (
    "", "-1", "0", "-0", "1e9", "NaN", "9" * 30, "9" * 5000, "1," * 50, ",", "a=b", "=",
    "\udcff", "é\u202e", "../..", "/dev/null", "-", "--", "*", "[", "d0", "0x10", "a100",
    "json", "current", "tensor<",
)  # fmt: skip
"""Given to any option that takes a value."""
MAPS: Final = """\
(d0, d1)[s0] -> (d0 * 2 + s0, d1 / 3), domain: d0 in [0, 9], d1 in [0, 11], s0 in [0, 1]
(d0)[s0, s1]{rt0} -> ((d0 + rt0) mod 8, s0 * 4 + s1), domain: d0 in [0, 63], s0 in [0, 3], \
s1 in [0, 3], rt0 in [0, 7], d0 + s0 in [2, 60]
(d0 floordiv 128, d0 mod 128), domain: d0 in [0, 16383]
(th_x, bl_x)[s0] -> ((bl_x * 128 + th_x) / 100, (bl_x * 128 + th_x) mod 100 + s0 * 0), domain: \
th_x in [0, 127], bl_x in [0, 99], s0 in [0, 3], bl_x * 128 + th_x in [0, 9999]
(d0, d1) -> (min(d0, d1), max(d0, 3), d0 ceildiv 5), domain: d0 in [0, 9], d1 in [0, 11]
""".splitlines()
LIMITED: Final = ("run", "-", "--max-steps", "5000", "--max-flops", "30000000")
"""A run that ends soon."""
_OF_TWO: Final = (
    ("equal", "{a}", "{b}"),
    ("diff", "{a}", "{b}"),
    ("diff", "{a}", "{b}", "--json"),
    ("cancel", "{a}", "{b}"),
    ("html", "--diff", "{a}", "{b}"),
    ("check", "{a}", "{b}", "--format", "sarif"),
    ("check", "{a}", "{b}", "--baseline", "{a}"),
    ("check", "{a}", "--config", "{b}"),
    ("verify", "{a}", "{b}"),
    ("query", "SELECT * FROM '{a}'", "{b}"),
)
"""Commands that read two files."""
_ABOUT_ARTIFACTS: Final = [
    "deserialize -",
    "deserialize - --vhlo",
    "doctor -",
    "doctor - --json",
    "print -",
]
LITERALS: Final = (
    "[dense<1> : tensor<2xi32>]",
    "[dense<[1.0, 2.5]> : tensor<2xf32>, dense<true> : tensor<i1>]",
    "[dense<0.0> : tensor<4xf32>, dense<1.0> : tensor<4xf32>]",
)


@dataclass(frozen=True, slots=True)
class Request:
    """A command, its arguments, and what it reads.

    Attributes:
        kind: How what it reads was made.
        arguments: The command and its arguments; `{name}` stands for the file of that name.
        text: The program it is about, to tell where it is refused; empty for maps.
        stdin: The bytes of its standard input.
        files: The bytes of files, by name.
    """

    kind: str
    arguments: tuple[str, ...]
    text: str
    stdin: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)


class TooLongError(BaseException):
    """Nothing was answered in time; nobody else catches it."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise a `TooLongError` after so much processor time of this process."""

    def stop(_: int, __: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def is_right(text: str) -> bool:
    """Does `verify` accept it?  What fails otherwise or takes long counts: a command meets it."""
    try:
        with within(_LONG):
            return not hloscope.verify(text)
    except HloscopeError:
        return False
    except (Exception, TooLongError):
        return True


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class Requests:
    """Makes requests of the shared data, of generated programs and of maps."""

    def __init__(self, shared: Path, seed: int) -> None:
        self.rng: Final = Random(seed)
        self.texts: Final = [t for t in _programs(shared, seed) if 0 < len(t) <= _MOST]
        self.texts += list(_generated(seed))
        self.changes: Final = changes(self.texts)
        self.broken: Final = originals(shared)

    @cached_property
    def _right(self) -> list[str]:
        """Programs that are right, each checked once: a sample, as there are very many."""
        return [t for t in self.rng.sample(self.texts, min(1200, len(self.texts))) if is_right(t)]

    def make(self, count: int) -> Iterator[Request]:
        """Yield so many requests."""
        forms: list[tuple[int, Callable[[], Request]]] = [
            (72, self._about_program),
            (3, self._extreme),
            (8, self._oddly_asked),
            (3, self._of_artifact),
            (8, self._about_maps),
            (4, self._with_arrays),
            (2, self._with_literals),
            (2, self._compressed),
            (3, self._binary),
            (3, self._compared),
        ]
        weights, makers = zip(*forms, strict=True)
        for _ in range(count):
            yield self.rng.choices(makers, weights)[0]()

    # -------------------------------------------------------------------------------- programs

    def program(self) -> tuple[str, str]:
        """A changed program and how it was changed: most of the changes keep it right."""
        rng = self.rng
        if rng.random() < 0.35:
            kind = rng.choice(list(KINDS))
            return kind, KINDS[kind](rng.choice(rng.choice([self.broken, self.texts])), rng)
        text, kinds = rng.choice(self._right), []
        for _ in range(rng.choice([1, 2, 2, 3, 6])):
            for kind in rng.choices(list(self.changes), k=3):
                new = self.changes[kind](text, rng)
                if new != text and is_right(new):
                    text = new
                    kinds.append(kind)
                    break
        if rng.random() < 0.15:
            kind = rng.choice(list(self.changes))
            text = self.changes[kind](text, rng)
            kinds.append(kind)
        return " + ".join(kinds), text

    def _command(self) -> tuple[str, ...]:
        rng = self.rng
        words = rng.choice(COMMANDS).split()
        return tuple(rng.choice(_NAMES) if word == "NAME" else word for word in words)

    def _about_program(self) -> Request:
        kind, text = self.program()
        return Request(kind, self._command(), text, _encoded(text))

    def _extreme(self) -> Request:
        kind = self.rng.choice(list(EXTREME))
        text = EXTREME[kind](self.rng)
        return Request(kind, self._command(), text, _encoded(text))

    def _oddly_asked(self) -> Request:
        """A right program and a command that knows the options, but not what they take."""
        rng = self.rng
        text = rng.choice(self._right)
        options = rng.choice(_OPTIONS)
        words = [options.command, "-"]
        if rng.random() < 0.4:
            words.append(rng.choice(_NAMES))
        for _ in range(rng.choice([1, 1, 2, 3])):
            name, takes = rng.choice(options.names)
            words += [f"{name}={rng.choice(ODD_VALUES)}"] if takes else [name]
        return Request("odd options", tuple(words), text, _encoded(text))

    def _of_artifact(self) -> Request:
        """A portable artifact, damaged or not."""
        rng = self.rng
        data, kind = rng.choice(self._artifacts), "artifact"
        if rng.random() < 0.8:
            data, kind = _damaged(data, rng), "damaged artifact"
        words = rng.choice(COMMANDS + _ABOUT_ARTIFACTS * 8).split()
        return Request(
            kind, tuple(rng.choice(_NAMES) if w == "NAME" else w for w in words), "", data
        )

    @cached_property
    def _artifacts(self) -> list[bytes]:
        """Artifacts of some programs."""
        found = []
        for text in self._right:
            try:
                found.append(hloscope.serialize(text))
            except HloscopeError:
                continue
            if len(found) == 40:
                break
        return found

    def _compressed(self) -> Request:
        kind, text = self.program()
        data = gzip.compress(_encoded(text), 1)
        if self.rng.random() < 0.6:
            kind, data = f"gzip, {kind}", _damaged(data, self.rng)
        return Request(f"gz: {kind}", self._command(), "", data)

    def _binary(self) -> Request:
        data = MODULE
        for _ in range(self.rng.randint(0, 4)):
            data = changed_message(data, self.rng)
        if self.rng.random() < 0.2:
            data = _damaged(data, self.rng)
        return Request("proto", self._command(), "", data)

    def _compared(self) -> Request:
        rng = self.rng
        one = rng.choice(self._right)
        kind = rng.choice(list(self.changes))
        other = self.changes[kind](one, rng)
        files = {"a": _encoded(one), "b": _encoded(other)}
        words = rng.choice(_OF_TWO)
        if rng.random() < 0.2:
            name = rng.choice(_NAMES)
            words = ("equal", "{a}:" + name, "{b}:" + name)
        return Request(f"{words[0]}: {kind}", words, other, files=files)

    # ------------------------------------------------------------------------- maps and arrays

    def _map(self) -> str:
        rng = self.rng
        text = rng.choice(MAPS) if rng.random() < 0.9 else chain_map(rng)
        kinds = {**KINDS, "number nudged": self.changes["number nudged"]}
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            text = kinds[rng.choice(list(kinds))](text, rng) if text.strip() else text
        return text

    def _about_maps(self) -> Request:
        rng, text = self.rng, self._map()
        form = rng.randrange(6)
        if form == 0:
            line = json.dumps({"map": text}) + "\n"
            return Request("map", ("simplify", "--lines"), "", _encoded(line + line[::-1] + line))
        if form == 1:
            return Request("map", ("compose", "-", rng.choice(MAPS)), "", _encoded(text))
        if form == 2 and "\0" not in text:
            return Request("map", ("equal", "--", text, rng.choice(MAPS)), "")
        more = rng.choice([(), ("--exact",), ("--trace",), ("--keep-points",), ("--json",)])
        return Request("map", ("simplify", "-", *more), "", _encoded(text))

    def _with_arrays(self) -> Request:
        rng = self.rng
        text = rng.choice(self._right)
        file = io.BytesIO()
        arrays = _arguments(text, rng)
        words = (*LIMITED, "--max-bytes", "10000000", "--input", "{in}")
        if len(arrays) == 1 and rng.random() < 0.5:
            np.save(file, arrays[0], allow_pickle=True)
        elif rng.random() < 0.5:
            np.savez(file, *arrays)
        else:
            np.savez_compressed(file, *arrays)
        data = file.getvalue()
        if rng.random() < 0.5:
            data = _damaged(data, rng)
        return Request("arrays", words, text, _encoded(text), {"in": data})

    def _with_literals(self) -> Request:
        rng = self.rng
        given, text = rng.choice(LITERALS), rng.choice(self._right)
        for _ in range(rng.choice([0, 1, 2])):
            given = KINDS[rng.choice(list(KINDS))](given, rng) if given else "["
        words = (*LIMITED, "--args", given.replace("\0", ""))
        return Request("literals", words, text, _encoded(text))


@dataclass(frozen=True, slots=True)
class _Options:
    """What a command takes: the names of its options, and whether a value follows."""

    command: str
    names: list[tuple[str, bool]]


def _options() -> list[_Options]:
    """All commands that read one program, by the options they have."""
    app = command()
    found = []
    for name in sorted({row.split()[0] for row in COMMANDS}):
        params = app.get_command(None, name).params
        names = [
            (option.opts[-1], not option.is_flag and not option.count)
            for option in params
            if option.param_type_name == "option" and not _writes(option.opts)
        ]
        found.append(_Options(name, names))
    return found


def _writes(names: list[str]) -> bool:
    """Would the option write a file, or show a traceback?"""
    return bool(
        {"--output", "--evidence-dir", "--values", "--probe", "--cache", "--debug"} & {*names}
    )


_OPTIONS: Final = _options()


def _damaged(data: bytes, rng: Random) -> bytes:
    """Bytes changed, cut off, doubled, or exchanged with others."""
    out = bytearray(data)
    match rng.randrange(4):
        case 0:
            for _ in range(rng.randint(1, 8)):
                out[rng.randrange(len(out))] = rng.randrange(256)
        case 1:
            del out[rng.randrange(len(out)) :]
        case 2:
            at = rng.randrange(len(out))
            out[at:at] = out[at : at + rng.randint(1, 64)]
        case _:
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(min(len(out), 200))  # headers
                out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


def _arguments(text: str, rng: Random) -> list[np.ndarray]:
    """Arrays for the arguments of a program, now and then of other types, ranks and sizes."""
    arrays: list[np.ndarray] = []
    try:
        types = hloscope.read(text).module.entry.arguments
        for type_ in types:
            if isinstance(type_, TensorType) and type_.num_elements < 10_000:
                arrays.append(np.ones(type_.shape, dtype_of(type_.element)))
    except (HloscopeError, ValueError):
        pass
    odd = [np.zeros((2, 3), "f4"), np.array("x"), np.array([None]), np.zeros((0,), "c16"),
           np.zeros(3, "i8,f4"), np.zeros((1,) * 40, "U3"), np.float16(7)]  # fmt: skip
    for i in range(len(arrays)):
        if rng.random() < 0.1:
            arrays[i] = rng.choice(odd)
    return arrays or [rng.choice(odd)]


def _programs(shared: Path, seed: int) -> Iterator[str]:
    """Programs of the shared data: small ones of XLA's tests, of JAX, cases of StableHLO."""
    for folder in ("inline", "files"):
        for path in sorted((shared / "real" / "modules" / folder).glob("*.hlo")):
            if path.stat().st_size <= _MOST:
                yield path.read_text()
    chunks = shared / "conformance" / "stablehlo"
    for name in ("verify", "transforms"):
        with (chunks / name / "chunks.jsonl").open() as lines:
            for line in lines:
                found = json.loads(line)
                if not found["expected_errors"] and not found["allow_unregistered"]:
                    yield found["text"]
    for path in sorted((chunks / "interpret").glob("*.mlir")):
        yield from path.read_text().split("// -----")
    for name in _EVALUATED:
        paths = [p for p in sorted((chunks / name).glob("*.mlir")) if p.stat().st_size <= _MOST]
        for path in Random(seed).sample(paths, min(_OF_EACH, len(paths))):
            yield path.read_text()


def _generated(seed: int) -> Iterator[str]:
    """Programs of the generator, in both languages."""
    spell = {"hlo": hlo_text, "mlir": stablehlo_text}
    for number in range(_GENERATED):
        for language, text in spell.items():
            yield text(generate(seed + number, options_of(seed + number, language)))


def requests(shared: Path, count: int, seed: int) -> Iterator[Request]:
    """Yield so many requests of a seed."""
    yield from Requests(shared, seed).make(count)


def words_of(request: Request, files: dict[str, Path]) -> Sequence[str]:
    """The arguments with the paths of the files in them."""
    out = []
    for word in request.arguments:
        for name, path in files.items():
            word = word.replace("{" + name + "}", str(path))
        out.append(word)
    return out
