# SPDX-License-Identifier: Apache-2.0
"""Tests that programs of modern JAX over the devices of two processes do the same as in one process."""

from collections import Counter

import ffi_calls
import numpy as np
import pytest
from distributed_modern import CALLS, TRANSFORMATIONS
from worker_pairs import DOUBLE, PARTS, WHOLE, both, run_alone, run_pair

pytestmark = pytest.mark.slow  # four groups of processes run once for all of these tests


@pytest.fixture(scope="module")
def modern_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modern")
    ffi_calls.build(folder)
    return folder


@pytest.fixture(scope="module")
def modern_calls(modern_folder):
    return run_pair("modern calls", modern_folder)


@pytest.fixture(scope="module")
def modern_taps(modern_folder):
    return run_pair("modern taps", modern_folder)


@pytest.fixture
def modern(request, name):
    """Returns what the entry point `name` does in each of two processes that share the devices."""
    return request.getfixturevalue("modern_calls" if name in CALLS else "modern_taps")


@pytest.fixture(scope="module")
def calls_alone(modern_folder):
    return run_alone("modern calls", modern_folder)


@pytest.fixture(scope="module")
def taps_alone(modern_folder):
    return run_alone("modern taps", modern_folder)


@pytest.fixture
def one_process(request, name):
    """Returns what the entry point `name` does in a single process that has all devices."""
    return request.getfixturevalue("calls_alone" if name in CALLS else "taps_alone")


def elements(heard, factor=1):
    return Counter(factor * value for value in np.ravel(heard).tolist())


MODERN = ["pure", "io", "buffer", "tap", "debug", "ordered debug", "threaded"]
IN_FORMS = [(name, form) for name in MODERN for form in ("scan", "while", "vmap", "remat")]
IN_FORMS.remove(("io", "remat"))  # JAX rejects the combination, too


@pytest.mark.parametrize(("name", "form"), IN_FORMS)
def test_transformed_callbacks_in_shard_map_over_explicit_axes(modern, name, form):
    for rank, parts in enumerate(PARTS):
        results, heard = modern[rank][f"{name} in {form}"]
        factor = {"scan": 4, "while": 4, "vmap": 2, "remat": 8}[form]
        assert results == [[factor * v for v in part] for part in parts]
        expected = elements(parts)
        if form in ("scan", "while"):
            expected += elements(parts, 2)
        elif form == "remat" and name not in ("pure", "buffer", "threaded"):
            expected += elements(parts)  # the second computation sends them again, as with jax.debug.callback
        assert elements(heard) == expected
        if form == "scan" and name in ("ordered debug", "threaded"):
            assert all(heard.index(part) < heard.index([2 * v for v in part]) for part in parts)


@pytest.mark.parametrize("name", ["pure", "debug", "ordered debug"])
def test_programs_over_two_meshes_call_in_one_process(modern, name):
    both_doubled = [[[4 * v for v in part] for part in parts] for parts in PARTS]
    assert both(modern, f"{name} over two meshes") == [[both_doubled[0], [WHOLE, WHOLE]], [both_doubled[1], []]]
    (first, heard), (second, others) = both(modern, f"{name} before and after a resharding")
    for results in (first, second):
        assert sorted(set(np.ravel(results))) == [4 * v for v in WHOLE]
    assert (heard, others) == ([WHOLE, DOUBLE], [])


@pytest.mark.parametrize("name", ["pure", "debug", "ordered debug"])
def test_every_process_gets_the_content_of_mutable_arrays(modern, name):
    for rank, parts in enumerate(PARTS):
        results, heard = modern[rank][f"{name} of a mutable array"]
        assert results == [[6 * v for v in part] for part in parts]
        assert sorted(heard) == [[3 * v for v in part] for part in parts]


TAPS = ["tap", "ordered tap", "local tap", "named tap", "threaded", "id_tap", "sink", "watch", "check", "locate_nans"]
FORMS = [*(f"in {form}" for form in TRANSFORMATIONS), "over two meshes", "before and after a resharding"]
REFUSED = {
    "io in remat": "NotImplementedError",
    "ordered io in remat": "NotImplementedError",
    "ordered io in vmap": "ValueError",
    "hcb call in vmap": "NotImplementedError",
}  # one process rejects them, too, and JAX's own callbacks the first three


@pytest.mark.parametrize("name", [*CALLS, *TAPS])
def test_one_process_rejects_what_the_manual_lists(one_process, name):
    refused = {key: saw for key, saw in one_process.items() if isinstance(saw, str) and key.startswith(f"{name} in ")}
    assert refused == {key: error for key, error in REFUSED.items() if key.startswith(f"{name} in ")}


@pytest.mark.parametrize("form", [*FORMS, "of a mutable array"])
@pytest.mark.parametrize("name", [*CALLS, *TAPS])
def test_two_processes_match_one(modern, one_process, name, form):
    key = f"{name} {form}"
    if key in REFUSED:
        assert [saw[key] for saw in (*modern, one_process)] == [REFUSED[key]] * 3
        return
    (first, heard_first), (second, heard_second) = both(modern, key)
    results, heard = one_process[key]
    assert [*first, *second] == results
    assert Counter(map(str, [*heard_first, *heard_second])) == Counter(map(str, heard))
