# SPDX-License-Identifier: Apache-2.0
"""Tests the digest of a Numba kernel: equal for equal code, different after every change of its computation."""

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from callout._native.numba_kernel import content_of  # noqa: E402 - it imports Numba

STEP = 1


def closure(step, helper=None):
    @numba.njit
    def kernel(x, out):
        out[0] = x[0] + step if helper is None else helper(x[0])

    return kernel


def helper(step):
    return numba.njit(lambda v: v + step)


SAME = [
    (lambda: closure(1), lambda: closure(1)),
    (lambda: closure(1, helper(2)), lambda: closure(1, helper(2))),
    (lambda: closure(np.arange(3)), lambda: closure(np.arange(3))),
]
DIFFERENT = [
    (lambda: numba.vectorize(lambda a: a + 1), lambda: numba.vectorize(lambda a: a - 1)),
    (lambda: closure(1), lambda: closure(2)),
    (lambda: closure(1), lambda: closure(1.0)),
    (lambda: closure(np.arange(3)), lambda: closure(np.arange(4))),
    (lambda: closure((1, "a")), lambda: closure((1, "b"))),
    (lambda: closure(1, helper(2)), lambda: closure(1, helper(3))),
    (lambda: numba.njit(lambda x, out: None), lambda: numba.njit(fastmath=True)(lambda x, out: None)),
    (lambda: numba.njit(lambda x, o: x[0] + 1), lambda: numba.njit(lambda x, o: x[0] - 1)),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=range(len(SAME)))
def test_the_same(one, other):
    assert content_of(one()) == content_of(other())


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different(one, other):
    assert content_of(one()) != content_of(other())


def test_globals_count(monkeypatch):
    @numba.njit
    def kernel(x, out):
        out[0] = x[0] + STEP

    before = content_of(kernel)
    monkeypatch.setitem(globals(), "STEP", 2)
    assert content_of(kernel) != before


def test_functions_that_refer_to_each_other():
    @numba.njit
    def even(n):
        return True if n == 0 else odd(n - 1)

    @numba.njit
    def odd(n):
        return False if n == 0 else even(n - 1)

    assert content_of(even) == content_of(even)
    assert content_of(even) != content_of(odd)
