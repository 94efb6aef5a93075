# SPDX-License-Identifier: Apache-2.0
"""Exported programs: what is written to them, and what is read from them."""
