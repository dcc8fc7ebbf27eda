"""What a batch script asks of the local scheduler."""

from __future__ import annotations

import pytest

from recipegen.errors import SubmissionRefused
from recipegen.scheduler.local_request import Request, expand_output, read_request

SCRIPT = """\
#!/usr/bin/env bash
#SBATCH --job-name=tiny
#SBATCH --nodes=3
# a comment
#SBATCH --time=1:30:00   # with a remark
#SBATCH --exclusive

echo hello
#SBATCH --nodes=9
"""


def read(script: str, *options: str) -> Request:
    return read_request(script, options, script_name="job.sbatch", run_dir="/r")


def test_directives_end_with_the_first_command() -> None:
    assert read(SCRIPT) == Request(nodes=3, time_limit_s=5400, name="tiny", output="/r/slurm-%j.out", work_dir="/r")


def test_options_win() -> None:
    request = read(SCRIPT, "--time=00:10:00", "--output=/x/%j", "--chdir=/y", "--comment=a", "--mem=0")
    assert request == Request(nodes=3, time_limit_s=600, name="tiny", output="/x/%j", work_dir="/y")


def test_what_is_left_out() -> None:
    assert read("#!/bin/bash\ntrue\n") == Request(nodes=1, time_limit_s=3600, name="job.sbatch", output="/r/slurm-%j.out", work_dir="/r")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 5400), ("2:30", 150), ("1:00:05", 3605), ("1-0", 86400), ("1-2:03", 93780), ("1-02:03:04", 93784)]
)
def test_time_limits(text: str, seconds: int) -> None:
    assert read("#!/bin/bash\n", f"--time={text}").time_limit_s == seconds


@pytest.mark.parametrize("option", ["--time=soon", "--time=0", "--time=", "--nodes=0", "--nodes=1-2", "--nodes=100000"])
def test_what_is_refused(option: str) -> None:
    with pytest.raises(SubmissionRefused, match=option.split("=", maxsplit=1)[0]):
        read("#!/bin/bash\n", option)


def test_a_script_begins_with_its_interpreter() -> None:
    with pytest.raises(SubmissionRefused, match="batch script"):
        read("echo\n")


def test_output_names() -> None:
    assert expand_output("/a%%b/%x-%j.out", "7", "tiny") == "/a%b/tiny-7.out"
