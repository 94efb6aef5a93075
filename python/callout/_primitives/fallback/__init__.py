# SPDX-License-Identifier: Apache-2.0
"""Callbacks and taps by the way that JAX's own callbacks take, where there is no native path: see docs/fallback.md."""
