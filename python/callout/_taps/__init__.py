# SPDX-License-Identifier: Apache-2.0
"""Taps, and what is made of them: watches, checks, and the places where NaN begins."""
