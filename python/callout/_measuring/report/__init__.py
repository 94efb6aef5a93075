# SPDX-License-Identifier: Apache-2.0
"""What the numbers of callbacks mean, those of `callout.stats` and of a profile."""

from .facts import Facts as Facts
from .facts import facts_of_stats as facts_of_stats
from .facts import facts_of_summary as facts_of_summary
from .facts import queues_between as queues_between
from .report_text import Report as Report
from .report_text import make_report as make_report
from .rules import RULES as RULES
from .rules import Finding as Finding
