# SPDX-License-Identifier: Apache-2.0
"""JAX primitives, one a file, each in the order: primitive, abstract eval, eager, lowering, batching, derivatives."""
