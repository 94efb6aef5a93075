# SPDX-License-Identifier: Apache-2.0
"""Runs the manual's examples that need a GPU, unchanged, in the order of their pages."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

from rows import ON_SOFTWARE, Group, NotRunError, gpu, need

GROUP = Group("manual")
_ROOT = Path(__file__).parents[3]
# The packages that a page's examples need.
_PAGES = {
    "buffers.md": ("torch",),
    "cuda.md": (),
    "cuda_callbacks.md": ("cupy", "torch", "numba_cuda"),
    "numba_cuda.md": ("numba_cuda",),
}


def _names() -> dict[str, Any]:
    """Returns names that pages assume: modules, and arrays from their text."""
    import callout
    import jax
    import jax.numpy as jnp
    import numpy as np
    from callout.buffer_callback import buffer_callback

    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np, "callout": callout, "buffer_callback": buffer_callback}
    names.update(shape=jax.ShapeDtypeStruct((4,), "float32"), a=2 * jnp.eye(4), b=jnp.ones(4))
    return names


def _run(page: str) -> str:
    import callout

    gpu()
    if ON_SOFTWARE:
        raise NotRunError("its examples have machine code: needs hardware")
    names = _names()
    for package in _PAGES[page]:
        names[package] = need(package)
    sys.path.insert(0, str(_ROOT / "scripts"))
    path = _ROOT / "docs" / page
    blocks = [each for each in importlib.import_module("doc_blocks").blocks(path) if each.mark == "needs a GPU"]
    for block in blocks:
        program = "\n" * (block.line - 1) + block.code
        exec(compile(program, path, "exec"), names)
        callout.barrier_wait()
    return f"{len(blocks)} examples"


for _page in _PAGES:
    GROUP.row(_page)(functools.partial(_run, _page))
