"""Equal expressions simplify to one text: an expression and what true laws make of it."""

import random

import pytest

from hloscope.affine import Const, Dim, Expr, FloorDiv, Interval, Mod, linear, postorder, replace
from hloscope.simplifier import Domain, simplify_exact

pytest.importorskip("islpy")
BOX = {Dim(0): Interval(0, 63), Dim(1): Interval(0, 7), Dim(2): Interval(0, 11)}
DOMAIN = Domain(BOX)


def an_index(rng: random.Random) -> Expr:
    """A digit, or a quotient, of a linear address."""
    e = linear(*[(v, rng.choice([1, 2, 3, 4, 8, 12, 64])) for v in BOX if rng.random() < 0.8])
    e = e // rng.choice([1, 2, 3, 4, 6, 8])
    return e % rng.choice([2, 3, 4, 6, 8, 12]) if rng.random() < 0.6 else e


def rewritten(e: Expr, rng: random.Random) -> Expr:
    """The same values, written with one more true law somewhere."""
    places = [x for x in postorder(e) if isinstance(x, Mod | FloorDiv)]
    if not places:
        return e
    x = rng.choice(places)
    if not isinstance(x.den, Const):
        return e
    y, c, k = x.num, x.den.value, rng.choice([2, 3, 4])
    new: Expr
    if isinstance(x, Mod):
        new = rng.choice([y - y // c * c, y % (c * k) % c, (y + c * k) % c, y * k % (c * k) // k])
    else:
        new = rng.choice([(y * k + k - 1) // (c * k), (y + c * k) // c - k])
        if y._divisions == 0:
            new = rng.choice([new, (y // (c * k)) * k + y % (c * k) // c])
    return replace(e, {x: new})


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize(("exact", "number", "share"), [(False, 400, 0.94), (True, 60, 0.95)])
def test_equal_expressions_get_one_text(exact, number, share, full):
    rng = random.Random(5)
    number *= 5 if full else 1
    same = 0
    for _ in range(number):
        e = an_index(rng)
        other = rewritten(rewritten(e, rng), rng)
        forms = [simplify_exact(x, DOMAIN) if exact else DOMAIN.simplify(x) for x in (e, other)]
        same += forms[0] is forms[1]
    print(f"{same} of {number}")
    assert same >= share * number
