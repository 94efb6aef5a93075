# SPDX-License-Identifier: Apache-2.0
"""Functions that hostile programs name: traced, or registered, in this process."""

import callout
import hostile
import numpy as np
import pytest
import settings
from callout.buffer_callback import buffer_callback
from hostile import F32


@pytest.fixture(
    params=["auto", pytest.param("always", marks=pytest.mark.cpu_only("JAX's callbacks carry the programs there"))],
    ids=["native", "by_jax"],
)
def both_ways(request):
    """Runs each test on the native path and on JAX's callbacks, for exported programs."""
    with settings.fallback(request.param):
        yield


@pytest.fixture
def one_array(received):
    """Returns the name of a live function that takes taps of one array."""
    name, alive = hostile.name_in(lambda x: callout.tap(received.tap, x), 1.0)
    yield name
    del alive


@pytest.fixture
def tree(received):
    """Returns the name of a live function that takes taps of a dictionary."""
    name, alive = hostile.name_in(lambda x: callout.tap(received.tap, {"a": x, "b": x}), 1.0)
    yield name
    del alive


@pytest.fixture
def traced_call():
    """Returns the name of a live function that is called for one result."""
    name, alive = hostile.name_in(lambda x: callout.pure_callback(lambda x: x, F32, x), 1.0)
    yield name
    del alive


@pytest.fixture
def buffer_function():
    """Returns the name of a live function that fills one buffer."""

    def fill(ctx, out, x):
        np.asarray(out)[...] = np.asarray(x)

    name, alive = hostile.name_in(buffer_callback(fill, F32), 1.0)
    yield name
    del alive


@pytest.fixture
def registered(received):
    """Returns the name of a registered function that takes any values."""
    callout.register("hostile", lambda *leaves: received.append(leaves))
    yield "hostile"
    callout.unregister("hostile")
