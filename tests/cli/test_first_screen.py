"""`hloscope` alone answers with questions and commands, `--help` with groups; both in colour."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from hloscope.cli.app import COMMANDS, GROUPS, QUESTIONS
from tests.cli.conftest import Run
from tests.cli.test_terminal import at_terminal

ESCAPE = "\x1b["

ASKED = {
    "a step is slow": ("slow", "cost"),
    "the program runs out of memory": ("memory", "memory"),
    "a kernel's accesses are uncoalesced": ("uncoalesced", "coalesce"),
    "two dumps differ": ("changed", "diff"),
    "two programs return the same values": ("same values", "equal"),
    "a fusion reads some elements": ("which elements", "index"),
    "a program is invalid": ("violation", "verify"),
    "an older StableHLO must read an artifact": ("versions can read", "doctor"),
    "a program is to be executed": ("results", "run"),
    "a transpose is undone by another": ("cancel", "cancel"),
    "a fusion needs better tile sizes": ("tile sizes", "tile"),
    "CI must notice a regression": ("for CI", "check"),
}
"""What a new user comes with: words that they look for, and the command that answers."""


def test_without_arguments_the_questions_and_their_commands_are_printed(run: Run) -> None:
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert len(QUESTIONS) == 6
    for question, commands in QUESTIONS.items():
        assert question in lines
        assert all(any(line.startswith(f"  hloscope {c}  ") for line in lines) for c in commands)
    assert max(map(len, lines)) <= 90
    assert len(lines) <= 24


def test_every_command_of_the_first_screen_exists_and_takes_these_options(run: Run) -> None:
    for commands in QUESTIONS.values():
        for words in commands:
            name, *rest = words.split()
            text = run(name, "--help").stdout
            assert all(word in text for word in rest if word.startswith("-")), words


def test_the_help_lists_every_command_once_under_its_group(run: Run) -> None:
    text = run("--help").stdout
    text = text[text.index("Look at a program:") - 1 :]
    listed = [title for title in GROUPS if f"\n{title}:\n" in text]
    assert listed == list(GROUPS)
    assert re.findall(r"^  ([a-z]+) ", text, re.MULTILINE) == list(COMMANDS)
    columns = {len(line) - len(line.split(maxsplit=1)[1]) for line in text.splitlines()
               if line.split(maxsplit=1)[:1] and line.split()[0] in COMMANDS}  # fmt: skip
    assert len(columns) == 1


@pytest.mark.parametrize(("words", "command"), ASKED.values(), ids=list(ASKED))
def test_the_words_of_a_question_lead_to_its_command(run: Run, words: str, command: str) -> None:
    """A question of the first screen, or a command's entry of `--help`, has words and command."""
    questions = re.split(r"\n(?=\S)", run().stdout)
    entries = re.split(r"\n(?=  [a-z]+ )", run("--help").stdout)
    found = [text for text in (*questions, *entries) if words in " ".join(text.split())]
    assert any(re.search(rf"  (hloscope )?{command} ", text) for text in found)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("arguments", [[], ["--help"], ["ls", "--help"], ["help", "ls"]])
def test_a_terminal_gets_colour_and_a_pipe_gets_none(run: Run, arguments: list[str]) -> None:
    code, shown, errors = at_terminal(*arguments)
    plain = run(*arguments).stdout
    assert (code, errors) == (0, "")
    assert ESCAPE in shown
    assert ESCAPE not in plain
    assert click.unstyle(shown).split() == plain.split()


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize(
    ("options", "no_color", "term"),
    [(["--color", "never"], "", "xterm"), ([], "1", "xterm"), ([], "", "dumb")],
    ids=["never", "NO_COLOR", "dumb"],
)
def test_colour_can_be_turned_off(options: list[str], no_color: str, term: str) -> None:
    for rest in ([], ["--help"], ["ls", "examples/softmax.hlo"]):
        code, shown, _ = at_terminal(*options, *rest, NO_COLOR=no_color, TERM=term)
        assert code == 0
        assert ESCAPE not in shown


def test_an_empty_no_color_is_unset_and_always_wins() -> None:
    assert ESCAPE in at_terminal(NO_COLOR="")[1]
    assert ESCAPE in at_terminal("--color", "always", NO_COLOR="1")[1]


def test_always_colours_a_pipe_before_and_after_the_name_of_the_command(run: Run) -> None:
    for arguments in (["--color", "always", "ls", "--help"], ["ls", "--color", "always", "--help"]):
        assert ESCAPE in run(*arguments).stdout


def test_errors_have_a_coloured_label(run: Run) -> None:
    result = run("--color", "always", "ls", "no_such_file")
    assert result.exit_code == 3
    assert result.stderr == f"{ESCAPE}31m{ESCAPE}1merror:{ESCAPE}0m no file `no_such_file`\n"
    assert run("ls", "no_such_file").stderr == "error: no file `no_such_file`\n"


def test_titles_of_a_table_are_bold_and_names_in_it_command_no_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "names.hlo"
    path.write_text(
        'ENTRY e { ROOT p0 = f32[8] parameter(0), metadata={op_name="a\x1b[31mred"} }\n'
    )
    code, shown, _ = at_terminal("ls", str(path))
    assert code == 0
    title, *rows = shown.splitlines()
    assert title.startswith(f"{ESCAPE}1minstruction")
    assert title.endswith(f"{ESCAPE}0m")
    assert ESCAPE not in "".join(rows)


def test_an_unknown_choice_of_colour_is_an_error_of_usage(run: Run) -> None:
    result = run("--color", "sometimes")
    assert result.exit_code == 2
    assert "'auto', 'always', 'never'" in result.stderr
