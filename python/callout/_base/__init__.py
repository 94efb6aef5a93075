# SPDX-License-Identifier: Apache-2.0
"""Holds what every other package uses: errors, settings, loggers, options, patches, start and end of the runtime."""
