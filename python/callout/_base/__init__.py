# SPDX-License-Identifier: Apache-2.0
"""What every other room stands on: errors, settings, loggers, options, patches, and what may be passed in."""
