# SPDX-License-Identifier: Apache-2.0
"""Makes targets from functions, names and sinks, and writes the custom calls by which programs call targets."""
