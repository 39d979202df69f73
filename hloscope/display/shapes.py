"""Shapes of a picture, which are written as SVG or drawn by a page's script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hloscope.ir import Instruction
from hloscope.visible import in_page

FONT: Final = "ui-monospace,Menlo,Consolas,monospace"


class Shape(NamedTuple):
    """One element of a picture.

    Attributes:
        tag: Name of the element in SVG.
        attributes: Its attributes.
        text: The text inside.
        tip: What appears under the pointer.
        instruction: Where a click leads, in pages that have a place for it.
    """

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    tip: str = ""
    instruction: Instruction | None = None

    def to_svg(self) -> str:
        """The element as SVG, everything escaped."""
        attributes = "".join([f' {k}="{in_page(v)}"' for k, v in self.attributes.items()])
        tip = f"<title>{in_page(self.tip)}</title>" if self.tip else ""
        inside = tip + in_page(self.text)
        return f"<{self.tag}{attributes}" + (f">{inside}</{self.tag}>" if inside else "/>")


class Picture(NamedTuple):
    """Shapes in the order in which they are painted.

    Attributes:
        title: What is shown.
        width: Of the picture, in units of its coordinates.
        height: The same.
        shapes: The shapes.
        legend: Colour (empty for the grey of `others`), amount and name of each part, if the
            shapes do not have them.
    """

    title: str
    width: int
    height: int
    shapes: tuple[Shape, ...]
    legend: tuple[tuple[str, str, str], ...] = ()


def label(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> Shape:
    """A line of text; `kind` is its class, `anchor` the point of the text that is at `x`."""
    attributes = {"x": f"{x:g}", "y": f"{y:g}"}
    if kind:
        attributes["class"] = kind
    if anchor:
        attributes["text-anchor"] = anchor
    return Shape("text", attributes, text)


def box(x: float, y: float, width: float, height: float, **more: str) -> Shape:
    """A filled rectangle; `more` are further attributes, `kind` being its class."""
    place = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
    named = {"class" if key == "kind" else key: value for key, value in more.items()}
    return Shape("rect", place | named)


def line(path: str, kind: str) -> Shape:
    """A line along a path; `kind` is its class."""
    return Shape("path", {"class": kind, "d": path})


def svg_of(picture: Picture, name: str, style: str) -> str:
    """A picture as an SVG document without scripts, fonts or links.

    Args:
        picture: The picture.
        name: Its class, which the style names.
        style: The style of its shapes.
    """
    wide, high = picture.width, picture.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" width="{wide}" '
        f'height="{high}" viewBox="0 0 {wide} {high}" font-family="{FONT}" font-size="12">'
        f"<title>{in_page(picture.title)}</title><style>{style}</style>"
        f"{_lines(shape.to_svg() for shape in picture.shapes)}</svg>\n"
    )


def _lines(parts: Iterable[str]) -> str:
    return "\n".join(parts)
