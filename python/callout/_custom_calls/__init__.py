# SPDX-License-Identifier: Apache-2.0
"""What XLA's custom calls carry, those of Callout and foreign ones: attributes, layouts, shardings."""
