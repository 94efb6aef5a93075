# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.TensorBoard` writes event files."""

from __future__ import annotations

import fnmatch
import functools
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from ._native_sink import FileSink, Fsync, Path, fsync_text, of_this_process

_Kind = Literal["scalar", "histogram", "image", "text"]


class TensorBoard(FileSink):
    """Writes an event file that TensorBoard shows.

    The tag is the tap's name, or "name/leaf" for a value of several leaves. Leaves without dimensions become scalars,
    others histograms, unless `kinds` chooses another kind. An integer scalar leaf called "step" is the step.

    Example:
        >>> sink = callout.sinks.TensorBoard("runs")
        >>> y = jax.jit(lambda x: callout.tap(sink, x, name="loss"))(jnp.float32(0.5))
        >>> callout.barrier_wait()
        >>> import pathlib
        >>> len(list(pathlib.Path("runs").glob("events.out.tfevents.*")))
        1
    """

    def __init__(
        self,
        logdir: Path,
        *,
        kinds: Mapping[str, _Kind] | None = None,
        fsync: Fsync = "never",
        only_process: int | None = None,
        name: str = "tensorboard",
    ):
        """Begins a new event file.

        Args:
            logdir: the folder, created if missing. "{process}" in it becomes `jax.process_index()`.
            kinds: "scalar", "histogram", "image" or "text" for leaves or tags that match a pattern of the shell; the
                first match counts. An image is [height, width] or [height, width, 1, 3 or 4], or several of them, of
                uint8, bool or floats from 0 to 1. A text is UTF-8 in a uint8 array; zeros at its end are left out.
            fsync: "never", after each "batch", or a number: at most once in so many seconds.
            only_process: the process with this `jax.process_index()` alone writes; see `FileSink`.
            name: the sink's name in counters.

        Raises:
            RegistrationError: the folder or the file cannot be made.
        """
        if kinds is not None and not isinstance(kinds, Mapping):
            raise TypeError(f"callout.sinks.TensorBoard: kinds must be a dict of patterns and kinds, got {kinds!r}")
        for pattern, kind in (kinds or {}).items():
            if not isinstance(pattern, str) or kind not in get_args(_Kind):
                raise ValueError(
                    f"callout.sinks.TensorBoard: kinds must have patterns as keys and {list(get_args(_Kind))} as values, "
                    f"got {pattern!r}: {kind!r}"
                )
        self._kinds = tuple((kinds or {}).items())
        self.path = of_this_process(logdir)
        patterns = [f"{pattern}={kind}" for pattern, kind in (kinds or {}).items()]
        synced = fsync_text("TensorBoard", fsync)
        if not self._is_for_another_process(only_process, name=name):
            self._make("tensorboard", name, logdir=self.path, kinds=patterns, fsync=synced)

    _SHAPES = ("_kinds",)

    def _callout_check(self, sent: Any) -> None:
        for leaf, dtype, shape in zip(sent.names, sent.dtypes, sent.shapes, strict=True):
            if shape is not None:
                _check(self._kinds, leaf, dtype, shape, sent.label, sent.is_exact)


_FLOATS = {"float16", "float32", "float64", "bfloat16"}


@functools.lru_cache(maxsize=1024)  # an eager tap in a loop checks its leaves every time
def _check(
    kinds: tuple[tuple[str, _Kind], ...], leaf: str, dtype: str, shape: tuple[int, ...], label: str, is_exact: bool
) -> None:
    tag = f"{label}/{leaf}" if leaf else label
    kind = _kind_of(kinds, leaf, tag, len(shape))
    if kind is None or (leaf == "step" and not shape and "int" in dtype):
        return
    wanted = "real numbers" if dtype.startswith("complex") else _REFUSALS[kind](dtype, shape, is_exact)
    if wanted:
        raise ValueError(
            f"callout.sinks.TensorBoard: cannot write '{tag}' as {kind}: expected {wanted}, got {dtype}{list(shape)}"
        )


def _kind_of(kinds: tuple[tuple[str, _Kind], ...], leaf: str, tag: str, rank: int) -> _Kind | None:
    """Returns the kind that the core gives the leaf, or None if unsure: the core matches patterns by C's fnmatch."""
    for pattern, kind in kinds:
        if any(special in pattern for special in "[\\") or not f"{pattern}{tag}".isascii():
            return None
        if fnmatch.fnmatchcase(leaf, pattern) or fnmatch.fnmatchcase(tag, pattern):
            return kind
    return "histogram" if rank else "scalar"


def _not_scalar(_: str, shape: tuple[int, ...], is_exact: bool) -> str:
    """Returns "a scalar" if the shape is no scalar's. A batch of such shapes is no scalar, either: `is_exact` is unused."""
    del is_exact
    return "" if math.prod(shape) == 1 else "a scalar"


def _no_image(dtype: str, shape: tuple[int, ...], is_exact: bool) -> str:
    if dtype not in {"uint8", "bool"} | _FLOATS:
        return "an image of uint8, bool or floats from 0 to 1"
    rank = len(shape)
    fits = 2 <= rank <= 4 and (rank == 2 or shape[-1] in (1, 3, 4))
    could_fit = rank < 4 or fits
    if 0 not in shape and (fits or (could_fit and not is_exact)):
        return ""
    return "an image of [height,width], [height,width,1 or 3 or 4], or several as [n,...]"


def _no_text(dtype: str, shape: tuple[int, ...], is_exact: bool) -> str:
    if dtype == "uint8" and len(shape) <= 2 and (shape or not is_exact):
        return ""
    return "text as UTF-8 in uint8[bytes] or uint8[texts,bytes]"


_REFUSALS = {"scalar": _not_scalar, "histogram": lambda *_: "", "image": _no_image, "text": _no_text}
