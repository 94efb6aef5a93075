# SPDX-License-Identifier: Apache-2.0
"""Behind `callout.ffi`: signatures of targets, layouts, attributes."""
