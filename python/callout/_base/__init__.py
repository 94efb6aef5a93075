# SPDX-License-Identifier: Apache-2.0
"""What every other room stands on: errors, settings, loggers, options, patches, and the start and end of the runtime."""
