# SPDX-License-Identifier: Apache-2.0
"""Inspectors of the core in Python, with records that no program of JAX makes."""

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())


@pytest.fixture
def module(monkeypatch):
    """Imports a module of the core in Python, as one of a package of its own."""
    folder = ROOT / "python/pure/_ext"
    spec = importlib.util.spec_from_file_location("pure_inspected", folder / "__init__.py")
    package = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pure_inspected", package)
    spec.loader.exec_module(package)
    return lambda name: importlib.import_module(f"pure_inspected.{name}")


def test_more_lanes_than_a_number_tells_are_refused(module):
    masks = ",".join(["0", *(str(1 << extent) for extent in range(16))])
    payload = f"1;raise;ni;forward;0;16;{masks};0;log;16;0;m.py:3;;"
    nans = module("inspectors.located_nans").make_located_nans("nans", payload)
    arrays = [np.full(1, np.nan, np.float32), *(np.zeros(16, np.float32) for _ in range(16))]  # 2^64 lanes
    record = module("delivery.record")
    info = record.SiteInfo("site", [""] * len(arrays), has_offsets=False, has_step=False)
    with pytest.raises(module("failures").Failure, match="locate_nans has more lanes than 2\\^63 - 1") as raised:
        nans.inspect(record.Record(info, arrays, (), 0, 0, None, 0))
    assert raised.value.code == module("failures").INVALID_ARGUMENT
