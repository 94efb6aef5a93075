# SPDX-License-Identifier: Apache-2.0
"""What programs call: functions, names and sinks as callbacks, and the custom calls that carry them."""
