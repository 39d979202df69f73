"""Rules of checks, the program that they check, and their findings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, TypeAlias

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from hloscope.cost import Place, ProgramCost, program_cost, running
from hloscope.display import Provenance, provenance_of, share_text
from hloscope.errors import InputError, did_you_mean
from hloscope.fusion import Analysis, leaf_types
from hloscope.ir import Computation, Instruction, Module, TensorType, Type, size_text
from hloscope.memory import Memory
from hloscope.ops import AsyncStart, Call, Case, Parameter as Argument, While
from hloscope.support.devices import DEFAULT, gpu_of
from hloscope.support.lazy import pattern
from hloscope.support.walks import nearest_first

# --------------------------------------------------------------------------------------------------
# Findings of checks: their place, severity, and identity across compilations.


SCHEMA: Final = "hloscope.check/1"
SEVERITIES: Final = ("error", "warning", "note")
UNREAD: Final = "unread"
"""Rule name of findings about programs that cannot be read."""
_NUMBER: Final = pattern(r"\d+")
_SUFFIX: Final = pattern(r"(\.\d+|\.remat\d*|\.clone)+$")


class Finding(Struct, frozen=True):
    """A violation of a rule, at one instruction or in a whole program.

    Attributes:
        rule: Name of the rule.
        message: Text with what was found and what was expected.
        file: Name of the program.
        instruction: Name of the instruction; empty if the finding is about the whole program.
        computation: Name of its computation.
        line: Line in the program, counted from 1; 0 if unknown.
        op_name: The framework's path of the op; may be empty.
        source: `file:line` of the program that was compiled; may be empty.
        value: Amount of the violation, over all runs; larger is worse.
        severity: `error`, `warning` or `note`.
        cause: Key that findings of one cause share, in addition to the source line.
        runs: How often the instruction runs.
        share: `value` over the bytes that one step moves; `None` if the value is not in bytes.
    """

    rule: str
    message: str
    file: str
    instruction: str = ""
    computation: str = ""
    line: int = 0
    op_name: str = ""
    source: str = ""
    value: float = 0
    severity: str = "error"
    cause: str = ""
    runs: int = 1
    share: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Return the rule, program and origin; they stay equal when the program is compiled again.

        The origin is the source line, else the op name with numbers replaced (they number layers),
        else the instruction's name without its suffix.
        """
        name = self.file.replace("\\", "/").rpartition("/")[2]
        if self.source:
            return self.rule, name, "", self.source
        origin = _NUMBER.sub("N", self.op_name) or _SUFFIX.sub("", self.instruction)
        return self.rule, name, origin, ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON, as in schema `hloscope.check/1`."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "instruction": self.instruction or None,
            "computation": self.computation or None,
            "line": self.line or None,
            "op_name": self.op_name or None,
            "source": self.source or None,
            "value": self.value,
            "runs": self.runs,
            "share": self.share,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Finding:
        """Return the finding whose `to_json` is `given`.

        Raises:
            InputError: The object does not describe a finding.
        """
        try:
            known = {key: value for key, value in given.items() if value is not None}
            return convert(known, cls, strict=False)
        except (ValidationError, AttributeError):
            raise InputError(
                f"a finding of {SCHEMA} was expected, found {str(given)[:80]}"
            ) from None


class FindingGroup(Struct, frozen=True):
    """Findings with the same rule, severity, source line and cause.

    Attributes:
        members: The findings, largest value first.
    """

    members: tuple[Finding, ...]

    @property
    def value(self) -> float:
        """Return the sum of the members' values."""
        return sum([finding.value for finding in self.members])

    @property
    def share(self) -> float | None:
        """Return the sum of the members' shares of the step; `None` if none has a share."""
        shares = [f.share for f in self.members if f.share is not None]
        return sum(shares) if shares else None

    @property
    def headline(self) -> Finding:
        """Return the first member of the group, with a message and values for all members.

        The message states the number of members, how often their instructions run, and the sum of
        their values with its share of the step.
        """
        first = self.members[0]
        message, more = first.message, len(self.members) - 1
        if more:
            message = f"and {more:,} more: {message}"
        runs = sum([finding.runs for finding in self.members])
        if runs != len(self.members):
            message += f"; {runs:,} runs"
        if self.share is not None:
            total = f"{size_text(self.value)} in all, " if more or runs > 1 else ""
            message += f"; {total}{share_text(self.share)} of the step"
        return replace(first, message=message, value=self.value, share=self.share, runs=runs)

    def to_json(self) -> dict[str, Any]:
        """Return the group as JSON, as in schema `hloscope.check/1`."""
        return {**self.headline.to_json(), "members": [f.instruction for f in self.members]}


class Report(Struct, frozen=True):
    """The findings of a check, with the programs and rules that were checked.

    Attributes:
        findings: The findings, in the order of files, rules and lines.
        rules: Names of the rules that ran, in order.
        files: The programs.
        known: Number of findings left out because the baseline has them.
        small: Number of findings left out because their groups are a small share of the step.
    """

    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    files: tuple[str, ...]
    known: int = 0
    small: int = 0

    @property
    def groups(self) -> list[FindingGroup]:
        """Return the findings in groups, in the order of files and rules, largest share first."""
        by_cause: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
        for finding in self.findings:
            cause = finding.cause or finding.message
            by_cause[finding.file, finding.severity, *finding.key, cause].append(finding)
        groups = [
            FindingGroup(tuple(sorted(members, key=lambda f: -f.value)))
            for members in by_cause.values()
        ]
        files = {file: k for k, file in enumerate(self.files)}
        rules = {rule: k for k, rule in enumerate(self.rules)}
        first = -1  # a finding without a rule, about a program that could not be read
        return sorted(
            groups,
            key=lambda g: (
                files.get(g.members[0].file, first),
                rules.get(g.members[0].rule, first),
                -(g.share or 0),
                g.members[0].line,
                -g.value,
            ),
        )

    @property
    def failed(self) -> bool:
        """Is at least one finding an error?"""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def unread(self) -> dict[str, Finding]:
        """Return the programs that could not be read, with the finding about each."""
        return {f.file: f for f in self.findings if f.rule == UNREAD}

    def to_json(self) -> dict[str, Any]:
        """Return an object of schema `hloscope.check/1`."""
        return {
            "schema": SCHEMA,
            "files": list(self.files),
            "rules": list(self.rules),
            "known": self.known,
            "small": self.small,
            "groups": [group.to_json() for group in self.groups],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def since(self, baseline: Iterable[Finding]) -> Report:
        """Return a report of the findings that are new or worse than in the baseline.

        Findings about unreadable programs always remain. Findings of one rule at one source
        position are compared in the order of their values: one more than before is new, a larger
        value is worse.

        >>> old = [Finding("copies", "", "a.hlo", "copy.1", value=8)]
        >>> new = [Finding("copies", "", "a.hlo", "copy.7", value=8),
        ...        Finding("copies", "", "a.hlo", "copy.9", value=4)]
        >>> [f.instruction for f in Report(tuple(new), ("copies",), ("a.hlo",)).since(old).findings]
        ['copy.9']
        """
        before: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for finding in baseline:
            before[finding.key].append(finding.value)
        for values in before.values():
            values.sort(reverse=True)
        now: dict[tuple[str, ...], list[Finding]] = defaultdict(list)
        for finding in self.findings:
            now[finding.key].append(finding)
        fresh = {id(finding) for finding in self.findings if finding.rule == UNREAD}
        # Members of one key cannot be matched one to one, since names change between compilations.
        # Comparing sorted values reports a finding exactly if the group grew or some rank got
        # worse.
        for key, group in now.items():
            fresh |= {id(finding) for finding in _new_or_worse(group, before.get(key, []))}
        kept = tuple([finding for finding in self.findings if id(finding) in fresh])
        known = len(self.findings) - len(kept)
        return Report(kept, self.rules, self.files, known, self.small)


def _new_or_worse(group: Sequence[Finding], before: Sequence[float]) -> list[Finding]:
    ordered = sorted(group, key=lambda finding: -finding.value)
    return [f for k, f in enumerate(ordered) if k >= len(before) or f.value > before[k]]


def baseline_of(given: Any) -> list[Finding]:
    """Return the findings of a report that was written as JSON.

    Raises:
        InputError: The object is not such a report.
    """
    if not isinstance(given, Mapping) or given.get("schema") != SCHEMA:
        found = given.get("schema") if isinstance(given, Mapping) else type(given).__name__
        raise InputError(f"a baseline is an object of schema {SCHEMA}, found {found}")
    findings = given.get("findings")
    if not isinstance(findings, list):
        raise InputError("a baseline has a list of `findings`")
    return [Finding.from_json(finding) for finding in findings]


# --------------------------------------------------------------------------------------------------
# Rules: a name, a help text, parameters, and a function.


Check: TypeAlias = Callable[..., Iterator[Finding]]

_BYTES: Final = pattern(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*(B|KiB|MiB|GiB|kB|MB|GB)?\s*", re.ASCII)
_UNITS: Final = {
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1000, "MB": 10**6, "GB": 10**9,
}  # fmt: skip


class Parameter(Struct, frozen=True):
    """A parameter of a rule.

    Attributes:
        default: The default value; `None` if the parameter is required.
        help: Description of the parameter.
        read: Function that checks and converts a value from a file or the command line.
    """

    default: Any
    help: str
    read: Callable[[Any], Any]


class Rule(Struct, frozen=True):
    """A rule of checks.

    Attributes:
        name: Name in settings and findings.
        help: The requirement in one line.
        parameters: The parameters, by the names that settings use.
        check: Function that yields the violations of a program.
        of_bytes: Do its findings count bytes, so that they have a share of the step?
    """

    name: str
    help: str
    parameters: Mapping[str, Parameter]
    check: Check
    of_bytes: bool = False

    def with_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `check`: the given parameters, and the defaults of all others.

        Raises:
            InputError: A parameter does not exist, its value does not fit, or it is missing.
        """
        values = {name: parameter.default for name, parameter in self.parameters.items()}
        rest = {}
        for name, value in given.items():
            spelled = name.replace("_", "-")
            parameter = self.parameters.get(spelled)
            if parameter is None and "*" in self.parameters:
                rest[spelled] = self._read("*", value)
            elif parameter is None:
                near = did_you_mean(spelled, self.parameters)
                raise InputError(f"rule `{self.name}` has no parameter `{name}`{near}")
            else:
                values[spelled] = self._read(spelled, value)
        for name, value in values.items():
            if value is None and name != "*":
                raise InputError(f"rule `{self.name}` needs `{name}`: {self.parameters[name].help}")
        if "*" in self.parameters:
            values["*"] = rest
        return {"others" if k == "*" else k.replace("-", "_"): v for k, v in values.items()}

    def _read(self, name: str, value: Any) -> Any:
        try:
            return self.parameters[name].read(value)
        except (ValueError, TypeError) as error:
            raise InputError(f"`{name}` of rule `{self.name}`: {error}") from None

    def run(self, subject: Subject, values: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield the violations of the rule in a program.

        `values` are the results of `with_values`.
        """
        return self.check(subject, **values)


def size(given: Any) -> int:
    """Return a number of bytes, given as an integer or as text with a unit.

    >>> size("1.5 KiB"), size(64)
    (1536, 64)

    Raises:
        ValueError: The argument is neither.
    """
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    found = _BYTES.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f'bytes such as 4096 or "1 MiB" were expected, found {given!r}')
    return int(Fraction(found[1]) * _UNITS[found[2] or "B"])


def number(given: Any) -> int:
    """Return an integer of at least 0, given as a number or as text.

    Raises:
        ValueError: The argument is not such a number.
    """
    if isinstance(given, str) and given.strip().isdecimal():
        return int(given)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"a number from 0 on was expected, found {given!r}")
    return given


def share(given: Any) -> float:
    """Return a number from 0 to 1, given as a number or as text.

    Raises:
        ValueError: The argument is not such a number.
    """
    try:
        value = -1.0 if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"a share from 0 to 1 was expected, found {given!r}")
    return value


def text(given: Any) -> str:
    """Return the text unchanged, if it is not empty.

    Raises:
        ValueError: The argument is not a text, or is empty.
    """
    if not isinstance(given, str) or not given:
        raise ValueError(f"a text was expected, found {given!r}")
    return given


def texts(given: Any) -> tuple[str, ...]:
    """Return a list of texts, or the parts of a text between commas.

    Raises:
        ValueError: The argument is neither.
    """
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise ValueError(f"a list of texts was expected, found {given!r}")
    return tuple(given)


def one_of(*words: str) -> Callable[[Any], str]:
    """Return a function that checks that a value is one of `words`."""

    def read(given: Any) -> str:
        if given not in words:
            raise ValueError(f"one of {', '.join(words)} was expected, found {given!r}")
        return str(given)

    return read


# --------------------------------------------------------------------------------------------------
# The program under check, with the analyses that several rules share.


_STEPS: Final = (Call, Case, While, AsyncStart)
"""Ops that run the instructions of the called computations one by one."""


class Subject:
    """A program that is checked, with cached facts that the rules share.

    Attributes:
        module: The program graph.
        file: Name of the program in findings.
    """

    def __init__(self, module: Module, file: str, known_cost: ProgramCost | None = None) -> None:
        """Store a program.

        Args:
            module: The program.
            file: Name of the program in findings.
            known_cost: Cost of all its kernels; `None` to compute it at the first use.
        """
        self.module: Final = module
        self.file: Final = file
        self._known_cost: Final = known_cost
        self._costs: Final[dict[tuple[str, bool | None], ProgramCost]] = {}

    # All rules share the properties below, and `finding` reads two of them for each finding.
    @cached_property
    def analysis(self) -> Analysis:
        """Return the analysis of the program's maps, shared by all rules."""
        return Analysis(has_regions=self.module.has_tree)

    @cached_property
    def places_run(self) -> dict[Computation, Place]:
        """Return how often each computation runs; computations inside kernels are missing."""
        return {place.computation: place for place in running(self.module)}

    def cost(self, device: str, *, transfers: bool | None = None) -> ProgramCost:
        """Return the cost of every kernel on a GPU.

        Args:
            device: Name of the GPU.
            transfers: `True` counts the transfers of threads whatever the program's target is;
                `None` lets the target decide.
        """
        known = self._known_cost
        if known is not None and transfers is None and known.device == gpu_of(device):
            return known
        key = device, transfers
        if key not in self._costs:  # rules about one device share it
            memory = Memory(self.analysis, gpu_of(device))
            self._costs[key] = program_cost(self.module, memory, memory.device, transfers=transfers)
        return self._costs[key]

    @cached_property
    def step_bytes(self) -> int:
        """Return the bytes that all kernels read and write at least, in one run of the program."""
        cost = self._known_cost
        if cost is None:
            memory = Memory(self.analysis, gpu_of(DEFAULT))
            cost = program_cost(self.module, memory, memory.device, transfers=False)
        return sum([kernel.bytes for kernel in cost.kernels])

    @property
    def computations(self) -> tuple[Computation, ...]:
        """Return all computations, including regions."""
        return tuple(nearest_first(self.module, lambda computation: computation.callees))

    @cached_property
    def _callers(self) -> dict[Computation, list[Instruction]]:
        """Return the instructions that call each computation."""
        callers = defaultdict[Computation, list[Instruction]](list)
        for computation in self.computations:
            for ins in computation:
                for callee in ins.calls:
                    callers[callee].append(ins)
        return callers

    def sources(self, computation: Computation, ins: Instruction) -> Iterator[Instruction]:
        """Yield the values that the value of `ins` comes from.

        They are its operands, the results of called computations, and for a parameter of
        `computation` the arguments of the callers.
        """
        yield from ins.operands
        for callee in ins.calls:
            yield callee.root
            yield from callee.root.operands
        if isinstance(ins.op, Argument):
            count = len(computation.parameters)
            for caller in self._callers.get(computation, ()):
                given = caller.operands
                number = ins.op.number
                # Operands match parameters by position, except for ops such as loops, whose
                # operands are all possible sources.
                yield from given[number : number + 1] if len(given) == count else given

    @property
    def steps(self) -> tuple[Computation, ...]:
        """Return the computations whose instructions run one by one.

        Computations of fusions and reducers are not among them.
        """
        module = self.module
        roots = [module.entry] if not module.has_tree else list(module)

        def onward(computation: Computation) -> Iterator[Computation]:
            return (c for ins in computation if isinstance(ins.op, _STEPS) for c in ins.calls)

        return tuple(nearest_first(roots, onward))

    def places(self, *, everywhere: bool = False) -> Iterator[tuple[Computation, Instruction]]:
        """Yield (computation, instruction) for all instructions that run one by one.

        With `everywhere`, instructions inside kernels are included.
        """
        for computation in self.computations if everywhere else self.steps:
            for ins in computation:
                yield computation, ins

    def provenance(self, ins: Instruction) -> Provenance:
        """Return the framework's name and source position of an instruction."""
        return provenance_of(ins, self.module)

    def finding(
        self,
        rule: str,
        computation: Computation,
        ins: Instruction,
        message: str,
        value: float = 0,
        *,
        cause: str = "",
        of_bytes: bool = False,
    ) -> Finding:
        """Return a finding at an instruction.

        Args:
            rule: Name of the rule.
            computation: The computation of the instruction.
            ins: The instruction.
            message: Text with what was found and what was expected.
            value: Amount of the violation in one run.
            cause: Key that findings of one cause share.
            of_bytes: Is the value a number of bytes that each run costs?
        """
        origin, span = self.provenance(ins), ins.span
        place = self.places_run.get(computation)
        runs = place.times if place is not None and of_bytes else 1
        total = value * runs
        # A copy may not count as a kernel's bytes, so the share is limited to 1.
        step = max(self.step_bytes, total) if of_bytes else 0
        return Finding(
            rule,
            message,
            self.file,
            ins.name,
            computation.name,
            span.line_col[0] if span is not None else 0,
            origin.op_name,
            origin.place,
            total,
            cause=cause,
            runs=runs,
            share=total / step if step else None,
        )


def arrays_of(type_: Type) -> list[TensorType]:
    """Return the array types in a type, including those in tuples."""
    return [leaf for leaf in leaf_types(type_) if isinstance(leaf, TensorType)]
