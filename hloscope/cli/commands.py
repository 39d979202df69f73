"""The groups of commands in `--help`, and the questions of the first screen.

`hloscope` alone prints `first_screen`; `hloscope --help` lists `GROUPS`.  Both come from the
tables here and load no command.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.cli.colour import styled_heading, styled_name


class Entry(NamedTuple):
    """A command: its module in `hloscope.cli`, loaded when the command is used, and one line."""

    module: str
    about: str


GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Look at a program": {
        "ls": Entry("ls", "List instructions, fusions or computations, or the dumps of a folder."),
        "show": Entry("show", "Print an instruction, what it calls, and its neighbours."),
        "print": Entry("print", "Print a program as XLA or MLIR prints it."),
        "index": Entry("index", "Print which elements of its operands an instruction reads."),
        "html": Entry("html", "Write a page with a program's graph, cost, memory and maps."),
    },
    "Cost: time, memory, data movement": {
        "cost": Entry("cost", "List what takes a step's time, bytes and flops; read profiles."),
        "memory": Entry("memory", "List the buffers at the memory peak, and what lowers it."),
        "coalesce": Entry(
            "coalesce", "Count sectors that warps transfer; find uncoalesced access."
        ),
        "footprint": Entry("footprint", "Count the bytes that kernels must read and write."),
        "tile": Entry("tile", "List tile sizes of a fusion, what they read, and the best ones."),
        "cancel": Entry("cancel", "Find reshapes, transposes and copies that cancel or are free."),
        "ptx": Entry("ptx", "Execute a kernel's PTX without a GPU and count its transfers."),
        "banks": Entry("banks", "Find bank conflicts of accesses to shared memory."),
    },
    "Check a program": {
        "verify": Entry("verify", "Check that programs are valid; print every violation."),
        "infer": Entry("infer", "Print the result types of every op, inferred from its operands."),
        "run": Entry("run", "Run a program and print, check or compare its results."),
        "check": Entry("check", "Check programs by rules, for CI."),
    },
    "Change a program": {
        "opt": Entry("opt", "Run passes: StableHLO's by their names, or constant folding."),
        "refine": Entry("refine", "Replace unknown sizes of a program by given ones."),
    },
    "Compare two programs": {
        "diff": Entry("diff", "List what changed between two programs, by structure."),
        "equal": Entry("equal", "Prove that two programs or maps read the same; compare values."),
    },
    "Portable artifacts of StableHLO": {
        "serialize": Entry("serialize", "Write a program as an artifact of a StableHLO version."),
        "deserialize": Entry("artifacts", "Print the program of an artifact."),
        "doctor": Entry("artifacts", "Print which versions can read an artifact, and what blocks."),
    },
    "Many programs": {
        "scan": Entry("scan", "Write the facts of many programs into tables."),
        "query": Entry("query", "Query the tables that scan wrote."),
    },
    "Indexing maps as text": {
        "simplify": Entry("maps", "Simplify an indexing map."),
        "compose": Entry("maps", "Compose two indexing maps."),
    },
    "About hloscope": {
        "ops": Entry("ops", "List the supported ops, and how exact their maps are."),
        "schema": Entry("schema", "Print the JSON Schema of what --json prints."),
        "help": Entry("help", "Explain a command; or all commands, as JSON or a manual page."),
    },
}
"""The commands under the headings of `--help`, in that order."""

COMMANDS: Final[dict[str, Entry]] = {
    name: entry for group in GROUPS.values() for name, entry in group.items()
}
"""All commands by name, in the order of `GROUPS`."""

QUESTIONS: Final[dict[str, dict[str, str]]] = {
    "Which part of a step is slow?": {
        "cost FILE": "kernels by their least time, bytes and source line",
        "coalesce FILE": "GPU accesses that transfer unused bytes, and why",
    },
    "What fills the memory?": {
        "memory FILE": "the buffers at the peak, and what lowers it",
    },
    "What changed? Is it still the same?": {
        "diff A B": "changed instructions, constants and types",
        "equal A B --values": "do both programs return the same values?",
    },
    "Which elements does an instruction read?": {
        "ls FILE": "the names of the instructions",
        "index FILE NAME": "an exact map from output to input indices",
    },
    "Is a program valid? What does it compute?": {
        "verify FILE": "every violation, with its line and rule",
        "run FILE --random 0": "the results for random arguments",
    },
    "Which versions of StableHLO can read an artifact?": {
        "doctor FILE": "the oldest version, and the ops that block older ones",
        "serialize FILE -o OUT": "an artifact for --target VERSION",
    },
}
"""The questions of the first screen; for each the commands that answer it, with what they print."""

ABOUT: Final = "hloscope answers questions about compiled tensor programs, from their text."
FILES: Final = "FILE is HLO or StableHLO text, an artifact, or a dump folder of XLA; - is stdin."


def first_screen() -> str:
    """Text of the first screen, with terminal styles."""
    width = max(len(words) for commands in QUESTIONS.values() for words in commands)
    lines = [ABOUT, FILES, ""]
    for question, commands in QUESTIONS.items():
        lines.append(styled_heading(question))
        for words, about in commands.items():
            lines.append(
                f"  {styled_name('hloscope ' + words)}{' ' * (width - len(words))}  {about}"
            )
    page, every, one = map(styled_name, ("html FILE -o page.html", "--help", "COMMAND --help"))
    lines += [
        "",
        f"hloscope {page} shows all of it in a browser.",
        f"hloscope {every} lists all commands, hloscope {one} explains one.",
    ]
    return "\n".join(lines)
