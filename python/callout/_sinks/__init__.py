# SPDX-License-Identifier: Apache-2.0
"""What the sinks of `callout.sinks` are made of, and those that are more than a maker."""
