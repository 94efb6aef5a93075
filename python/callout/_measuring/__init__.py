# SPDX-License-Identifier: Apache-2.0
"""What was counted and timed: statistics, reports and profiles."""
