# SPDX-License-Identifier: Apache-2.0
"""Tests what `ci/tpu_check.sh` finds in the text of a compiled program, without the compiler."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest
import tpu_programs

PATH = Path(__file__).parents[2] / "tpu" / "check.py"
ATTRIBUTES = 'frontend_attributes={_xla_host_transfer_handler_name="pjrt_rendezvous",_xla_host_transfer_rendezvous='
COMPILED = f"""
%body (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0:T(128)}} parameter(0)
  %tap.1 = (f32[8]{{0}}, u32[], token[]) send(%p, %t), channel_id=1, {ATTRIBUTES}"2"}}
  ROOT %tap.2 = token[] send-done(%tap.1), channel_id=1, {ATTRIBUTES}"2"}}
}}
"""
LOWERED = '%1 = "stablehlo.send"(%0) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>}>'
TAP = tpu_programs.PROGRAMS[0]


@pytest.fixture(scope="module")
def check():
    # The script sets environment variables that libtpu and JAX read.
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "TPU_SKIP_MDS_QUERY",
            "TPU_WORKER_HOSTNAMES",
            "TPU_ACCELERATOR_TYPE",
            "ALLOW_MULTIPLE_LIBTPU_LOAD",
            "JAX_PLATFORMS",
        ):
            patch.setenv(name, "kept")
        patch.setattr(sys, "path", list(sys.path))
        spec = importlib.util.spec_from_file_location("tpu_check", PATH)
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "tpu_check", module)
        spec.loader.exec_module(module)
        yield module


def test_a_program_as_it_should_be_has_no_problem(check):
    found = check.find(COMPILED)
    assert (found.sends, found.receives, found.collectives, found.channels) == (1, 0, 0, {2})
    assert check.compare(TAP, LOWERED, found) == []


RECEIVE = "  %r = (f32[], u32[], token[]) recv(%t), channel_id=2\n  %d = (f32[], token[]) recv-done(%r)\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (COMPILED.replace("send(", "copy("), "send: expected 1, written 1, compiled 0"),
        (COMPILED.replace("send-done(", "copy("), "1 send, 0 send-done"),
        (COMPILED + RECEIVE, "recv: expected 0, written 0, compiled 1"),
        (COMPILED + "  %a = f32[8]{0} all-gather(%p)\n", "1 collectives, expected none"),
        (COMPILED + "  %a = (f32[2], f32[8]) all-gather-start(%p)\n", "1 collectives, expected none"),
        (COMPILED.replace('"2"', '"3"'), r"channels: written \[2\], compiled \[3\]"),
        (COMPILED.replace("pjrt_rendezvous", "other"), "host transfers go to 'other'"),
        (COMPILED + '  %c = () custom-call(), custom_call_target="callout.v1.tap"\n', "calls callout.v1.tap"),
    ],
)
def test_each_deviation_is_a_problem(check, text, problem):
    problems = "; ".join(check.compare(TAP, LOWERED, check.find(text)))
    assert re.search(problem, problems)


def test_a_missing_gather_is_found(check):
    gathering = dataclasses.replace(TAP, gathers=True)
    assert check.compare(gathering, LOWERED, check.find(COMPILED)) == ["0 collectives, expected some"]
