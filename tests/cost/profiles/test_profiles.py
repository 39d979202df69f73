"""Profiles of every form are read, joined with their programs, and refused if damaged."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import hloscope as hs
from hloscope.cost.profiles import Joined, join, programs_in, read_profile
from hloscope.errors import HloscopeError, InputError, ParseError, UnknownNameError
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Module
from tests.conftest import SHARED
from tests.wire import changed_message

COST = SHARED / "conformance" / "cost"
MODELS = SHARED / "real" / "models"
needs_data = pytest.mark.skipif(not COST.is_dir(), reason="needs ../shared/conformance/cost")
GPU = sorted((COST / "gpu_synthetic").glob("*")) if COST.is_dir() else []
CPU = sorted((COST / "profiles").glob("*")) if COST.is_dir() else []

PROGRAM = """HloModule jit_f
f { p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }
g { p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }
h { p = f32[4] parameter(0) ROOT r = f32[4] multiply(p, p) }
body { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  add.1 = f32[4] fusion(x), kind=kLoop, calls=f
  add.2 = f32[4] fusion(add.1), kind=kLoop, calls=g
  mul.1 = f32[4] fusion(add.2), kind=kLoop, calls=h
  ROOT o = (s32[], f32[4]) tuple(i, mul.1) }
condition { t = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { a = s32[] parameter(0)
  b = f32[4] parameter(1)
  neg.1 = f32[4] negate(b)
  t = (s32[], f32[4]) tuple(a, neg.1)
  loop = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT out = f32[4] get-tuple-element(loop), index=1
}
"""
TURN = ("add_1", "add_1", "mul_1")  # add.2 is equal to add.1 and shares its kernel
LAUNCHES = [("neg_1", "neg.1"), *zip(TURN * 2, ("add.1", "add.2", "mul.1") * 2, strict=True)] * 2
TIMES = {"neg.1": 20, "add.1": 40, "add.2": 80, "mul.1": 160}
"""Nanoseconds in two runs, in each of which the body of the loop runs twice."""
EACH = {"neg.1": 10, "add.1": 10, "add.2": 20, "mul.1": 40}
"""Nanoseconds of one event."""


def program() -> Module:
    return parse_hlo(PROGRAM, name="f.hlo")


def totals(joined: Joined) -> dict[str, int]:
    """Nanoseconds by instruction."""
    return {ins.name: m.total // 1000 for ins, m in joined.by_instruction.items()}


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def named(number: int, key: int, name: str, rest: bytes = b"") -> bytes:
    """A map entry of a plane: metadata with a name."""
    meta = field(1, key) + field(2, name.encode()) + rest
    return field(number, field(1, key) + field(2, meta))


def plane(name: str, lines: bytes, metadata: bytes) -> bytes:
    return field(1, field(1, 1) + field(2, name.encode()) + lines + metadata)


def xplane(program_id: int = 7) -> bytes:
    names = list(dict.fromkeys(name for name, _ in LAUNCHES))
    ops = list(dict.fromkeys(op for _, op in LAUNCHES))
    stats = ["hlo_op", "hlo_module", "program_id", "jit_f", *ops]
    events, start = b"", 0
    for name, op in LAUNCHES:
        own = field(4, field(1, 1) + field(7, 5 + ops.index(op)))
        own += field(4, field(1, 2) + field(7, 4)) + field(4, field(1, 3) + field(3, program_id))
        head = field(1, 1 + names.index(name)) + field(2, start * 1000)
        events += field(4, head + field(3, EACH[op] * 1000) + own)
        start += 100
    line = field(3, field(1, 13) + field(2, b"Stream #13(Compute)") + field(3, 5) + events)
    metadata = b"".join([named(4, k + 1, name) for k, name in enumerate(names)])
    metadata += b"".join([named(5, k + 1, name) for k, name in enumerate(stats)])
    return plane("/device:GPU:0", line, metadata)


def trace(*, with_ops: bool = True) -> bytes:
    events: list[dict[str, object]] = [
        {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 2, "tid": 1, "name": "thread_name", "args": {"name": "Stream #1"}},
    ]
    for k, (name, op) in enumerate(LAUNCHES):
        args = {"hlo_op": op, "hlo_module": "jit_f"} if with_ops else {}
        span = {"ph": "X", "pid": 2, "tid": 1, "ts": k / 10, "dur": EACH[op] / 1000, "name": name}
        events.append({**span, "args": args})
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": [*events, {}]}).encode()


def gpu_trace(unit: str = "ns") -> bytes:
    scale = {"ns": 1, "us": 1000}[unit]
    lines = ["Processing [report.sqlite] ...", f"Start ({unit}),Duration ({unit}),CorrId,Strm,Name"]
    for k, (name, op) in enumerate(LAUNCHES):
        lines.append(f'{k * 100 / scale},{EACH[op] / scale},{k},13,"{name}"')
    return "\n".join(lines).encode()


def ranges(*, new: bool) -> bytes:
    """Two runs of ranges: a module's around those of instructions."""
    old = "Name,Projected Start (ns),Projected Duration (ns),RangeId,ParentId"
    rows = ["Text,Start (ns),End (ns),Range ID,Parent ID" if new else old]
    for run in range(2):
        part = LAUNCHES[run * 7 : run * 7 + 7]
        module = f'"XlaModule:#hlo_module=jit_f,program_id=7#",{run * 1000},900,{run + 1},'
        rows.append(module if not new else module.replace(",900,", f",{run * 1000 + 900},"))
        for k, (_, op) in enumerate(part):
            start, last = run * 1000 + k * 100, EACH[op]
            stop = start + last if new else last
            rows.append(f'"TSL:Thunk:#hlo_op={op}#",{start},{stop},{10 + run * 10 + k},{run + 1}')
    return "\n".join(rows).encode()


def sqlite(path: Path) -> Path:
    connection = sqlite3.connect(path)
    run = connection.execute
    run("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    columns = "start, end, deviceId, streamId, correlationId, globalPid, shortName"
    run(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({columns})")
    run("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId)")
    run("CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid)")
    process, thread = 5 << 24, (5 << 24) + 9
    for k, (name, op) in enumerate(LAUNCHES):
        run("INSERT INTO StringIds VALUES (?, ?)", (k, name))
        begin = 5000 + k * 100
        row = (begin, begin + EACH[op], 0, 13, k, process, k)
        run("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        launch = (k * 10 + 2, k * 10 + 4, thread, k)
        run("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?)", launch)
        text = f"TSL:Thunk:#name=x(a,b),hlo_op={op}#"
        around = (k * 10 + 1, k * 10 + 5, 59, text, thread)
        run("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", around)
    for k in (0, 70):
        module = (k, k + 70, 59, "XlaModule:#prefix=jit(f),hlo_module=jit_f,program_id=7#", thread)
        run("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?)", module)
    connection.commit()
    connection.close()
    return path


def dispatches() -> bytes:
    lines = ['"Kind","KERNEL_NAME","Start_Timestamp","End_Timestamp","Grid_Size_X","Grid_Size_Y",'
             '"Grid_Size_Z","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z"']  # fmt: skip
    for k, (name, op) in enumerate(LAUNCHES):
        lines.append(
            f'"KERNEL_DISPATCH","{name}.kd",{k * 100},{k * 100 + EACH[op]},512,1,1,128,1,1'
        )
    return "\n".join(lines).encode()


def results() -> bytes:
    names = list(dict.fromkeys(name for name, _ in LAUNCHES))
    symbols = [{"kernel_id": k, "formatted_kernel_name": name} for k, name in enumerate(names)]
    found = [
        {
            "start_timestamp": k * 100,
            "end_timestamp": k * 100 + EACH[op],
            "dispatch_info": {"kernel_id": names.index(name), "agent_id": {"handle": 3}},
        }
        for k, (name, op) in enumerate(LAUNCHES)
    ]
    tool = {"buffer_records": {"kernel_dispatch": found}, "kernel_symbols": symbols}
    return json.dumps({"rocprofiler-sdk-tool": [tool]}).encode()


FORMS = {
    "xplane": xplane(),
    "trace": trace(),
    "trace of names": trace(with_ops=False),
    "nsys csv": gpu_trace(),
    "nsys csv in microseconds": gpu_trace("us"),
    "nsys nvtx csv": ranges(new=False),
    "nsys nvtx csv of new columns": ranges(new=True),
    "rocprofv3 csv": dispatches(),
    "rocprofv3 json": results(),
}


def check_program(joined: Joined) -> None:
    assert totals(joined) == TIMES
    assert joined.runs == 2
    assert {ins.name: turns for ins, turns in joined.turns.items()} == {"loop": 2}
    assert not joined.not_joined
    assert joined.total == joined.joined_time == sum(TIMES.values()) * 1000


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_time_of_each_instruction_the_runs_and_the_turns(form: str) -> None:
    profile = read_profile(FORMS[form])
    assert form.startswith(profile.form)
    check_program(join(profile, program()))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_if_packed_by_gzip(form: str) -> None:
    assert read_profile(gzip.compress(FORMS[form])).events == read_profile(FORMS[form]).events


def test_an_sqlite_export_is_joined_by_the_ranges_around_the_launches(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "a b#?.sqlite")
    joined = join(read_profile(path), program())
    check_program(joined)
    assert set(joined.by_trust) == {"annotation"}
    assert joined.program_id == 7
    assert read_profile(path.read_bytes()).events == read_profile(path).events


def test_names_alone_join_less_surely_than_instructions() -> None:
    assert set(join(read_profile(FORMS["xplane"]), program()).by_trust) == {"hlo_op"}
    assert set(join(read_profile(FORMS["nsys csv"]), program()).by_trust) == {"name", "order"}


def test_a_shared_kernel_with_a_missing_launch_is_not_joined_and_its_share_is_shown() -> None:
    lines = gpu_trace().splitlines()
    joined = join(read_profile(b"\n".join(lines[:3] + lines[4:])), program())  # without an add_1
    (row,) = joined.not_joined
    assert (row.name, row.count) == ("add_1", 7)
    assert row.share == pytest.approx(row.time / joined.total)
    assert joined.joined_time + row.time == joined.total


def test_libraries_and_copies_are_not_joined_by_name() -> None:
    text = gpu_trace() + b'\n5000,100,9,13,"ncclDevKernel_AllReduce"\n'
    joined = join(
        read_profile(text + b'6000,50,9,13,"[CUDA memcpy Device-to-Device]"\n'), program()
    )
    assert [(r.name, r.time // 1000) for r in joined.not_joined] == [
        ("ncclDevKernel_AllReduce", 100),
        ("[CUDA memcpy Device-to-Device]", 50),
    ]


def test_a_profile_of_another_program_is_refused_with_the_programs_that_it_has() -> None:
    other = parse_hlo(PROGRAM.replace("jit_f", "jit_g"))
    with pytest.raises(InputError, match=r"`jit_g`.*`jit_f` \(program_id 7\) with 14 events"):
        join(read_profile(FORMS["xplane"]), other)
    with pytest.raises(UnknownNameError, match="no events of program_id 8"):
        join(read_profile(FORMS["xplane"]), program(), program_id=8)


def test_two_programs_of_one_name_are_told_apart_by_program_id() -> None:
    profile = read_profile(xplane(7) + xplane(9))
    with pytest.raises(UnknownNameError, match="program_id 7, 9"):
        join(profile, program())
    joined = join(profile, program(), program_id=9)
    assert totals(joined) == TIMES
    assert {row.reason for row in joined.not_joined} == {"of another program"}
    assert joined.share_not_joined == 0.5


@pytest.mark.slow(keep=6)
@pytest.mark.parametrize("form", FORMS)
def test_a_cut_profile_is_refused_or_read_up_to_the_cut(form: str) -> None:
    data = FORMS[form]
    whole = read_profile(data)
    for end in range(0, len(data), 13):
        if "csv" in form:  # a table may end after any row
            with suppress(HloscopeError):
                assert len(read_profile(data[:end]).events) <= len(whole.events)
        else:
            with pytest.raises(HloscopeError, match=r"^error: <bytes>"):
                read_profile(data[:end])


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("form", [*FORMS, "nsys sqlite"])
def test_a_damaged_profile_is_read_or_refused(form: str, tmp_path: Path) -> None:
    whole = FORMS[form] if form in FORMS else sqlite(tmp_path / "a").read_bytes()
    module, rng = program(), Random(form)
    for _ in range(200):
        data = bytearray(changed_message(whole, rng) if form == "xplane" else whole)
        for _ in range(rng.choice([1, 3]) if data else 0):
            data[rng.randrange(len(data))] = rng.choice([0, 34, 44, 57, 123, 255])
        with suppress(HloscopeError):
            join(read_profile(bytes(data)), module)


def test_a_cut_xplane_names_the_byte() -> None:
    data = FORMS["xplane"]
    with pytest.raises(ParseError, match=r"byte \d+: expected [\d,]+ bytes of field 1 of XSpace"):
        read_profile(data[:500])


def test_an_xplane_that_ends_before_the_size_of_a_message_is_refused() -> None:
    with pytest.raises(ParseError, match="the file or message ends within a number of XSpace"):
        read_profile(FORMS["xplane"] + b"\x0a")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"HloModule m", "found `HloModule m` at byte 0, expected a profile"),
        (b'{"a": 1}', "found no `traceEvents`"),
        (b'{"traceEvents": [{"ph": "X",]}', r"<bytes>:1:\d+: found"),
        (b"SQLite format 3\0" + bytes(100), "damaged SQLite"),
        (b"\x1f\x8b\x08\0", "damaged gzip"),
        (b"Start (h),Duration (h),Name\n1,2,a\n", "has the unit `h`"),
        (b"Start (ns),Duration (ns),Name\n1,x,a\n", "<bytes>:2: found `x` in column `duration`"),
        (b"[" * 100_000, "<bytes>:1:"),
    ],
)
def test_what_is_not_a_profile_is_refused_with_the_place(data: bytes, message: str) -> None:
    with pytest.raises(HloscopeError, match=message):
        read_profile(data)


def test_a_missing_file_and_a_directory_without_profiles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_profile(tmp_path / "none")
    with pytest.raises(InputError, match="directory without"):
        read_profile(tmp_path)


def test_the_directory_of_jax_profiler_is_its_newest_recording(tmp_path: Path) -> None:
    for time in ("2026_01_01", "2026_01_02"):
        folder = tmp_path / "plugins" / "profile" / time
        folder.mkdir(parents=True)
        (folder / "vm.xplane.pb").write_bytes(FORMS["xplane"])
    profile = read_profile(tmp_path)
    assert len(profile.events) == len(LAUNCHES)
    assert "only `2026_01_02` is read" in profile.problems[0]


def test_times_of_a_loop_are_without_those_of_its_body_and_ends_are_not_events() -> None:
    def span(name: str, start: float, last: float, **args: str) -> dict[str, object]:
        base = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": last, "name": name}
        return {**base, "args": args}

    def op(name: str, start: float, last: float) -> dict[str, object]:
        return span(name, start, last, hlo_op=name, hlo_module="jit_f", run_id="-5")

    events = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}},
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "client"}},
        op("loop", 0, 10), op("mul.1", 1, 2), span("end: mul.1", 3, 1), op("mul.1", 4, 3),
        span("ThreadpoolListener::Record", 20, 5),
    ]  # fmt: skip
    joined = join(read_profile(json.dumps(events).encode()), program())
    assert totals(joined) == {"loop": 5000, "mul.1": 5000}
    assert joined.runs == 1
    assert {ins.name: n for ins, n in joined.turns.items()} == {"loop": 2}


@needs_data
@pytest.mark.parametrize(
    "path", [p for p in CPU if not p.name.endswith(".txt")], ids=lambda path: path.name
)
def test_every_event_of_a_recorded_profile_joins_and_runs_three_times(path: Path) -> None:
    stem = path.name.partition(".")[0]
    module = hs.read(path.parent / f"{stem}.cpu.opt.hlo.txt").module
    joined = join(read_profile(path), module)
    assert not joined.not_joined
    assert joined.runs == 3
    loops = {ins.name: turns for ins, turns in joined.turns.items()}
    assert loops == ({"while": 5} if stem == "kmeans_loop" else {})
    entry = set(module.entry.instructions)
    for ins, measured in joined.by_instruction.items():
        assert measured.executions == (3 if ins in entry else 15), ins


@pytest.mark.slow(keep=5)
@needs_data
@pytest.mark.parametrize(
    "path", [p for p in CPU if p.name.endswith(".xplane.pb")], ids=lambda path: path.name
)
def test_the_program_inside_a_recorded_profile_is_the_compiled_one(path: Path) -> None:
    stem = path.name.partition(".")[0]
    ((number, inside),) = programs_in(read_profile(path)).items()
    text = hs.read(path.parent / f"{stem}.cpu.opt.hlo.txt").module
    assert [i.name for i in inside.entry.instructions] == [i.name for i in text.entry.instructions]
    read = hs.read(f"{path}#{inside.name}").module
    assert [c.name for c in read] == [c.name for c in hs.read(str(path)).module]
    assert number == 0
    with pytest.raises(UnknownNameError, match="has no program `none`"):
        hs.read(f"{path}#none")


@needs_data
@pytest.mark.parametrize(
    "path", [p for p in GPU if not p.name.endswith("truth.json")], ids=lambda path: path.name
)
def test_synthetic_exports_of_a_gpu_equal_their_truth(path: Path) -> None:
    stem = path.name.partition(".")[0]
    truth = json.loads((path.parent / f"{stem}.truth.json").read_text())
    joined = join(read_profile(path), hs.read(MODELS / f"{stem}.gpu.opt.hlo.txt").module)
    found = {i.name: (m.executions, m.total) for i, m in joined.by_instruction.items()}
    by_name = any(part in path.name for part in ("cuda_gpu_trace", "rocprofv3"))
    expected = {
        name: (row["executions"], row["total_ns"] * 1000)
        for name, row in truth["instructions"].items()
        if not (by_name and row["kernel"].startswith("Memcpy"))  # copies have no names
    }
    assert found == expected
    assert joined.runs == truth["runs"]
    copies = sum(
        row["total_ns"] * 1000
        for row in truth["instructions"].values()
        if row["kernel"].startswith("Memcpy")
    )
    unnamed = copies if "cuda_gpu_trace" in path.name else 0
    assert sum(row.time for row in joined.not_joined) == unnamed
