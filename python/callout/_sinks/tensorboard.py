# SPDX-License-Identifier: Apache-2.0
"""`callout.sinks.TensorBoard`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .. import _ext
from .file_sink import FileSink, Fsync, Path, fsync_seconds, of_this_process

Kind = Literal["scalar", "histogram", "image", "text"]
_KINDS = ("scalar", "histogram", "image", "text")  # in the order of the core's


class TensorBoard(FileSink):
    """Writes an event file that TensorBoard shows.

    The tag is the tap's name, or "name/leaf" for a value of several leaves. Leaves without dimensions are scalars, others
    histograms, unless `kinds` says something else. An integer scalar leaf called "step" is the step.
    """

    def __init__(
        self,
        logdir: Path,
        *,
        kinds: Mapping[str, Kind] | None = None,
        fsync: Fsync = "never",
        name: str = "tensorboard",
    ):
        """Begins a new event file.

        Args:
            logdir: the folder, created if missing. "{process}" in it becomes `jax.process_index()`.
            kinds: "scalar", "histogram", "image" or "text" for leaves or tags that match a pattern, as the shell has them;
                the first one counts. An image is [height, width] or [height, width, 1, 3 or 4], or several of them,
                of uint8, bool or floats from 0 to 1. A text is UTF-8 in a uint8 array; zeros at its end are left out.
            fsync: "never", after each "batch", or at most every so many seconds.
            name: what statistics call it.

        Raises:
            RegistrationError: the folder or the file cannot be made.
        """
        if kinds is not None and not isinstance(kinds, Mapping):
            raise TypeError(f"callout.sinks.TensorBoard: kinds must be a dict of patterns and kinds, got {kinds!r}")
        for pattern, kind in (kinds or {}).items():
            if not isinstance(pattern, str) or kind not in _KINDS:
                raise ValueError(
                    f"callout.sinks.TensorBoard: kinds must have patterns as keys and {list(_KINDS)} as values, "
                    f"got {pattern!r}: {kind!r}"
                )
        self.path = of_this_process(logdir)
        patterns = [(pattern, _KINDS.index(kind)) for pattern, kind in (kinds or {}).items()]
        seconds = fsync_seconds("TensorBoard", fsync)
        self._callout_callback = _ext.make_tensorboard_sink(name, self.path, seconds, patterns)
