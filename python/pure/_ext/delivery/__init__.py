# SPDX-License-Identifier: Apache-2.0
"""Taps: sites, queues, the threads that drain them, and the barrier."""
