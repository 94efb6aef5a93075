# SPDX-License-Identifier: Apache-2.0
"""Tests which parameter sets of each test function `make test` runs."""

import argparse
import itertools
from types import SimpleNamespace

import pytest
from sampled import chosen, positive, pytest_collection_modifyitems


def items(**parameters):
    """Makes a test for each combination of parameter values: counts of 2 and 3 make six tests."""
    names, counts = list(parameters), [range(count) for count in parameters.values()]
    return [
        Item(nodeid=f"test[{'-'.join(map(str, values))}]", callspec=SimpleNamespace(indices=indices))
        for values in itertools.product(*counts)
        for indices in [dict(zip(names, values, strict=True))]
    ]


class Item(SimpleNamespace):
    """The part of a pytest item that the sampling reads."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__
    parent = None
    originalname = "test"
    marks = ()

    def get_closest_marker(self, name):
        return name if name in self.marks else None


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
def test_all_sets_run_if_there_are_few(count):
    tests = items(dtype=2, shape=3)
    assert chosen(tests, count) == tests


@pytest.mark.parametrize(("count", "marks", "left"), [(2, (), 3), (2, ("every_set",), 5), (None, (), 5)])
def test_functions_are_sampled_on_request_unless_marked(count, marks, left):
    tests, deselected = items(dtype=4), []
    for item in tests:
        item.marks = marks
    alone = Item(nodeid="other", originalname="other")
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    collected = [*tests, alone]
    pytest_collection_modifyitems(SimpleNamespace(getoption={"--parameter-sets": count}.get, hook=hook), collected)
    assert (len(collected), alone in collected, len(deselected)) == (left, True, 5 - left)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", ""])
def test_fewer_sets_than_one_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"expected a number of at least 1, got '{text}'"):
        positive(text)
