"""Readers `alibaba-pai-2020` and `alibaba-openb-2023`: several tables, fractions of a GPU."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError, TraceError
from eaco_opt.impossible import impossible_jobs
from instances import READERS, ImportOptions, TraceImport, import_trace
from instances.paper import node_type
from instances.readers import import_text
from instances.readers.alibaba_openb import GPU, cluster_of
from instances.readers.text import TraceText

PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time"
)
NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\nn1,64000,262144,2,T4\nn2,1,1,0,\nn3,1,1,8,G3\n"
)


def pods(*rows: str, **options: object) -> TraceImport:
    """Import pods, without nodes beside them."""
    text = TraceText.of("\n".join([PODS, *rows]), file="pods.csv")
    options.setdefault("nodes", None if "cluster" in options else 2)
    return import_text(
        "alibaba-openb-2023", READERS.get("alibaba-openb-2023"), text, ImportOptions(**options)
    )


def pai(jobs: str, tasks: str, instances: str | None = None, **options: object) -> TraceImport:
    """Import the tables, given as lines."""
    beside = {"task": TraceText.of(tasks, file="tasks.csv")}
    if instances is not None:
        beside["instance"] = TraceText.of(instances, file="instances.csv")
    text = TraceText.of(jobs, file="jobs.csv", companions=beside)
    reader = READERS.get("alibaba-pai-2020")
    return import_text("alibaba-pai-2020", reader, text, ImportOptions(**{"nodes": 2, **options}))


def test_openb_fractions_become_loads_and_memory() -> None:
    """460 of 1000 are one GPU at load 0.414 with 0.414 of 32 GiB; a whole GPU has 0.9 of each."""
    made = pods(
        "a,6000,12288,1,460,,LS,Running,100,1300,100",
        "b,6000,12288,1,540,,LS,Running,100,1300,100",
        "c,6000,12288,2,1000,,LS,Running,150,1400,200",
    )
    jobs, profiles = made.instance.jobs, {p.name: p for p in made.instance.profiles}
    assert [(j.gpus, j.release_s, j.epochs) for j in jobs] == [(1, 0.0, 2), (1, 0.0, 2), (2, 50.0, 2)]
    first, second, whole = (profiles[j.profile] for j in jobs)
    assert (first.gpu_util_mean, second.gpu_util_mean, whole.gpu_util_mean) == (0.414, 0.486, 0.9)
    assert first.gpu_memory_peak_gib == pytest.approx(0.414 * 32.0)
    assert whole.gpu_memory_peak_gib == pytest.approx(0.9 * 32.0)
    # Together the first two fill a GPU exactly, under the default thresholds of 0.9.
    assert first.gpu_util_mean + second.gpu_util_mean <= made.instance.limits.u_threshold
    assert impossible_jobs(made.instance) == ()
    assert "fraction f of a GPU" in dict(made.instance.metadata)["assumption.fraction"]


def test_openb_running_time_is_deletion_minus_scheduling() -> None:
    """Created at 100, scheduled at 400, deleted at 1000: released at 100, runs 600 s, one epoch."""
    (job,) = pods("a,1,1,1,1000,,LS,Running,100,1000,400").instance.jobs
    (profile,) = pods("a,1,1,1,1000,,LS,Running,100,1000,400").instance.profiles
    assert (job.epochs, profile.epoch_time_s("V100", 1)) == (1, 600.0)


@pytest.mark.parametrize(
    ("row", "action", "reason"),
    [
        ("z,1,1,1,460,,BE,Pending,100,100,", "refused", "never-scheduled"),
        ("z,1,1,1,460,,BE,Running,100,null,100", "refused", "never-ended"),
        ("z,1,1,1,460,,BE,Running,100,90,95", "refused", "end-before-start"),
        ("z,1,1,1,460,,BE,Running,90,95,95", "refused", "duration-not-positive"),
        ("z,1,1,1,460,,BE,Running,x,95,95", "refused", "bad-timestamp"),
        ("z,1,1,1,460,,BE,Running,,95,95", "refused", "missing-timestamp"),
        ("z,1,1,0,0,,BE,Running,90,96,95", "refused", "no-gpu"),
        ("z,1,1,1,0,,BE,Running,90,96,95", "refused", "bad-gpu-share"),
        ("z,1,1,1,1001,,BE,Running,90,96,95", "refused", "bad-gpu-share"),
        ("z,1,1,1,None,,BE,Running,90,96,95", "refused", "bad-gpu-share"),
        ("z,1,1,1,460,\x01,BE,Running,90,96,95", "refused", "bad-gpu-spec"),
        ("z,1,1,1,460,T4|P100,BE,Running,90,96,95", "refused", "other-gpu-type"),
        ("z,1,1,1,460,,BE,Running,96,99,95", "repaired", "start-before-submission"),
        ("z,1,1,2,500,,BE,Running,90,99,95", "repaired", "shared-gpus"),
        ("a,1,1,1,500,,BE,Running,90,99,95", "repaired", "duplicate-id"),
    ],
)
def test_openb_odd_pods(row: str, action: str, reason: str) -> None:
    """Each oddity is refused or repaired under its reason, with its line."""
    made = pods("a,1,1,1,460,,LS,Running,100,1300,100", row)
    assert (made.refused if action == "refused" else made.repaired) == {reason: 1}
    assert [(n.line, n.action) for n in made.details] == [(3, action)]


def test_openb_gpu_spec_forbids_other_types() -> None:
    """A pod for T4 or G3 runs on both of these at the same speed, and on nothing else."""
    cluster = Cluster.grouped(
        [(node_type(), 1), *((t, 1) for t in cluster_of(TraceText.of(NODES)).node_types)]
    )
    made = pods(
        "a,1,1,1,1000,G3|T4,LS,Running,0,600,0",
        "b,1,1,1,1000,V100M16,LS,Running,0,600,0",
        "c,1,1,1,1000,,LS,Running,0,600,0",
        cluster=cluster,
    )
    profiles = {p.name: p for p in made.instance.profiles}
    allowed = [
        [t for t in ("V100", "T4", "G3") if profiles[j.profile].epoch_time_s(t, 1) is not None]
        for j in made.instance.jobs
    ]
    assert allowed == [["T4", "G3"], ["V100"], ["V100", "T4", "G3"]]
    assert [j.epochs for j in made.instance.jobs] == [1, 1, 1]


def test_openb_lists_without_times_are_refused() -> None:
    """The multigpu lists end before the times: one error that says so."""
    text = TraceText.of("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\n", file="multi.csv")
    with pytest.raises(TraceError, match=r"^multi.csv:1: .* no column creation_time, .*; the lists multigpu"):
        import_text("alibaba-openb-2023", READERS.get("alibaba-openb-2023"), text, ImportOptions())


def test_openb_nodes_make_a_cluster(tmp_path: Path) -> None:
    """Two T4 nodes and a G3 node, the one without GPUs left out; power and memory of the table."""
    (tmp_path / "openb_pod_list_x.csv").write_text(f"{PODS}\na,1,1,1,460,G3,LS,Running,100,1300,100\n")
    (tmp_path / "openb_node_list_gpu_node.csv.gz").write_bytes(gzip.compress(NODES.encode()))
    made = import_trace("alibaba-openb-2023", tmp_path, ImportOptions(trace_cluster=True))
    cluster = made.instance.cluster
    assert sorted(n.node_type for n in cluster.nodes) == ["G3x8", "T4x2", "T4x2"]
    for kind in cluster.node_types:
        memory_gib, idle_w, full_w = GPU[kind.gpu_type]
        assert kind.gpu_memory_gib == memory_gib
        gpu = kind.power.gpu
        assert (gpu.standing_w, gpu.standing_w + gpu.dynamic_w) == (idle_w, full_w)
    assert impossible_jobs(made.instance) == ()
    said = dict(made.instance.metadata)
    assert said["trace.nodes_table"].startswith("openb_node_list_gpu_node.csv.gz, sha256 ")
    assert "PWR plug-in" in said["assumption.power"]
    # Of the smallest GPU of the cluster: 16 GiB of the T4.
    assert made.instance.profiles[0].gpu_memory_peak_gib == pytest.approx(0.414 * 16.0)


def test_the_traces_cluster_needs_nodes_and_a_reader_that_has_some(tmp_path: Path) -> None:
    """Without the list of nodes, with another reader, or beside a cluster of one's own: an error in words."""
    path = tmp_path / "pods.csv"
    path.write_text(f"{PODS}\na,1,1,1,460,,LS,Running,100,1300,100\n")
    with pytest.raises(TraceError, match=r"pods.csv: expected a list of nodes beside it"):
        import_trace("alibaba-openb-2023", path, ImportOptions(trace_cluster=True))
    with pytest.raises(DomainError, match="give either trace_cluster or nodes"):
        ImportOptions(trace_cluster=True, nodes=3)
    path.write_text("num_gpu,submit_time,duration\n1,0,5\n")
    with pytest.raises(DomainError, match="reader 'tiresias' reads no cluster"):
        import_trace("tiresias", path, ImportOptions(trace_cluster=True))


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (
            "sn,gpu,model\nn,2,K80\n",
            r"^nodes:2: expected a node with 0 to 1024 GPUs of a model of .*'2' of 'K80'",
        ),
        ("sn,gpu,model\nn,x,T4\n", r"^nodes:2: expected a node with"),
        ("sn,gpu,model\nn,0,\n", r"^nodes: expected nodes with GPUs, got none"),
        ("sn,gpu\nn,0\n", r"^nodes:1: expected a list of openb nodes, .* no column model"),
    ],
)
def test_openb_bad_nodes(nodes: str, text: str) -> None:
    """A node that cannot be is an error with file and line: a cluster with holes would be another one."""
    with pytest.raises(TraceError, match=text):
        cluster_of(TraceText.of(nodes, file="nodes"))


def test_openb_whole(data_dir: Path) -> None:
    """Pods and nodes of 2023: 897 never scheduled, 1,052 more without GPUs, the rest taken; 1,213 nodes."""
    made = import_trace("alibaba-openb-2023", data_dir / "alibaba", ImportOptions(trace_cluster=True))
    assert (made.read, made.taken, made.repaired) == (8152, 6203, {})
    assert made.refused == {"never-scheduled": 897, "no-gpu": 1052}
    assert (len(made.instance.cluster.nodes), made.instance.cluster.total_gpus()) == (1213, 6212)
    assert impossible_jobs(made.instance) == ()


def task(job: str, count: str = "1.0", gpu: str = "100.0", start: str = "1100.0", end: str = "2300.0") -> str:
    """A line of the task table."""
    return f"{job},worker,{count},Terminated,{start},{end},600.0,29.3,{gpu},T4\n"


def instance(job: str, start: str, end: str) -> str:
    """A line of the instance table."""
    return f"{job},worker,i,w,id,Terminated,{start},{end},m\n"


JOB = "j,i,u,Terminated,1000.0,9000.0\n"


def test_pai_joins_jobs_and_tasks() -> None:
    """Two workers on half a GPU and a server without: one GPU; three on half: 1.5, which are two at 0.75."""
    made = pai(
        JOB + "k,i,u,Failed,1500.0,\n" + "q,i,u,Failed,1500.0,\n",
        task("j", "2.0", "50.0") + task("j", "1.0", "") + task("k", "3.0", "50.0") + task("q", "1.0", "25.0"),
    )
    jobs, profiles = made.instance.jobs, {p.name: p for p in made.instance.profiles}
    assert [(j.gpus, j.release_s, j.epochs) for j in jobs] == [(1, 0.0, 2), (2, 500.0, 2), (1, 500.0, 2)]
    # 0.9 of what is asked of each GPU: 1, 0.75, 0.25.
    assert [profiles[j.profile].gpu_util_mean for j in jobs] == [0.9, 0.675, 0.225]
    assert made.repaired == {"rounded-gpus": 1}
    assert made.details[0].text == "asks for 1.5 GPUs, takes 2 with 0.75 of each"
    said = dict(made.instance.metadata)
    assert (said["trace.variant"], said["trace.task_table"][:18]) == (
        "job and task tables",
        "tasks.csv, sha256 ",
    )


def test_pai_instances_give_running_times() -> None:
    """First start 1200, last end 1800: 600 s, not the task's 1200 s, which a job without instances keeps."""
    made = pai(
        JOB + "k,i,u,Failed,1000.0,\n",
        task("j") + task("k"),
        instance("j", "1200.0", "1500.0") + instance("j", "1300.0", "1800.0") + instance("k", "", "5.0"),
    )
    assert [j.epochs for j in made.instance.jobs] == [1, 2]
    assert dict(made.instance.metadata)["trace.variant"] == "job, task and instance tables"


@pytest.mark.parametrize(
    ("job", "tasks", "reason"),
    [
        ("z,i,u,Waiting,,", task("z"), "missing-timestamp"),
        ("z,i,u,Waiting,x,", task("z"), "bad-timestamp"),
        (",i,u,Waiting,5.0,", task("z"), "missing-id"),
        ("j,i,u,Waiting,5.0,", "", "duplicate-job"),
        ("z,i,u,Waiting,5.0,", "", "no-task"),
        ("z,i,u,Waiting,5.0,", task("z", gpu=""), "no-gpu"),
        ("z,i,u,Waiting,5.0,", task("z", gpu="0.0"), "no-gpu"),
        ("z,i,u,Waiting,5.0,", task("z", gpu="half"), "bad-task"),
        ("z,i,u,Waiting,5.0,", task("z", gpu="-50"), "bad-task"),
        ("z,i,u,Waiting,5.0,", task("z", count="None"), "bad-task"),
        ("z,i,u,Waiting,5.0,", task("z", count="1e6") * 2, "bad-gpus"),
        ("z,i,u,Waiting,5.0,", task("z", start="", end=""), "never-started"),
        ("z,i,u,Running,5.0,", task("z", end=""), "never-ended"),
        ("z,i,u,Running,5.0,", task("z") + task("z", end="null"), "never-ended"),
        ("z,i,u,Failed,5.0,", task("z", start="2400.0"), "end-before-start"),
        ("z,i,u,Failed,5.0,", task("z", start="2300.0"), "duration-not-positive"),
        ("z,i,u,Failed,5.0", task("z"), "wrong-column-count"),
    ],
)
def test_pai_odd_jobs(job: str, tasks: str, reason: str) -> None:
    """Each oddity of a job or its tasks refuses the job under its reason; the good job is taken."""
    made = pai(f"{JOB}{job}\n", task("j") + tasks)
    assert (made.taken, made.refused) == (1, {reason: 1})
    assert [n.line for n in made.details] == [2]


def test_pai_files_are_found(tmp_path: Path) -> None:
    """The folder or the main file will do; what is missing, or there twice, is named."""
    (tmp_path / "pai_job_table.csv").write_text(JOB)
    with pytest.raises(TraceError, match=r"expected the task table beside it, a file pai_task_table.csv"):
        import_trace("alibaba-pai-2020", tmp_path)
    (tmp_path / "pai_task_table.csv").write_text(task("j"))
    (tmp_path / "pai_instance_table.csv.gz").write_bytes(
        gzip.compress(instance("j", "1200.0", "1500.0").encode())
    )
    for path in (tmp_path, tmp_path / "pai_job_table.csv"):
        assert import_trace("alibaba-pai-2020", path).taken == 1
    (tmp_path / "pai_task_table.csv.gz").write_bytes(gzip.compress(task("j").encode()))
    with pytest.raises(
        TraceError, match=r"expected one file pai_task_table.csv \(task\), got pai_task_table.csv, "
    ):
        import_trace("alibaba-pai-2020", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match=r"expected a file pai_job_table.csv in this folder, got none"):
        import_trace("alibaba-pai-2020", tmp_path / "empty")
    with pytest.raises(TraceError, match=r"cannot be read"):
        import_trace("alibaba-pai-2020", tmp_path / "absent" / "pai_job_table.csv")


def test_pai_tables_of_another_form() -> None:
    """A table with a header or another width is an error with its own file and line."""
    with pytest.raises(
        TraceError, match=r"^tasks.csv:1: expected the PAI task table, 10 comma-separated columns"
    ):
        pai(JOB, "j,worker\n")
    with pytest.raises(TraceError, match=r"^instances.csv:1: expected the PAI instance table, 9 "):
        pai(JOB, task("j"), "a,b\n")
    with pytest.raises(TraceError, match=r"^jobs.csv:1: expected the PAI job table, 6 "):
        pai("a,b\n", task("j"))


def test_pai_rows_of_companions_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    """They are left out, not in silence: the metadata and the log say how many and which is the first."""
    made = pai(JOB, task("j") + "j,worker,1.0\n", instance("j", "1200.0", "1800.0"))
    said = dict(made.instance.metadata)
    assert said["trace.task_rows_unreadable"] == (
        "1 of 2 rows of tasks.csv; the first: line 2: expected 10 columns, got 3"
    )
    assert "trace.instance_rows_unreadable" not in said
    assert "rows that cannot be read are left out: 1 of 2 rows of tasks.csv" in caplog.text


def test_pai_dates_are_read_in_its_zone() -> None:
    """1000 s are 1970-01-01 08:16:40 in UTC+8; a window from 08:20 leaves the job at 1500 s."""
    made = pai(JOB + "k,i,u,Failed,1500.0,\n", task("j") + task("k"), time_from="1970-01-01T08:20")
    assert (made.taken, made.refused) == (1, {"outside-window": 1})
