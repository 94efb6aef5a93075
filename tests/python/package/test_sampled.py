# SPDX-License-Identifier: Apache-2.0
"""`make test` runs some parameter sets of each test function: which ones."""

import itertools
from types import SimpleNamespace

import pytest
from sampled import chosen


def items(**parameters):
    """One test for each combination of so many values of each parameter."""
    names, counts = list(parameters), [range(count) for count in parameters.values()]
    return [
        SimpleNamespaceWithHash(nodeid=f"test[{'-'.join(map(str, values))}]", callspec=SimpleNamespace(indices=indices))
        for values in itertools.product(*counts)
        for indices in [dict(zip(names, values, strict=True))]
    ]


class SimpleNamespaceWithHash(SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def seen(taken, name):
    return {item.callspec.indices[name] for item in taken}


def test_few_sets_have_many_values():
    taken = chosen(items(dtype=3, shape=3, mode=2), 3)
    assert [len(seen(taken, name)) for name in ("dtype", "shape", "mode")] == [3, 3, 2]


def test_they_keep_their_order_and_are_the_same_each_time():
    tests = items(dtype=5, shape=7)
    taken = chosen(tests, 4)
    assert taken == [item for item in tests if item in taken]
    assert [item.nodeid for item in taken] == [item.nodeid for item in chosen(items(dtype=5, shape=7), 4)]


@pytest.mark.parametrize("count", [6, 7])
def test_all_are_taken_where_there_are_no_more(count):
    tests = items(dtype=2, shape=3)
    assert chosen(tests, count) == tests
