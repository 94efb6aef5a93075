# SPDX-License-Identifier: Apache-2.0
"""Writes and reads exported programs."""
