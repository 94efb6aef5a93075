# SPDX-License-Identifier: Apache-2.0
"""Runs callbacks and taps by JAX's own callbacks on platforms without a native path: see docs/fallback.md."""
