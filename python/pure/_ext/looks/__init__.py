# SPDX-License-Identifier: Apache-2.0
"""What looks at a tap's value and sends nothing."""
