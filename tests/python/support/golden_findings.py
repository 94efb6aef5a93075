# SPDX-License-Identifier: Apache-2.0
"""Golden programs with findings (checks that fail or warn, places where NaN begins), and programs of several shapes."""

from pathlib import Path
from typing import Any

import callout
import jax
import numpy as np
from golden_programs import EIGHT, SHARDED, Case

_MODEL = Path(__file__).with_name("golden_model.py")


def _model() -> dict[str, Any]:
    """Loads the functions of golden_model.py under a fixed file name, which their programs contain."""
    functions: dict[str, Any] = {}
    exec(compile(_MODEL.read_text(), _MODEL.name, "exec"), functions)
    return functions


_F = _model()
_MIXED = np.array([1, -2.5, 3], np.float32)
_GRID = np.array([[1, 2, 3], [4, 5, -6]], np.float32)


def _centred(x: Any) -> Any:
    x = callout.pure_callback("add_one", jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    return callout.tap("tap", x) - x.sum() / x.shape[0]


FINDINGS = {
    "check_raises": Case(_F["negative"], (_MIXED,), fails=True),
    "check_passes": Case(_F["negative"], (abs(_MIXED),)),
    "check_step": Case(_F["outside"], (_MIXED,), fails=True),
    "check_lanes": Case(_F["lanes"], (_GRID,), fails=True),
    "check_warns": Case(_F["warned"], (np.float32(0),)),
    "check_branches": Case(_F["warned_in_branches"], (_MIXED,)),
    "check_nan": Case(_F["became_nan"], (_MIXED,)),
    "check_gradient": Case(jax.grad(lambda x: _F["negative"](x).sum()), (abs(_MIXED),)),
    "check_devices": Case(_F["warned_in_branches"], (np.where(EIGHT == 5, -EIGHT, EIGHT),), sharded=SHARDED),
    "nans_line": Case(callout.locate_nans(_F["logarithm"]), (_MIXED,)),
    "nans_none": Case(callout.locate_nans(_F["logarithm"]), (abs(_MIXED),)),
    "nans_stop": Case(callout.locate_nans(_F["logarithm"], stop=True), (_MIXED,), fails=True),
    "nans_operation": Case(callout.locate_nans(_F["logarithm"], granularity="operation"), (_MIXED,)),
    "nans_infinite": Case(callout.locate_nans(_F["overflow"]), (np.array([1, 100], np.float32),)),
    "nans_only": Case(callout.locate_nans(_F["overflow"], infinities=False), (np.array([1, 100], np.float32),)),
    "nans_backward": Case(jax.grad(callout.locate_nans(_F["masked"])), (np.array([1, 0], np.float32),)),
    "nans_loop": Case(callout.locate_nans(_F["looped"]), (np.array([9, 2], np.float32),)),
    "nans_lanes": Case(jax.vmap(callout.locate_nans(_F["logarithm"])), (_GRID,)),
    "nans_devices": Case(
        callout.locate_nans(_F["logarithm"]), (np.where(EIGHT == 5, -EIGHT, EIGHT + 1),), sharded=SHARDED
    ),
    "shapes": Case(_centred, (EIGHT,), shape="b", shapes=({"b": 3}, {"b": 8})),
}
