# SPDX-License-Identifier: Apache-2.0
"""Limits the processor time of every test."""

from limited import pytest_configure, pytest_runtest_protocol  # noqa: F401
