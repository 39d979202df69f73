"""What the package changes of the process that uses it: nothing but its own child processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from docs.house import FILES, name_of, tree_of

CHANGING: Final = {
    "atexit": {"register", "unregister"},
    "ctypes": {"CDLL", "PyDLL", "cdll", "pythonapi"},
    "faulthandler": {"enable", "disable", "register", "dump_traceback_later"},
    "gc": {"callbacks", "collect", "disable", "enable", "freeze", "set_debug", "set_threshold"},
    "locale": {"setlocale"},
    "logging": {"basicConfig", "disable", "setLoggerClass"},
    "multiprocessing": {"set_start_method"},
    "numpy": {"seterr", "seterrcall", "set_printoptions", "setbufsize"},
    "os": {
        "chdir", "chroot", "close_range", "dup2", "environ", "fork", "nice", "putenv",
        "sched_setaffinity", "setpgid", "setpgrp", "setpriority", "setsid", "umask", "unsetenv",
    },
    "random": {"seed", "setstate"},
    "resource": {"prlimit", "setrlimit"},
    "signal": {
        "alarm", "pthread_sigmask", "set_wakeup_fd", "setitimer", "siginterrupt", "signal",
    },
    "socket": {"setdefaulttimeout"},
    "sys": {
        "_getframe", "addaudithook", "getrefcount", "monitoring", "set_asyncgen_hooks",
        "set_coroutine_origin_tracking_depth", "set_int_max_str_digits", "setdlopenflags",
        "setprofile", "setrecursionlimit", "setswitchinterval", "settrace",
    },
    "threading": {"setprofile", "settrace", "stack_size"},
    "tracemalloc": {"start", "stop"},
    "warnings": {"catch_warnings", "filterwarnings", "resetwarnings", "simplefilter"},
}  # fmt: skip
"""Names that change something for all of a process, or look behind Python, by module."""
ALIASES: Final = {"np": "numpy", "_signal": "signal"}
READ: Final = {"os.environ"}
"""What may be read; a change of it is an assignment."""


def changes(tree: ast.AST, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield each name that changes the process, with the function or class that uses it."""
    for node in ast.iter_child_nodes(tree):
        here = within
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            here = f"{within}.{node.name}".lstrip(".")
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            name = dotted(target.value if isinstance(target, ast.Subscript) else target)
            if name.partition(".")[0] in {"sys", "os", "builtins"} and "." in name:
                yield here, f"{name} ="
        if isinstance(node, ast.ImportFrom) and node.module in CHANGING:
            for alias in node.names:
                if alias.name in CHANGING[node.module]:
                    yield here, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            name = dotted(node)
            module, _, last = name.rpartition(".")
            if last in CHANGING.get(module, ()) and name not in READ:
                yield here, name
        yield from changes(node, here)


def dotted(node: ast.AST) -> str:
    """`os.environ` of the attribute; empty if it is not one of a plain name."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{ALIASES.get(node.value.id, node.value.id)}.{node.attr}"
    return ""


EXPECTED: Final = {
    # The child processes that answer what may take for ever, and the workers of scans.
    "hloscope.support.system forked": {"gc.freeze", "os.fork", "signal.signal",
                                        "signal.pthread_sigmask",
                                        "warnings.catch_warnings", "warnings.simplefilter"},
    "hloscope.support.system interrupts_blocked": {"signal.pthread_sigmask"},
    "hloscope.support.system begin_worker": {"signal.signal"},
    "hloscope.support.system end_with_parent": {"ctypes.CDLL"},
    "hloscope.support.system _limit_memory": {"resource.setrlimit"},
    "hloscope.proof.allowance _serve": {"os.dup2"},  # isl prints its errors
    "hloscope.checks.scan.running _serve": {"os.setpgid"},  # it is killed with its children
}  # fmt: skip
"""What changes a process, by the function that does it.  All but the start runs in a child."""
COMMAND: Final = "hloscope.cli"
"""The room of the command, whose process is its own."""


@pytest.mark.slow
def test_a_call_of_the_library_changes_nothing_of_the_process() -> None:
    found: dict[str, set[str]] = {}
    for path in FILES:
        for within, name in changes(tree_of(path)):
            module = name_of(path)
            if module != COMMAND and not module.startswith(f"{COMMAND}."):
                found.setdefault(f"{module} {within}", set()).add(name)
    assert found == EXPECTED


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("import gc\ngc.freeze()", "gc.freeze"),
        ("from sys import setrecursionlimit as most", "sys.setrecursionlimit"),
        ("def f():\n    count = sys.getrefcount", "sys.getrefcount"),
        ("os.environ['A'] = 'b'", "os.environ ="),
        ("del os.environ['A']", "os.environ ="),
        ("sys.stdout = None", "sys.stdout ="),
        ("np.seterr(all='ignore')", "numpy.seterr"),
        ("class A:\n    def f(self): signal.signal(2, None)", "signal.signal"),
    ],
)
def test_a_change_is_found(text: str, change: str) -> None:
    assert change in {name for _, name in changes(ast.parse(text))}


@pytest.mark.parametrize("text", ["os.environ.get('A')", "sys.stdout.write('a')", "x.freeze()"])
def test_what_only_reads_is_no_change(text: str) -> None:
    assert not [*changes(ast.parse(text))]
