# SPDX-License-Identifier: Apache-2.0
"""The sinks, a file a kind."""
