"""The command line of the stand-in srun."""

from __future__ import annotations

import pytest

from recipegen.standins.options import Task, UsageError, parse

ALLOCATION = ["local-01", "local-02", "local-03"]
JOB_SBATCH = [
    *("--overlap", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--wait=10", "--cpu-bind=none", "--mpi=none", "--export=ALL", "--nodes=2"),
    *("--ntasks=2", "--nodelist=local-03,local-02", "--job-name=prefill-0", "--output=/r/logs/prefill-0.%t.log"),
    *("bash", "/b/prefill.sh", "--x", "0"),
]


def test_what_job_sbatch_says() -> None:
    options = parse(JOB_SBATCH, ALLOCATION)
    assert options.command == ["bash", "/b/prefill.sh", "--x", "0"]
    assert options.hosts == ["local-02", "local-03"]
    assert options.tasks == [Task(0, 0, 0), Task(1, 1, 0)]
    assert (options.name, options.wait_s, options.kill_on_bad_exit) == ("prefill-0", 10, True)


@pytest.mark.parametrize(
    ("words", "hosts", "tasks"),
    [
        ("", ["local-01", "local-02", "local-03"], [(0, 0), (1, 0), (2, 0)]),
        ("--nodes=2", ["local-01", "local-02"], [(0, 0), (1, 0)]),
        ("--nodes=2 --ntasks=3", ["local-01", "local-02"], [(0, 0), (0, 1), (1, 0)]),
        ("--nodes=2 --ntasks-per-node=2", ["local-01", "local-02"], [(0, 0), (0, 1), (1, 0), (1, 1)]),
        ("--nodelist=local-[02-03]", ["local-02", "local-03"], [(0, 0), (1, 0)]),
        ("--nodes=2 --nodelist=local-03", ["local-01", "local-03"], [(0, 0), (1, 0)]),
    ],
)
def test_tasks_fill_nodes_in_blocks(words: str, hosts: list[str], tasks: list[tuple[int, int]]) -> None:
    options = parse([*words.split(), "true"], ALLOCATION)
    assert options.hosts == hosts
    assert [(task.node, task.local) for task in options.tasks] == tasks
    assert [task.rank for task in options.tasks] == list(range(len(tasks)))


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        ("--container-image=x true", "unrecognized option '--container-image=x'", 255),
        ("--nosuch true", "unrecognized option '--nosuch'", 255),
        ("-N1 true", "unrecognized option '-N1'", 255),
        ("--nodes true", "requires an argument", 255),
        ("--overlap=1 true", "doesn't allow an argument", 255),
        ("--nodes=x true", "Invalid --nodes specification", 255),
        ("--mpi=pmix true", "Invalid --mpi specification", 255),
        ("--export=NONE true", "only --export=ALL", 255),
        ("--nodes=4 true", "Requested node configuration is not available", 1),
        ("--nodelist=nosuch true", "Requested node configuration is not available", 1),
        ("--nodes=1 --nodelist=local-01,local-02 true", "Requested node configuration is not available", 1),
        ("--nodes=2 --ntasks=1 true", "do not fit", 1),
        ("--nodes=1", "No command given", 1),
    ],
)
def test_what_srun_refuses(words: str, message: str, code: int) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse(words.split(), ALLOCATION)
    assert caught.value.code == code
