# SPDX-License-Identifier: Apache-2.0
"""The process: forks, exit, threads, and the watchdog."""
