# SPDX-License-Identifier: Apache-2.0
"""Start and end of the runtime, and waiting for programs."""
