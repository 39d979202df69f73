"""Errors and answers cross a process by pickle, or say in one sentence that they do not."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hloscope as hs
from hloscope.support.source import Source, Span
from hloscope.support.whole_files import whole_file, write_whole

HLO = """f { p = f32[8,16] parameter(0) ROOT t = f32[16,8] transpose(p), dimensions={1,0} }
ENTRY e { p = f32[8,16] parameter(0) ROOT r = f32[16,8] fusion(p), kind=kInput, calls=f }"""


def kinds(base: type[hs.HloscopeError]) -> Iterator[type[hs.HloscopeError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_class_of_error_crosses_a_process() -> None:
    for found in pkgutil.walk_packages(hs.__path__, "hloscope."):
        if not found.name.endswith(("__main__", "pytest_plugin")):
            importlib.import_module(found.name)
    seen = {kind for kind in kinds(hs.HloscopeError) if kind.__module__.startswith("hloscope")}
    assert len(seen) > 20
    for kind in seen:
        error = kind.__new__(kind, "what is wrong")
        hs.HloscopeError.__init__(error, "what is wrong", span=Span(Source("m", "abc"), 1, 2))
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (again.args, again.message) == (error.args, error.message)
        assert again.__dict__ == error.__dict__


@pytest.mark.parametrize("text", ["func.func @main( {", "ENTRY e { x", "ENTRY e {", ""])
def test_errors_of_wrong_programs_cross_a_process(text: str) -> None:
    with pytest.raises(hs.HloscopeError) as caught:
        hs.read(text, strict=True)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("question", ["indexing", "indexing_from", "coalescing", "footprint"])
def test_answers_cross_a_process(question: str) -> None:
    answer = getattr(hs.read(HLO).root, question)()
    assert str(pickle.loads(pickle.dumps(answer))) == str(answer)


def test_programs_and_views_say_that_they_do_not_cross() -> None:
    program = hs.read(HLO)
    for one in (program, program.root, program.root.tiles(), program.root.cancellation()):
        with pytest.raises(TypeError, match="cross processes"):
            pickle.dumps(one)


def test_texts_of_errors_and_answers_escape_control_characters() -> None:
    with pytest.raises(hs.HloscopeError) as caught:
        hs.read("ENTRY e { x\u202e\x1b", strict=True)
    assert not {"\u202e", "\x1b"} & set(str(caught.value))
    module = 'module @"m\x1b\u202e" { func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {'
    program = hs.read(f"{module} return %a : tensor<4xf32> }} }}")
    assert not {"\u202e", "\x1b"} & set(str(program) + repr(program.module))


def test_a_file_is_written_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, b"old")
    path.chmod(0o640)
    with pytest.raises(OSError, match="full"), whole_file(path) as file:  # noqa: PT012
        file.write(b"half")
        raise OSError("full")
    assert path.read_bytes() == b"old"
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]
