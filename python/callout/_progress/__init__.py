# SPDX-License-Identifier: Apache-2.0
"""Behind `callout.progress`: what a loop's body carries, how such loops are compiled, and the bars on the host."""
