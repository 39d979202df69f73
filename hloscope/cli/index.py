"""`index`: the elements that an instruction reads, or that depend on it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from hloscope import api as proofs
from hloscope.api import (
    Convention,
    Indexing,
    IndexQuestion,
    InstructionView,
    Program,
    index_lines,
    with_operands,
)
from hloscope.cli.files import complete_instructions, is_file, is_folder, read_program
from hloscope.cli.printing import (
    Bytes,
    command,
    complete_files,
    debug_option,
    file_argument,
    print_json,
)
from hloscope.cli.streams import print_long, with_progress
from hloscope.errors import NoFunctionError, VerifyError
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import hloscope.cli.corpus as corpus
    from hloscope.api import Prover, Tally
    from hloscope.display import Index
else:
    corpus = lazy("hloscope.cli.corpus")

Answering: TypeAlias = Callable[[InstructionView], Indexing]
DISAGREES: Final = 5
UNDECIDED: Final = 4
INDENTED: Final = 1 << 14
"""Maximum number of pairs of an output and an operand whose JSON is indented."""
FORMATS: Final = ("text", "print_indexing", "json", "latex", "html", "svg")


def _element(_: click.Context, __: click.Parameter, value: str | None) -> Index | None:
    """Parse the index of `--at 3,7,12`; `None` if the option is absent."""
    if value is None:
        return None
    numbers = value.strip(" ()[]")
    if not re.fullmatch(r"(-?\d{1,19}(\s*,\s*-?\d{1,19})*)?", numbers):
        raise click.BadParameter(f"`{value}` is not a list of integers such as 3,7,12")
    return tuple(int(n) for n in numbers.split(",") if n)


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@click.argument("more", metavar="[FILE]...", nargs=-1, shell_complete=complete_files)
@click.option("--output", metavar="I", type=click.IntRange(0), help="Only this output.")
@click.option("--operand", metavar="K", type=click.IntRange(0), help="Only this operand.")
@click.option(
    "--from-operand",
    metavar="K",
    type=click.IntRange(0),
    help="Input to output: print the output elements that use an element of this operand.",
)
@click.option(
    "--to-parameters",
    is_flag=True,
    help="Follow reads up to the parameters of NAME's computation.",
)
@click.option("--physical", is_flag=True, help="Print indices in memory order, by the layouts.")
@click.option("--linear", is_flag=True, help="Print positions in memory, counted in elements.")
@click.option(
    "--convention",
    type=click.Choice(("structural", "xla")),
    default="structural",
    help="What reductions read: the inputs that their bodies use, or all inputs, as in XLA.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Prove each map against the program; exit with 5 if one is wrong.",
)
@click.option(
    "--by-execution",
    is_flag=True,
    help="With --verify: also execute NAME, or a smaller copy of it, to find what it reads.",
)
@click.option(
    "--evidence-dir",
    metavar="DIR",
    help="With --by-execution: write programs and inputs that refute maps to this folder.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    help="With --verify: seed of the sampled elements.",
)
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(0, min_open=True),
    help="With --verify: CPU seconds of all proofs; by default more for larger programs.",
)
@click.option("--strict", is_flag=True, help="With --verify: exit with 4 if a proof is undecided.")
@click.option(
    "--all", "everything", is_flag=True, help="Answer every instruction, one line of JSON for each."
)
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1, 1024),
    help="With --all: number of processes; by default one per processor.",
)  # fmt: skip
@click.option(
    "--cache", metavar="DIR", help="With --all: keep answers in this folder for the next run."
)
@click.option(
    "--cache-size", metavar="SIZE", type=Bytes(), default="1G", show_default=True,
    help="Maximum size of the cache; least recently used entries are deleted.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Output format.")
@click.option(
    "--at",
    metavar="I,J,..",
    callback=_element,
    help="List the elements that this output element reads, or draw them.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@debug_option
def index(
    file: str,
    name: str | None,
    more: tuple[str, ...],
    output: int | None,
    operand: int | None,
    from_operand: int | None,
    to_parameters: bool,
    physical: bool,
    linear: bool,
    convention: Convention,
    verify: bool,
    by_execution: bool,
    evidence_dir: str | None,
    seed: int,
    seconds: float | None,
    strict: bool,
    everything: bool,
    jobs: int | None,
    cache: str | None,
    cache_size: int,
    form: str,
    at: Index | None,
    as_json: bool,
) -> None:
    """Print which elements of its operands each element of NAME in FILE reads.

    NAME is an instruction; by default, the one that computes the entry's result, past tuples,
    returns and bitcasts.  Write it as `computation/instruction` for another computation.  In NAME,
    * matches any text and ? any character, and every match is answered.

    --all takes several files, and directories of dumps.  A file that cannot be read is reported,
    and the others are answered; the exit code is the largest of all files.
    """
    form = "json" if as_json else form
    ctx = click.get_current_context()
    _check_usage({**ctx.params, "form": form})

    question = IndexQuestion(
        output, operand, from_operand, to_parameters, physical, linear, convention
    )
    files = [file, *([] if name is None else [name]), *more]
    is_corpus = len(files) > 1 or jobs or cache is not None or is_folder(file)
    if everything and not verify and is_corpus:
        corpus.print_corpus(files, question, jobs, cache, cache_size)
        return
    try:
        program = read_program(file).by_convention(convention)
        is_chosen = any(one is not None for one in (output, operand, from_operand))
        is_about_all = not (is_chosen or to_parameters)
        subject = None if name is not None or everything else _subject(program, is_about_all)
    except NoFunctionError:
        if name is not None:
            raise
        click.echo(f"no function in {file}", err=True)
        return
    answer: Answering = question.ask
    tally: Tally | None = None
    if verify:
        tally = proofs.Tally(evidence_dir)
        prover = proofs.prover_of(
            program, seconds, convention=convention, seed=seed, by_execution=by_execution
        )
        answer = _proving(question.ask, prover, tally)
    is_valid = True
    if everything:
        is_valid = _print_all(program, answer)
    else:
        views = [subject] if subject is not None else program.like(name or "")
        if len(views) > 1 and form in ("html", "svg"):
            raise click.UsageError(f"`{name}` names {len(views)} instructions; a picture shows one")
        _print_answers(views, answer, form, at)
    if tally is not None:
        _end(tally, prover, summary=everything, strict=strict)
    if not is_valid:
        ctx.exit(VerifyError.exit_code)


def _subject(program: Program, is_about_all: bool) -> InstructionView:
    """Return the instruction for a query without NAME.

    A note is printed if it is not the root.

    Args:
        program: The program.
        is_about_all: If true, take the instruction that computes the entry's result. Otherwise the
            query names outputs, operands or parameters, and the root is taken.
    """
    root = program.root
    found = program.result if is_about_all else root
    if found.ir is not root.ir:
        passes = f"the root `{root.name}` computes nothing"
        click.echo(f"about `{found.name}`: {passes}; NAME asks about another", err=True)
    return found


def _proving(answer_without_proof: Answering, prover: Prover, tally: Tally) -> Answering:
    """Return a function that proves the maps of a result and counts the proofs.

    It prints a message on the standard error for each refuted map.

    Args:
        answer_without_proof: Returns a result for an instruction.
        prover: The prover of the program.
        tally: Counts the proofs.
    """

    def answer(view: InstructionView) -> Indexing:
        found = answer_without_proof(view).prove(prover=prover)
        for line in tally.add(found):
            click.echo(line, err=True)
        return found

    return answer


def _end(tally: Tally, prover: Prover, *, summary: bool, strict: bool) -> None:
    """Print the number of proofs if requested, and exit if one is refuted or undecided.

    Args:
        tally: The counted proofs.
        prover: The prover, which knows whether its time is used up.
        summary: Print the number of proofs by outcome.
        strict: Exit also if a proof is undecided.
    """
    if summary:
        click.echo(tally.summary, err=True)
    if prover.allowance.is_spent and tally.lacks_time:
        click.echo(f"{prover.allowance.reason}; --seconds gives them more", err=True)
    ctx = click.get_current_context()
    if tally.is_refuted:
        ctx.exit(DISAGREES)
    if strict and tally.is_undecided:
        click.echo("some maps are undecided", err=True)
        ctx.exit(UNDECIDED)


def _print_answers(
    views: list[InstructionView], answer: Answering, form: str, at: Index | None
) -> None:
    """Print the results for some instructions; the JSON of several is one object per line.

    Args:
        views: The instructions.
        answer: Returns the result for an instruction.
        form: Format of the output, such as `text`, `json` or `svg`.
        at: Index of the element that the output is about; `None` for the maps.
    """
    texts: list[str] = []
    for view in views:
        found = answer(view)
        if form == "json":
            _print_json(_json(found, at), compact=len(views) > 1)
        else:
            texts.append(_formatted(found, form, at))
    if form in ("html", "svg"):
        click.echo(texts[0], nl=False)
    elif texts:
        print_long("\n\n".join(texts))


def _print_json(value: dict[str, Any], *, compact: bool) -> None:
    """Print one result as JSON: indented, or on one line if `compact` is true.

    A result with more than `INDENTED` pairs of an output and an operand is always on one line.
    """
    told = sum([len(output.get("operands", ())) for output in value.get("outputs", ())])
    print_json(value, compact=compact or told > INDENTED)


def _json(found: Indexing, at: Index | None) -> dict[str, Any]:
    try:
        return found.to_json() if at is None else found.elements_json(at)
    except ValueError as error:  # --at names no element
        raise click.UsageError(str(error)) from None


_WRONG: Final = (
    ("operand", "from_operand", False,
     "--operand goes with the operands read, --from-operand with outputs"),
    ("to_parameters", "from_operand", False,
     "--to-parameters and --from-operand are opposite directions"),
    ("at", "text json html svg", True,
     "--at lists elements as text or JSON, or says what svg and html draw"),
    ("at", "verify", False, "--at lists elements, --verify proves maps"),
    ("at", "everything", False,
     "--at is about an element of one instruction, --all about all of them"),
    ("strict", "verify", True, "--strict says what --verify does with what is undecided"),
    ("seconds", "verify", True, "--seconds is what the proofs of --verify may take"),
    ("by_execution", "verify", True, "--by-execution says how --verify proves"),
    ("evidence_dir", "by_execution", True, "--evidence-dir keeps what --by-execution refutes"),
    ("verify", "text json", True, "--verify prints proofs as text or JSON"),
    ("everything", "text json", True, "--all prints JSON lines for the whole program"),
    ("everything", "instruction", False,
     "--all prints JSON lines for whole programs, but NAME is not a file"),
    ("more", "everything", True, "several files are for --all"),
    ("jobs", "everything", True, "--jobs and --cache are for --all"),
    ("cache", "everything", True, "--jobs and --cache are for --all"),
    ("empty_cache", "", True, "--cache names a directory"),
    ("verify_all", "name jobs cache", False,
     "--verify proves the answers about one file, in one process"),
)  # fmt: skip
"""Options that exclude each other, or need each other.

Each row has an option, other options or formats, whether one of these is needed (else none is
allowed), and the message if that is violated.
"""


def _check_usage(given: dict[str, Any]) -> None:
    """Raise `click.UsageError` for options that exclude each other.

    `given` are the arguments of the command by name.
    """
    name, is_all = given["name"], given["everything"]
    # 0 is a number of an operand: only `None`, `False` and no files mean that nothing was given.
    has = {key for key, value in given.items() if value not in (None, ()) and value is not False}
    has.add(given["form"])
    if is_all and name is not None and not given["more"] and not is_file(name):
        has.add("instruction")  # the argument after FILE is not another file
    if given["cache"] == "":
        has.add("empty_cache")
    if is_all and given["verify"]:
        has.add("verify_all")
    for option, others, is_needed, message in _WRONG:
        if option in has and has.isdisjoint(others.split()) is is_needed:
            raise click.UsageError(message)


def _formatted(found: Indexing, form: str, at: Index | None) -> str:
    """Return a result as text in format `form`.

    `at` is the index of the element that it is about; `None` for the maps.
    """
    try:
        match form:
            case "print_indexing":
                return found.to_print_indexing()
            case "latex":
                return found.to_latex()
            case "svg":
                return found.to_svg(at)
            case "html":
                return found.to_html(at)
            case _:
                return str(found) if at is None else found.to_elements(at)
    except ValueError as error:  # --at names no element
        if at is None:
            raise
        raise click.UsageError(str(error)) from None


def _print_all(program: Program, answer: Answering) -> bool:
    """Print one line of JSON for every instruction that has operands, also inside fusions.

    `answer` returns the result for an instruction.

    Returns:
        False if instructions are invalid. Their findings are printed, and all others have a line.
    """
    wrong: list[VerifyError] = []
    views = with_progress(with_operands(program), "indexing")
    for line in index_lines(views, lambda view: answer(view).to_json(), wrong.append):
        if sys.stdout is not None:  # else it was closed when the process started
            sys.stdout.write(f"{line}\n")
    for error in wrong:
        click.echo(str(error), err=True)
    return not wrong
