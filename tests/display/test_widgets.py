"""Sliders of notebooks, with ipywidgets and without."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import hloscope
from hloscope.display import sliders as module


def add(a: int, b: str) -> tuple[int, str]:
    return a, b


def test_without_widgets_there_is_the_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[module.__module__], "find_spec", lambda _: None)
    assert hloscope.sliders(add, a=(3, 4), b="xy") == (3, "x")
    with pytest.raises(ValueError, match="`a` has no values"):
        hloscope.sliders(add, a=(), b="x")


def test_each_argument_has_a_slider_of_its_values() -> None:
    widgets = pytest.importorskip("ipywidgets", reason="ipywidgets is not installed")
    made = hloscope.sliders(add, a=(3, 4), b="xy")
    assert [type(part) for part in made.children[:2]] == [widgets.SelectionSlider] * 2
    made.children[0].value = 4
    made.update()
    assert made.result == (4, "x")


def test_the_widgets_are_asked_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to ipywidgets, where it is not installed too."""
    calls: list[Any] = []
    stand_in = ModuleType("ipywidgets")
    stand_in.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    stand_in.SelectionSlider = lambda **given: ("slider", given)  # type: ignore[attr-defined]
    stand_in.interactive = lambda f, **given: calls.append((f, given))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ipywidgets", stand_in)
    hloscope.sliders(add, a=(3, 4))
    assert calls == [(add, {"a": ("slider", {"options": [3, 4], "description": "a"})})]
