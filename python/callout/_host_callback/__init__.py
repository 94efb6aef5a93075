# SPDX-License-Identifier: Apache-2.0
"""What is behind `callout.host_callback`."""
