# SPDX-License-Identifier: Apache-2.0
"""Samples the tests for a first look: of each test function, only some parameter sets run.

`pytest --parameter-sets 4` runs at most four sets of each function: those that together have the most different values,
and always the same ones. Without the option all run, and functions with the mark `every_set` are never sampled.
tests/conftest.py has pytest call the hooks.
"""

import argparse
import zlib
from collections import defaultdict


def positive(text):
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def pytest_addoption(parser):
    parser.addoption(
        "--parameter-sets",
        type=positive,
        metavar="N",
        help="run at most N parameter sets of each test function; default: all",
    )


def chosen(items, count):
    """Returns `count` items in their own order, each chosen for the most parameter values that no earlier choice has."""
    values = {item: {(name, str(index)) for name, index in item.callspec.indices.items()} for item in items}
    # A checksum breaks ties, because neighbors have most values in common.
    left = sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode()))
    seen, taken = set(), set()
    while left and len(taken) < count:
        best = max(left, key=lambda item: len(values[item] - seen))
        left.remove(best)
        seen |= values[best]
        taken.add(best)
    return [item for item in items if item in taken]


def pytest_collection_modifyitems(config, items):
    count = config.getoption("--parameter-sets")
    if count is None:
        return
    functions = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("every_set"):
            functions[item.parent, item.originalname].append(item)
    left_out = set()
    for of_one in functions.values():
        left_out.update(set(of_one) - set(chosen(of_one, count)))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
