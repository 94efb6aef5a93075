# SPDX-License-Identifier: Apache-2.0
"""Tests a long run in parts (ci/parts.sh): parts that passed are skipped later, and the table has the result of each."""

import os
import re
import signal
from pathlib import Path

import limited
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "ci"
RUN = f"""
set -euo pipefail
source {FOLDER}/parts.sh
begin_parts logs "$KEY"
part first bash -c 'echo first >> ran'
part second bash -c 'echo second >> ran; ((OK)) || exit 3'
part third bash -c 'echo third >> ran; echo "third: SKIPPED: no device"'
end_parts
"""


@pytest.fixture
def run(tmp_path):
    """Runs the parts; returns the exit status, the parts that ran, and the table's rows: (name, status, why)."""

    def run(script=RUN, **environment):
        (tmp_path / "ran").write_text("")
        # A shell may start background jobs with Ctrl-C ignored, and bash then cannot trap it.
        done = limited.run(
            ["env", "--default-signal=INT", "bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "KEY": "a", "OK": "1", "PARTS": "", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            start_new_session=True,
        )
        rows = re.findall(r"^(\w+) +(ok|skipped|FAILED|interrupted) +\d+ s  (.*)$", done.stdout, re.MULTILINE)
        return done, (tmp_path / "ran").read_text().split(), rows

    return run


def test_all_parts_run_and_a_skipped_one_has_a_reason(run):
    done, ran, rows = run()
    assert done.returncode == 0
    assert ran == ["first", "second", "third"]
    assert rows == [("first", "ok", ""), ("second", "ok", ""), ("third", "skipped", "third: SKIPPED: no device")]
    assert done.stdout.splitlines()[-1] == "::: of 3 parts 2 passed, 1 skipped something, 0 failed"


def test_a_failing_part_stops_no_other_and_fails_the_run(run):
    done, ran, rows = run(OK="0")
    assert done.returncode == 1
    assert ran == ["first", "second", "third"]
    assert ("second", "FAILED", "see logs/second.log") in rows


def test_passed_parts_are_skipped_until_the_key_changes(run):
    run(OK="0")
    done, ran, rows = run()
    assert done.returncode == 0
    assert ran == ["second", "third"]
    assert [row[:2] for row in rows] == [("first", "ok"), ("second", "ok"), ("third", "skipped")]
    assert run(KEY="b")[1] == ["first", "second", "third"]


def test_parts_are_chosen_by_name_and_others_keep_their_rows(run):
    run(OK="0")
    done, ran, _ = run(PARTS="third")
    assert ran == ["third"]
    assert done.returncode == 1  # the second part failed before
    done, ran, _ = run(PARTS="fourth")
    assert (done.returncode, ran) == (1, [])
    assert done.stderr == "no part fourth; there are: first second third\n"


def test_an_interrupted_run_prints_its_table_and_can_be_continued(run):
    # Ctrl-C reaches the whole process group: the script and its part.
    done, ran, rows = run("export GROUP=$$" + RUN.replace("exit 3", "kill -INT -- -$GROUP"), OK="0")
    assert done.returncode == -signal.SIGINT
    assert ran == ["first", "second"]
    assert [row[:2] for row in rows] == [("first", "ok"), ("second", "interrupted")]
    assert run()[1] == ["second", "third"]
