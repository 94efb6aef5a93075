# SPDX-License-Identifier: Apache-2.0
"""JAX primitives. Each file has one, in the order: primitive, abstract eval, eager, lowering, batching, derivatives."""
