"""Pictures with sliders, for notebooks with ipywidgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from hloscope.lazy import lazy


def sliders(picture: Callable[..., Any], /, **choices: Sequence[Any]) -> Any:
    """A picture with a slider for each of its arguments; without ipywidgets the first picture.

    Args:
        picture: Makes an answer that shows itself in a notebook.
        choices: The values that each argument may take, at least one.

    Returns:
        A widget, or where ipywidgets is not installed what `picture` returns for the first values.

    Raises:
        ValueError: An argument has no values.

    >>> import hloscope
    >>> root = hloscope.read("ENTRY e { p = f32[64] parameter(0) ROOT n = f32[64] negate(p) }").root
    >>> shown = sliders(lambda rows: root.tiles([rows]), rows=(1, 2, 4))
    """
    for name, values in choices.items():
        if not values:
            raise ValueError(f"`{name}` has no values to choose from")
    if find_spec("ipywidgets") is None:
        return picture(**{name: values[0] for name, values in choices.items()})
    widgets = lazy("ipywidgets")
    made = {
        name: widgets.SelectionSlider(options=[*values], description=name)
        for name, values in choices.items()
    }
    return widgets.interactive(picture, **made)
