# SPDX-License-Identifier: Apache-2.0
"""What stands in JAX: hooks, and the ends of programs."""
