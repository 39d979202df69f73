"""Traversals of graphs and trees of any depth, without recursion.

The edges are a function from a node to other nodes. Nodes are compared by equality and hash, which
is identity for the nodes of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

__all__ = ["nearest_first", "needed_first", "nested", "reached", "without_recursion"]

N = TypeVar("N")
R = TypeVar("R")


def reached(roots: Iterable[N], successors: Callable[[N], Iterable[N]]) -> dict[N, None]:
    """Return the roots and all nodes reachable from them, each once, in depth-first order.

    `successors` returns the nodes to which edges lead from a node.

    >>> list(reached([12], lambda n: [n // 2, n // 3] if n else []))
    [12, 4, 1, 0, 2, 6, 3]
    """
    found: dict[N, None] = {}
    todo = [*roots]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += successors(node)
    return found


def nearest_first(roots: Iterable[N], successors: Callable[[N], Iterable[N]]) -> Iterator[N]:
    """Yield the roots and all nodes reachable from them, each once, in breadth-first order.

    `successors` returns the nodes to which edges lead from a node.

    >>> list(nearest_first([12], lambda n: [n // 2, n // 3] if n else []))
    [12, 6, 4, 3, 2, 1, 0]
    """
    found = dict.fromkeys(roots)
    order = [*found]
    for node in order:
        yield node
        for other in successors(node):
            if other not in found:
                found[other] = None
                order.append(other)


def nested(roots: Iterable[N], parts: Callable[[N], Sequence[N]]) -> Iterator[N]:
    """Yield the roots and all nodes below them in preorder; a shared node is repeated.

    `parts` returns the nodes directly below a node, in order.

    >>> list(nested([(1, (2, 3))], lambda x: x if isinstance(x, tuple) else ()))
    [(1, (2, 3)), 1, (2, 3), 2, 3]
    """
    stack = [iter(roots)]
    while stack:
        for node in stack[-1]:
            yield node
            if inside := parts(node):
                stack.append(iter(inside))
                break
        else:
            stack.pop()


def needed_first(
    roots: Iterable[N], needs: Callable[[N], Sequence[N]], known: Container[N] = ()
) -> Iterator[N]:
    """Yield the roots and all nodes that they need, each node once and after those it needs.

    In a cycle, the node that is reached first comes last.

    Args:
        roots: The first nodes, in order.
        needs: Returns the nodes that a node needs, in order.
        known: Nodes to leave out, together with nodes that only they need.

    >>> list(needed_first([12], lambda n: [n // 2, n // 3] if n else []))
    [0, 1, 3, 2, 6, 4, 12]
    """
    opened: set[N] = set()
    todo = [(node, False) for node in roots]
    todo.reverse()
    while todo:
        node, is_open = todo.pop()
        # The second visit of a node comes after everything pushed at its first visit, so all that
        # it needs has been yielded.
        if is_open:
            yield node
        elif node not in opened and node not in known:
            opened.add(node)
            todo.append((node, True))
            todo += [(other, False) for other in reversed(needs(node))]


def without_recursion(generator: Generator[Any, Any, R]) -> R:
    """Return the result of a recursive generator function; the recursion may have any depth.

    Instead of a recursive call, a generator yields the generator of the call, and receives its
    result.

    >>> def depth(n):
    ...     return 1 + (yield depth(n - 1)) if n else 0
    >>> without_recursion(depth(10_000))
    10000
    """
    stack: list[Generator[Any, Any, Any]] = [generator]
    result: Any = None
    while stack:
        try:
            needed = stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
        else:
            stack.append(needed)
            result = None
    found: R = result
    return found
