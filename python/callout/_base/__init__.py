# SPDX-License-Identifier: Apache-2.0
"""The base of all other packages: errors, settings, loggers, options, patches, start and end of the runtime."""
