"""Schedules as JSON and as CSV of segments."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eaco_opt import io_schedule
from eaco_opt.cluster import Cluster, Node, NodeType
from eaco_opt.errors import DomainError, EacoError, FormatError, OutputExistsError, ScheduleError
from eaco_opt.instance import Instance
from eaco_opt.io import (
    instance_digest,
    read_schedule,
    schedule_from_csv,
    schedule_from_json,
    schedule_to_csv,
    schedule_to_json,
    write_schedule,
)
from eaco_opt.job import Job
from eaco_opt.power import GpuPower, PowerModel, ServerPower
from eaco_opt.profile import EpochTime, Profile
from eaco_opt.schedule import Schedule, ScheduleClass, Segment
from tests.strategies import small_instances_with_schedules


def instance() -> Instance:
    """Two nodes of 8 GPUs and one of 2, named so that their order is not the alphabet's."""
    big = NodeType(
        name="big",
        gpus=8,
        gpu_type="A",
        gpu_memory_gib=16.0,
        power=PowerModel(
            server=ServerPower(idle_w=1.0, busy_w=2.0), gpu=GpuPower(standing_w=1.0, dynamic_w=1.0)
        ),
    )
    small = dataclasses.replace(big, name="small", gpus=2)
    profile = Profile(
        name="p",
        epoch_times=(EpochTime(gpu_type="A", epoch_time_s=60.0),),
        gpu_util_mean=0.25,
        gpu_util_peak=0.5,
        gpu_memory_mean_gib=1.0,
        gpu_memory_peak_gib=2.0,
    )
    nodes = (("west", "big"), ("east", "big"), ("tiny", "small"))
    return Instance(
        name="three nodes",
        jobs=tuple(Job(name=n, profile="p", gpus=g, epochs=1) for n, g in (("a", 8), ("b", 10), ("c", 1))),
        profiles=(profile,),
        cluster=Cluster(node_types=(big, small), nodes=tuple(Node(name=n, node_type=t) for n, t in nodes)),
    )


def segment(job: str, start: float, end: float, *gpus: tuple[int, int]) -> Segment:
    return Segment(job=job, start_s=start, end_s=end, gpus=gpus)


WEST = tuple((0, k) for k in range(8))
EAST = tuple((1, k) for k in range(8))


def schedule() -> Schedule:
    return Schedule(
        segments=(
            segment("a", 0.0, 60.0, *WEST),
            segment("b", 60.0, 120.5, *EAST, (0, 3), (0, 5)),
            segment("c", 0.1, 60.1, (2, 1)),
        ),
        schedule_class=ScheduleClass.STATIC,
        method="by hand",
        instance_digest=instance_digest(instance()),
    )


TEXT = """{
  "format": "eaco-opt/schedule",
  "version": 1,
  "instance_digest": "DIGEST",
  "method": "by hand",
  "schedule_class": "static",
  "segments": [
    {"job": "a", "start_s": 0.0, "end_s": 60.0, "gpus": [{"node": "west", "gpus": [0, 1, 2, 3, 4, 5, 6, 7]}]},
    {"job": "c", "start_s": 0.1, "end_s": 60.1, "gpus": [{"node": "tiny", "gpus": [1]}]},
    {"job": "b", "start_s": 60.0, "end_s": 120.5, "gpus": [{"node": "west", "gpus": [3, 5]}, EAST]}
  ]
}
""".replace("EAST", '{"node": "east", "gpus": [0, 1, 2, 3, 4, 5, 6, 7]}')


def text() -> str:
    return TEXT.replace("DIGEST", instance_digest(instance()))


def test_text_of_a_schedule() -> None:
    """Nodes by name, one segment a line, in the order of time: and it reads back equal."""
    assert schedule_to_json(schedule(), instance()) == text()
    assert schedule_from_json(text(), instance()) == schedule()


@given(small_instances_with_schedules(wild=True))
def test_reading_undoes_writing(drawn: tuple[Instance, Schedule]) -> None:
    """Any schedule comes back equal from JSON, to the last bit of each time, with or without a digest."""
    problem, plan = drawn
    for one in (plan, dataclasses.replace(plan, instance_digest=instance_digest(problem))):
        back = schedule_from_json(schedule_to_json(one, problem), problem)
        assert back == one
        assert repr(back) == repr(one)


@given(small_instances_with_schedules(wild=True))
def test_reading_undoes_writing_of_csv(drawn: tuple[Instance, Schedule]) -> None:
    """Any schedule without touching segments comes back from CSV with all its segments equal."""
    problem, plan = drawn
    ends = {(s.job, s.end_s, s.gpus) for s in plan.segments}
    assume(not any((s.job, s.start_s, s.gpus) in ends for s in plan.segments))
    back = schedule_from_csv(schedule_to_csv(plan, problem), problem)
    assert sorted(map(repr, back.segments)) == sorted(map(repr, plan.segments))


def test_digest_of_another_instance() -> None:
    """A schedule for another problem is refused, unless that is asked for or it states no digest."""
    other = dataclasses.replace(instance(), jobs=instance().jobs[:2])
    with pytest.raises(
        ScheduleError,
        match=r"x, line 4, instance_digest: .*another problem.*'three nodes'.*allow_other",
    ):
        schedule_from_json(text(), other, source="x")
    assert schedule_from_json(text(), other, allow_other_digest=True) == schedule()
    without = TEXT.replace("DIGEST", "")
    assert schedule_from_json(without, other) == dataclasses.replace(schedule(), instance_digest="")
    renamed = dataclasses.replace(instance(), name="same problem", metadata=(("a", "b"),))
    assert schedule_from_json(text(), renamed) == schedule()


D, F, S = DomainError, FormatError, ScheduleError
REFUSED: list[tuple[str, str, type[EacoError], str]] = [
    # (what stands in the text, what stands there instead, error, message)
    ('"tiny"', '"tinny"', S, r"x, line 9, segments\[1\].gpus\[0\].node: unknown node 'tinny'.*'tiny'"),
    ('"tiny"', "2", F, r"x, line 9, segments\[1\].gpus\[0\].node: expected a text in quotes, got 2"),
    ("[1]}", "[-1]}", D, r"x, line 9, segments\[1\].*gpu must be at least 0"),
    ("[1]}", "[1.0]}", F, r"segments\[1\].gpus\[0\].gpus\[0\]: expected a whole number, got 1.0"),
    ("[1]}", "[1, 1]}", D, r"x, line 9, segments\[1\].*gpus name the same GPU twice"),
    ("[1]}", "[]}", D, r"x, line 9, segments\[1\].*gpus must not be empty"),
    ("[1]}", "1}", F, r"gpus: expected a list, got 1"),
    ('"end_s": 60.1', '"end_s": 0.1', D, r"x, line 9, segments\[1\].end_s: segment of job 'c'"),
    ('"end_s": 60.1', '"end": 60.1', F, r"segments\[1\].end: unknown key 'end'; did you mean 'end_s'"),
    ('"end_s": 60.1', '"end_s": null', F, r"segments\[1\].end_s: expected a number, got null"),
    ('"end_s": 60.1, ', "", F, r"segments\[1\]: expected the key\(s\) 'end_s', which are missing"),
    ('"static"', '"statik"', D, r"x, line 6, schedule_class: .*one of static, epoch, fluid"),
    ('"version": 1', '"version": 2', F, r"x, line 3, version: .*one of 1, got 2; a newer"),
    ("eaco-opt/schedule", "eaco-opt/instance", F, r"x, line 2, format: .*another kind of file"),
    ('"method"', '"solver"', F, r"x, line 5, solver: unknown key 'solver'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "kind", "message"), REFUSED)
def test_content_is_refused_with_its_place(old: str, new: str, kind: type[EacoError], message: str) -> None:
    """Each wrong value is refused by an error that names file, line and place."""
    assert text().count(old) == 1
    with pytest.raises(kind, match=message):
        schedule_from_json(text().replace(old, new), instance(), source="x")


def test_what_the_checker_is_to_find_is_read() -> None:
    """Jobs that do not exist, and GPU numbers beyond the node, are read: the checker reports them."""
    changed = text().replace('"job": "c"', '"job": "d"').replace("[1]}", "[2]}")
    back = schedule_from_json(changed, instance())
    assert back.segments[1] == segment("d", 0.1, 60.1, (2, 2))
    rows = "job,start,end,node,gpus\nd,0.1,60.1,tiny,2\n"
    assert schedule_from_csv(rows, instance()).segments == (segment("d", 0.1, 60.1, (2, 2)),)


def test_writing_for_the_wrong_instance() -> None:
    """A segment on a node that the instance lacks has no name to be written under."""
    plan = Schedule(segments=(segment("a", 0.0, 1.0, (3, 0)),))
    for write in (schedule_to_json, schedule_to_csv):
        with pytest.raises(ScheduleError, match=r"job 'a': node 3 does not exist; instance"):
            write(plan, instance())


def test_csv_by_hand() -> None:
    """Every form of GPU list, rows of one segment on two nodes, columns and rows in any order."""
    plan = schedule_from_csv(
        "\ufeffGPUs, Node ,JOB,start,end_s\r\n"
        "all,west,a,0,60\r\n"
        "\r\n"
        '"3,5",west,b,60,120.5\r\n'
        "0-3;4 5;6-7,east,b,6e1,120.50\r\n"
        "1,tiny, c ,.1,60.1\r\n",
        instance(),
    )
    assert plan == dataclasses.replace(schedule(), method="", instance_digest="")


def test_class_of_a_csv() -> None:
    """One run a job is static; a stop or a move makes it fluid; a break of no length is none."""
    head = "job,start,end,node,gpus\n"
    one = schedule_from_csv(head + "a,0,10,west,0\nb,5,15,west,0\n", instance())
    assert one.schedule_class is ScheduleClass.STATIC
    cut = schedule_from_csv(head + "a,10,20,west,0 1\na,0,10,west,0-1\n", instance())
    assert cut.schedule_class is ScheduleClass.STATIC
    assert cut.segments == (segment("a", 0.0, 20.0, (0, 0), (0, 1)),)
    for rows in ("a,0,10,west,0\na,11,20,west,0\n", "a,0,10,west,0\na,10,20,west,1\n"):
        moved = schedule_from_csv(head + rows, instance())
        assert moved.schedule_class is ScheduleClass.FLUID
        assert len(moved.segments) == 2
    assert schedule_from_csv(head, instance()) == Schedule(segments=(), schedule_class=ScheduleClass.STATIC)


def test_hours_are_read_as_the_decimals_written() -> None:
    """1.1 hours are 3960 s exactly, though 1.1 * 3600 is not in floating point."""
    assert 1.1 * 3600 != 3960.0
    plan = schedule_from_csv("job,start_h,end_h,node,gpus\na,-0.5,1.1,west,0\n", instance())
    assert (plan.segments[0].start_s, plan.segments[0].end_s) == (-1800.0, 3960.0)


@given(st.decimals(-(10**6), 10**6, places=4))
def test_hours_are_the_nearest_seconds(hours: object) -> None:
    """Any decimal number of hours is read as the float nearest to 3600 times that decimal."""
    from fractions import Fraction

    seconds = io_schedule._seconds(f"{hours:f}", 3600, "x", "start")
    exact = Fraction(str(hours)) * 3600
    for neighbour in (math.nextafter(seconds, -math.inf), math.nextafter(seconds, math.inf)):
        assert abs(Fraction(seconds) - exact) <= abs(Fraction(neighbour) - exact)


HEAD = "job,start,end,node,gpus\n"
REFUSED_CSV: list[tuple[str, type[EacoError], str]] = [
    ("", F, r"x: expected a header with the columns job,start,end,node,gpus, got an empty file"),
    ("\n \n", F, r"x: expected a header"),
    ("a,0,10,west,0\n", F, r"x, line 1: unknown column 'a'; known columns are: job, start, start_s"),
    ("job;start;end;node;gpus\n", F, r"x, line 1: unknown column 'job;start.*separate columns by commas"),
    ("job,start,end,node,gpus,colour\n", F, r"x, line 1: unknown column 'colour'; known"),
    ("job,start,start_h,end,node,gpus\n", F, r"line 1: columns 'start' and 'start_h' both state the start"),
    ("job,Job,start,end,node,gpus\n", F, r"line 1: columns 'job' and 'Job' both state the job"),
    ("job,end,gpus\n", F, r"x, line 1: expected a header.*'start', 'node' missing"),
    (HEAD + "a,0,10,west\n", F, r"x, line 2: expected 5 values as in the header, got 4"),
    (HEAD + "a,0,10,west,0,1\n", F, r"x, line 2: expected 5 values.*, got 6; put lists .* in quotes"),
    (HEAD + "\na,0,10,North,0\n", S, r"x, line 3: unknown node 'North', expected one of the 3 node"),
    (HEAD + "a,0,10,wset,0\n", S, r"x, line 2: unknown node 'wset'.*did you mean 'west'\?"),
    (HEAD + "a,0,ten,west,0\n", F, r"x, line 2: expected a number as end, .* got 'ten'"),
    (HEAD + "a,,10,west,0\n", F, r"x, line 2: expected a number as start, .* got ''"),
    (HEAD + "a,nan,10,west,0\n", F, r"expected a number as start, .* got 'nan'"),
    (HEAD + "a,0,inf,west,0\n", F, r"expected a number as end, .* got 'inf'"),
    (HEAD + "a,0,1_0,west,0\n", F, r"got '1_0'"),
    (HEAD + "a,0,0x10,west,0\n", F, r"got '0x10'"),
    (HEAD + "a,0,\u0661,west,0\n", F, r"got '\u0661'"),
    (HEAD + "a,0,1e999,west,0\n", D, r"x, line 2: segment of job 'a': end_s must be a finite number"),
    (HEAD + "a,0," + "1" * 401 + ",west,0\n", F, r"got '1{57}\.\.\.'"),
    (HEAD + "a,10,10,west,0\n", D, r"x, line 2: segment of job 'a': end_s must be after start_s"),
    (HEAD + "a,0,10,west,0\n,0,10,west,0\n", D, r"x, line 3: segment: job must be a non-empty string"),
    (HEAD + "a,0,10,west,\n", F, r"x, line 2: expected GPU numbers .*, got ''"),
    (HEAD + "a,0,10,west,0-\n", F, r"x, line 2: expected GPU numbers .*, got '0-'"),
    (HEAD + "a,0,10,west,3-1\n", F, r"x, line 2: expected GPU numbers .*, got '3-1'"),
    (HEAD + "a,0,10,west,-1\n", F, r"got '-1'"),
    (HEAD + "a,0,10,west,0-65536\n", F, r"GPU numbers from 0 to 65,535 .*, got '0-65536'"),
    (HEAD + "a,0,10,west,gpu0\n", F, r"got 'gpu0'"),
    (HEAD + "a,0,10,west,0 1 0\n", F, r"x, line 2: GPU 0 of node 'west' is named twice"),
    (HEAD + "a,0,10,west,0-3\nb,0,10,west,1\na,0,1e1,west,3\n", F, r"x, line 4: GPU 3 .* twice .*job 'a'"),
    (HEAD + 'a,0,10,west,"0\n', F, r"x, line 2: not valid CSV: unexpected end of data"),
    (HEAD + "a" * 200_000 + ",0,10,west,0\n", F, r"x, line 2: not valid CSV: field larger than"),
    (HEAD + "a,0,10,west,0\n" + '"a\n\nb",0,10,west,0\n', D, r"x, line 5: segment: job must be printable"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "kind", "message"), REFUSED_CSV)
def test_csv_is_refused_with_its_line(rows: str, kind: type[EacoError], message: str) -> None:
    """Each wrong file is refused by an error that names file and line, the value, and what was expected."""
    with pytest.raises(kind, match=message) as caught:
        schedule_from_csv(rows, instance(), source="x")
    assert len(str(caught.value)) < 500


def test_short_rows_cannot_ask_for_endless_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges are short to write and long to hold, so their sum is limited."""
    monkeypatch.setattr(io_schedule, "MAX_GPUS_NAMED", 20)
    rows = HEAD + "".join(f"a,{i},{i + 1},west,all\n" for i in range(3))
    with pytest.raises(FormatError, match=r"x, line 4: the file names more than 20 GPUs"):
        schedule_from_csv(rows, instance(), source="x")


def test_csv_cannot_hold_two_equal_spans() -> None:
    """Two segments of one job with the same start and end would read back as one, so they are not written."""
    twice = Schedule(segments=(segment("a", 0.0, 1.0, (0, 0)), segment("a", 0.0, 1.0, (0, 1))))
    with pytest.raises(ScheduleError, match=r"job 'a' has two segments from 0.0 to 1.0 s.*write JSON"):
        schedule_to_csv(twice, instance())
    assert schedule_from_json(schedule_to_json(twice, instance()), instance()) == twice


def test_files(tmp_path: Path) -> None:
    """The suffix decides on the form, under compression too; an existing file is not overwritten unasked."""
    plan = schedule()
    for name in ("s.json", "s.json.gz", "s.json.xz"):
        write_schedule(tmp_path / name, plan, instance())
        assert read_schedule(tmp_path / name, instance()) == plan
    for name in ("s.csv", "s.CSV.gz"):
        write_schedule(tmp_path / name, plan, instance())
        assert read_schedule(tmp_path / name, instance()).segments == plan.segments
    assert (tmp_path / "s.csv").read_text().splitlines()[:2] == [
        "job,start_s,end_s,node,gpus",
        "a,0.0,60.0,west,0-7",
    ]
    with pytest.raises(OutputExistsError, match=r"s\.csv"):
        write_schedule(tmp_path / "s.csv", plan, instance())
    for name in ("s.txt", "s", "s.gz"):
        with pytest.raises(FormatError, match=r"expected a name that ends in .json or .csv"):
            write_schedule(tmp_path / name, plan, instance())
        with pytest.raises(FormatError, match=r"expected a name that ends in .json or .csv"):
            read_schedule(tmp_path / name, instance())
    other = dataclasses.replace(instance(), jobs=())
    with pytest.raises(ScheduleError, match=r"s\.json\.gz, line 4, instance_digest"):
        read_schedule(tmp_path / "s.json.gz", other)
    assert read_schedule(tmp_path / "s.json.gz", other, allow_other_digest=True) == plan
    with pytest.raises(FormatError, match=r"s\.csv: holds more than 10 bytes"):
        read_schedule(tmp_path / "s.csv", instance(), max_bytes=10)


def test_every_key_may_be_left_out_but_the_segments() -> None:
    """A schedule by hand states its segments; it then claims the widest class and no instance."""
    short = json.dumps({"format": "eaco-opt/schedule", "version": 1, "segments": []})
    assert schedule_from_json(short, instance()) == Schedule(segments=(), schedule_class=ScheduleClass.FLUID)
