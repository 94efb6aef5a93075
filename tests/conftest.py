# SPDX-License-Identifier: Apache-2.0
"""Limits the processor time of every test, and runs a sample of the tests on request."""

from limited import pytest_configure, pytest_runtest_protocol  # noqa: F401
from sampled import pytest_addoption, pytest_collection_modifyitems  # noqa: F401
