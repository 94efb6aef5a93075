# SPDX-License-Identifier: Apache-2.0
"""Parses progress bars from the text that tqdm has written, frame by frame."""

import io
import re

import callout
from callout.progress import progress

_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FRAME = re.compile(r"(?:(?P<desc>.*?): +)?(?:\d+%\|.*?\| *)?(?P<done>\d+)(?:/(?P<total>\d+)|it) \[(?P<tail>.*)\]")


class Frame:
    """One frame of one bar."""

    def __init__(self, text):
        found = _FRAME.fullmatch(text)
        assert found, f"not a bar: {text!r}"
        self.desc, self.done = found["desc"], int(found["done"])
        self.total = None if found["total"] is None else int(found["total"])
        self.fields = dict(re.findall(r"(\w+)=([^,]+)", found["tail"]))

    def __repr__(self):
        return f"{self.desc}: {self.done}/{self.total} {self.fields}"


class Screen(io.StringIO):
    """A stream on which bars are drawn."""

    def frames(self, desc=None):
        """Returns the frames drawn so far, of one bar or of all."""
        callout.barrier_wait(timeout=60)
        texts = re.split(r"[\r\n]", _CONTROL.sub("", self.getvalue()))
        frames = [Frame(text.strip()) for text in texts if text.strip()]
        return [frame for frame in frames if desc is None or frame.desc == desc]

    def bars(self, desc=None):
        """Returns the number of bars: each is drawn at 0 once."""
        return sum(frame.done == 0 for frame in self.frames(desc))

    def ends(self, desc=None):
        """Returns (done, total) of the last frame."""
        last = self.frames(desc)[-1]
        return last.done, last.total

    def like_jax_tqdm(self, **more):
        """Returns arguments of the drop-in functions for jax-tqdm's."""
        return {"file": self, "tqdm_type": "std", **more}

    def bar(self, n=None, desc=None, **more):
        """Returns `progress` drawing on this stream, as often as possible."""
        return progress(n, desc, file=self, tqdm_type="std", mininterval=0, **more)
