"""The text of maps: what is read, how it is printed, and how errors look."""

from __future__ import annotations

import pytest

from hloscope.affine import NEG_INF, POS_INF, Dim, Interval, Range, Runtime
from hloscope.errors import ParseError
from hloscope.indexing import IndexingMap, RuntimeVariable, Variable

READ = [  # as written, as printed
    ("()->()", "() -> ()"),
    ("(d0)->(d0),domain:d0 in[0,3]", "(d0) -> (d0), domain: d0 in [0, 3]"),
    ("\n( d0 ,\td1 )\n-> ( d1 )\n, domain :\n d0 in [ 0 , 3 ] ,\n d1 in [ - 4 , 4 ]\n",
     "(d0, d1) -> (d1), domain: d0 in [0, 3], d1 in [-4, 4]"),
    ("(d0) -> (d0 floordiv 2, d0 mod 2)", "(d0) -> (d0 / 2, d0 mod 2)"),
    ("(d0)[] -> (0), domain: d0 in [0, 3]", "(d0) -> (0), domain: d0 in [0, 3]"),
    ("(pid)[i]{rt} -> (pid * 8 + i, rt), domain: pid in [0, 3], i in [0, 7], rt in [0, 1]",
     "(pid)[i]{rt} -> (pid * 8 + i, rt), domain: pid in [0, 3], i in [0, 7], rt in [0, 1]"),
    ("(d1) -> (d1)", "(d0) -> (d0)"),
    ("(s0) -> (s0)", "(s0) -> (s0)"),
    ("(d0)[r] -> (r), domain: r in [0, 1], d0 in [0, 2]",
     "(d0)[r] -> (r), domain: d0 in [0, 2], r in [0, 1]"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 in [2, 20]", "(d0) -> (d0), domain: d0 in [2, 9]"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 4 in [0, 2], d0 mod 4 in [1, 3]",
     "(d0) -> (d0), domain: d0 in [0, 9], d0 mod 4 in [1, 2]"),
    ("(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 9], s0 mod 4 in [0, 0], d0 + s0 in [0, 9]",
     "(d0)[s0] -> (d0), domain: d0 in [0, 9], s0 in [0, 9], d0 + s0 in [0, 9], s0 mod 4 in [0, 0]"),
    ("(d0) -> (d0), domain: d0 in [3, 2]", "KNOWN EMPTY"),
    ("(d0) -> (d0), domain: d0 in [0, 2], 5 in [0, 1]", "KNOWN EMPTY"),
    ("(d0) -> (d0), domain: d0 in [0, 2], d0 + 1 in [3, 1]", "KNOWN EMPTY"),
    ("KNOWN  EMPTY", "KNOWN EMPTY"),
    (" UNDEFINED ", "UNDEFINED"),
    ('#xla.indexing_map<"(d0) -> (d0 / 2), domain: d0 in [0, 3]">',
     "(d0) -> (d0 / 2), domain: d0 in [0, 3]"),
    ("affine_map<(d0)[s0] -> (d0 floordiv 2 + s0)>", "(d0)[s0] -> (d0 / 2 + s0)"),
    ("(d0) -> (d0), domain: d0 in [0, 3], is_simplified: true",
     "(d0) -> (d0), domain: d0 in [0, 3]"),
    ("(d0) -> (d0), domain: d0 in [-9223372036854775808, 9223372036854775807]", "(d0) -> (d0)"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "printed"), READ, ids=lambda text: text[:40])
def test_maps_are_read_and_printed(written: str, printed: str) -> None:
    assert str(IndexingMap.parse(written)) == printed
    assert str(IndexingMap.parse(printed)) == printed


ERRORS = [  # text, message, what the carets stand under ("" = one place past the end)
    ("d0 -> (d0)", "expected `(` before the dimension variables, found `d0`", "d"),
    ("", "expected `(` before the dimension variables, found the end", ""),
    ("(d0 -> (d0)", "expected `,` or `)` after `d0`, found `-`", "-"),
    ("(d0) (d0)", "expected `->` after the variables, found `(`", "("),
    ("(d0)[s0 -> (d0)", "expected `,` or `]` after `s0`, found `-`", "-"),
    ("(d0, d0) -> (d0)", "variable `d0` is declared twice", "d0"),
    ("(mod) -> (0)", "`mod` cannot be the name of a variable", "mod"),
    ("(0) -> (0)", "expected the name of a variable, found `0`", "0"),
    ("(d0) -> d0", "expected `(` before the results, found `d0`", "d"),
    ("(d0) -> (d0, d0", "expected `,` or `)` after result 1, found the end", ""),
    ("(tile_x) -> (tile_y)", "unknown variable 'tile_y'; did you mean `tile_x`?", "tile_y"),
    ("(d0) -> (d0), domain: d0 in [0, 3], d1 in [0, 3]", "unknown variable 'd1'", "d1"),
    ("(d0, d1) -> (d0), domain: d1 in [0, 3]", "no bounds for `d0`: 1 of 2 given", ""),
    ("(d0) -> (d0), domain:", "no bounds for `d0`: 0 of 1 given", ""),
    ("(d0) -> (d0), domain: d0 [0, 3]", "expected `in` after the expression, found `[`", "["),
    ("(d0) -> (d0), domain: d0 in 3", "expected `[` before the bounds, found `3`", "3"),
    ("(d0) -> (d0), domain: d0 in [0]", "expected `,` after the low bound, found `]`", "]"),
    ("(d0) -> (d0), domain: d0 in [0, x]", "expected an integer as the high bound, found `x`", "x"),
    ("(d0) -> (d0), domain: d0 in [0, 3] d0", "expected `,` between the parts of the domain", "d"),
    ("(d0) -> (d0) range: d0 in [0, 3]", "expected `domain` after the results", "r"),
    ("(d0) -> (d0), domain: d0 in [0, 9223372036854775808]", "does not fit into 64 bits",
     "9223372036854775808"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "under"), ERRORS, ids=lambda text: text[:40])
def test_errors_say_what_is_missing_and_where(text: str, message: str, under: str) -> None:
    with pytest.raises(ParseError) as caught:
        IndexingMap.parse(text)
    assert message in caught.value.message
    span = caught.value.span
    assert span is not None
    if under:
        assert text[span.start : span.end] == under
    else:
        assert span.start == len(text)
    assert "^" in str(caught.value)


def test_errors_name_the_line() -> None:
    with pytest.raises(ParseError, match=r"maps\.txt:2:6: error"):
        IndexingMap.parse("(d0)\n  -> d0", name="maps.txt")


def test_names_stay_different() -> None:
    m = IndexingMap.parse("(d0)[tile] -> (tile), domain: d0 in [0, 1], tile in [0, 3]")
    n = IndexingMap.parse("(d0)[tile] -> (d0 + tile), domain: d0 in [0, 3], tile in [0, 3]")
    text = str(m.compose(n))
    assert text.startswith("(d0)[tile, tile_0] -> (")
    assert str(IndexingMap.parse(text)) == text


def test_a_name_of_another_kind_does_not_hide_a_variable() -> None:
    m = IndexingMap([Variable(Interval(0, 3), "s0")], [Variable(Interval(0, 1))], [], [Range(0)])
    assert str(m) == "(s0)[s0_0] -> (s0_0), domain: s0 in [0, 3], s0_0 in [0, 1]"


def test_mlir_style_spells_divisions_out() -> None:
    m = IndexingMap.parse("(d0)[s0] -> (d0 / 2 + s0 mod 3, d0 ceildiv 4)")
    assert m.text("mlir") == "(d0)[s0] -> (d0 floordiv 2 + s0 mod 3, d0 ceildiv 4)"


def test_verify_names_undeclared_variables() -> None:
    m = IndexingMap(
        [Variable(Interval(0, 3))], [], [], [Dim(0) + Dim(2)], [(Range(1), Interval(0, 1))]
    )
    assert m.verify() == ["`d0 + d2` uses undeclared d2", "`s1` uses undeclared s1"]


def test_verify_finds_circles_of_runtime_variables() -> None:
    first, second = (RuntimeVariable(Interval(0, 3), index=(Runtime(1 - i),)) for i in range(2))
    m = IndexingMap([], [], [first, second], [Runtime(0)])
    assert m.verify() == ["the indices of rt0, rt1 depend on each other in a circle"]
    chain = IndexingMap([], [], [first, RuntimeVariable(Interval(0, 3))], [Runtime(0)])
    assert chain.verify() == []


@pytest.mark.parametrize(
    ("interval", "domain"),
    [
        (Interval(NEG_INF, POS_INF), ""),
        (Interval(0, POS_INF), r",\quad 0 \le d_{0}"),
        (Interval(NEG_INF, 7), r",\quad d_{0} \le 7"),
        (Interval(POS_INF - 1, POS_INF - 1), rf",\quad d_{{0}} = {POS_INF - 1}"),
    ],
)
def test_latex_has_the_ends_that_there_are(interval: Interval, domain: str) -> None:
    m = IndexingMap([Variable(interval)], [], [], [Dim(0)])
    assert m._repr_latex_() == rf"$(d_{{0}}) \mapsto \left(d_{{0}}\right){domain}$"


def test_notebooks_show_latex_and_html() -> None:
    m = IndexingMap.parse(
        "(d0, th_x){rt0} -> (d0 / 8 * 2 - 1, min(th_x, 3) + rt0), domain: d0 in [0, 9], "
        "th_x in [2, 2], rt0 in [0, 5], d0 mod 3 in [0, 1]"
    )
    assert m._repr_latex_() == (
        r"$(d_{0}, \mathrm{th}_{x}) \mapsto \left(2 \left\lfloor \frac{d_{0}}{8} \right\rfloor - 1"
        r", \min\left(\mathrm{th}_{x}, 3\right) + \mathrm{rt}_{0}\right),\quad "
        r"0 \le d_{0} \le 9,\quad \mathrm{th}_{x} = 2,\quad 0 \le \mathrm{rt}_{0} \le 5,\quad "
        r"0 \le d_{0} \bmod 3 \le 1$"
    )
    html = m._repr_html_()
    assert html.startswith("<table><caption><code>(d0, th_x){rt0} -&gt; (")
    assert "<code>d0 mod 3</code></td><td>0 … 1</td>" in html
    assert IndexingMap.undefined()._repr_html_() == "<code>UNDEFINED</code>"
    assert IndexingMap.parse("KNOWN EMPTY")._repr_latex_() == r"$\varnothing$"


@pytest.mark.parametrize("divisor", ["(-3)", "-3", "(0 - 3)", "t"])
def test_a_negative_divisor_of_mod_is_refused(divisor: str) -> None:
    """Of 1 mod -3 XLA makes 1, Python -2."""
    with pytest.raises(ParseError, match="needs a positive divisor"):
        IndexingMap.parse(f"(d0) -> (d0 mod {divisor}), domain: d0 in [0, 9] where t = 0 - 3")


def test_a_negative_divisor_of_a_quotient_is_pythons() -> None:
    m = IndexingMap.parse("(d0) -> (d0 / (-3), d0 floordiv (-3)), domain: d0 in [0, 9]")
    assert [m.evaluate((n,)) for n in range(10)] == [(n // -3, n // -3) for n in range(10)]


def test_what_operators_make_can_be_read_again() -> None:
    m = IndexingMap([Variable(Interval(0, 9))], results=(Dim(0) % -3,))
    assert IndexingMap.parse(str(m)) == m
