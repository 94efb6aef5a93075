# SPDX-License-Identifier: Apache-2.0
"""What becomes of custom calls, our own and foreign ones, in programs over several devices."""
