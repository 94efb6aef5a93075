# SPDX-License-Identifier: Apache-2.0
"""Progress bars as text: what tqdm has written, frame by frame."""

import io
import re

import callout
from callout.progress import progress

_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_FRAME = re.compile(r"(?:(?P<desc>.*?): +)?(?:\d+%\|.*?\| *)?(?P<done>\d+)(?:/(?P<total>\d+)|it) \[(?P<tail>.*)\]")


class Frame:
    """One drawing of one bar."""

    def __init__(self, text):
        found = _FRAME.fullmatch(text)
        assert found, f"not a bar: {text!r}"
        self.desc, self.done = found["desc"], int(found["done"])
        self.total = None if found["total"] is None else int(found["total"])
        self.fields = dict(re.findall(r"(\w+)=([^,]+)", found["tail"]))

    def __repr__(self):
        return f"{self.desc}: {self.done}/{self.total} {self.fields}"


class Screen(io.StringIO):
    """Where bars are drawn."""

    def frames(self, desc=None):
        """All that was drawn until now, of one bar or of all."""
        callout.barrier_wait(timeout=60)
        texts = re.split(r"[\r\n]", _CONTROL.sub("", self.getvalue()))
        frames = [Frame(text.strip()) for text in texts if text.strip()]
        return [frame for frame in frames if desc is None or frame.desc == desc]

    def bars(self, desc=None):
        """How many bars there were: each is drawn at 0 once."""
        return sum(frame.done == 0 for frame in self.frames(desc))

    def ends(self, desc=None):
        """(done, total) of the last drawing."""
        last = self.frames(desc)[-1]
        return last.done, last.total

    def like_jax_tqdm(self, **more):
        """Arguments of the drop-ins."""
        return {"file": self, "tqdm_type": "std", **more}

    def bar(self, n=None, desc=None, **more):
        """`progress` that draws here, each time that it may."""
        return progress(n, desc, file=self, tqdm_type="std", mininterval=0, **more)
