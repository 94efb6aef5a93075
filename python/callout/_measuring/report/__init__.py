# SPDX-License-Identifier: Apache-2.0
"""Reports explain the numbers of `callout.stats` and of a profile."""

from __future__ import annotations

import textwrap

from .. import tables
from .facts import CallbackFacts, Facts
from .facts import facts_of_stats as facts_of_stats
from .facts import facts_of_summary as facts_of_summary
from .facts import queues_between as queues_between
from .rules import RULES, Finding

_WIDTH = 100
_MOST_CALLBACKS = 10


class Report:
    """Names the callbacks that took the time and the queues that blocked programs, and suggests changes; see `str()`."""

    def __init__(self, facts: Facts, findings: tuple[Finding, ...], left_out: int = 0):
        self.facts = facts
        self.findings = findings
        self.left_out = left_out

    def __str__(self) -> str:
        return "\n\n".join(part for part in (self._head(), _table(self.facts), *self._findings()) if part)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return tables.as_html(str(self))

    def _head(self) -> str:
        facts = self.facts
        if not facts.callbacks:
            return "No callback has run."
        count = len(facts.callbacks)
        text = f"{count} callback{'s' if count > 1 else ''}, {tables.duration(facts.host)} on the host"
        if facts.seconds:
            held = sum(one.device_wait or 0.0 for one in facts.callbacks)
            text += f" in a profile of {tables.duration(facts.seconds)}; programs were held {tables.duration(held)}"
        else:
            text += ", since the process began. A profile (callout.profile) tells more"
        if self.left_out:
            text += f". {self.left_out} events did not fit: the numbers are too low (max_events=)"
        return textwrap.fill(text + ".", _WIDTH)

    def _findings(self) -> list[str]:
        if not self.facts.callbacks:
            return []
        if not self.findings:
            return ["Nothing stands out."]
        return [_text(number, finding) for number, finding in enumerate(self.findings, 1)]


def _text(number: int, finding: Finding) -> str:
    begin = f"{number}. "
    about = "" if finding.text.startswith(finding.label) else f"'{finding.label}' "
    first = about + finding.text
    lines = [textwrap.fill(begin + first[0].upper() + first[1:], _WIDTH, subsequent_indent="   ")]
    lines += [textwrap.fill(f"   - {each}", _WIDTH, subsequent_indent="     ") for each in finding.advice]
    return "\n".join(lines)


def _row(one: CallbackFacts, whole: Facts) -> tuple[object, ...]:
    share = one.host / whole.host if whole.host else 0.0
    numbers = (one.count, tables.size(one.bytes), tables.duration(one.host), tables.percent(share))
    held = "" if one.device_wait is None else tables.duration(one.device_wait)
    return (one.label, *numbers, tables.duration(one.mean_host), held, one.drops)


def _table(facts: Facts) -> str:
    header = ("callback", "times", "bytes", "host", "share", "each", "held", "dropped")
    rows = [_row(one, facts) for one in facts.callbacks[:_MOST_CALLBACKS]]
    more = len(facts.callbacks) - _MOST_CALLBACKS
    if not rows:
        return ""
    return tables.aligned(header, rows) + (f"\nand {more} more" if more > 0 else "")


def make_report(facts: Facts, left_out: int = 0) -> Report:
    """Applies all rules to `facts`."""
    return Report(facts, tuple(finding for rule in RULES for finding in rule(facts)), left_out)
