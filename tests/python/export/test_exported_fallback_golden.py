# SPDX-License-Identifier: Apache-2.0
"""Tests that programs exported by earlier versions do the same by JAX's own callbacks as by custom calls."""

import golden_runs
import jax
import pytest
import settings
import tpu_on_cpu
from callout.progress._bars import board
from core_only import has_core

pytestmark = pytest.mark.cpu_only("it runs programs for a CPU")


@pytest.fixture(autouse=True)
def _always():
    with settings.fallback("always"):
        yield


# Cases that JAX's callbacks treat differently: docs/fallback.md.
_DIFFER = {
    "devices_watch": "a watch collects its value on one device",
    "check_devices": "so does a check",
    "nans_devices": "so do places of NaN",
}
_NATIVE = (
    "devices_local",
    "buffer_aliases",
    "buffer_side_effect",
    "buffer_capturable",
    "cpp_embedded",
    "cpp_embedded_lanes",
)


def _is_carried(name):
    if name in (*_DIFFER, *_NATIVE) or golden_runs.all_cases()[name].platforms == ("cuda",):
        return False
    if tpu_on_cpu.IS_USED and name.startswith("devices_"):
        return False  # the call that replaces sends and receives has no shardings
    return has_core() or not name.startswith("native")


_OTHERS = list(filter(_is_carried, golden_runs.all_cases()))


@pytest.fixture(scope="module")
def bound(tmp_path_factory, handlers):
    del handlers
    with golden_runs.Bound(tmp_path_factory.mktemp("golden")) as bound:
        yield bound
    board.close()  # JAX's callbacks cannot tell runs apart, so the bar of a map's remainder stays open


@pytest.mark.parametrize("name", _OTHERS)
def test_golden_programs_do_the_same_as_by_custom_calls(bound, name):
    one, program = golden_runs.all_cases()[name], golden_runs.loaded(name)
    with jax.enable_x64(one.x64):
        text = jax.jit(program.call).lower(*golden_runs.arguments_of(one)).as_text()
    assert "callout.v" not in text or tpu_on_cpu.IS_USED  # tpu_on_cpu makes calls of sends and receives
    wanted = {key: value for key, value in golden_runs.expected()[name].items() if key != "by"}
    assert golden_runs.run(name, program.call, bound) == wanted


@pytest.mark.skipif(not has_core(), reason="there is no native path on any platform")
@pytest.mark.usefixtures("bound")
def test_native_only_features_stay_native():
    one, program = golden_runs.all_cases()["buffer_aliases"], golden_runs.loaded("buffer_aliases")
    assert "callout.v1.buffer" in jax.jit(program.call).lower(*golden_runs.arguments_of(one)).as_text()
