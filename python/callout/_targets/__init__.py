# SPDX-License-Identifier: Apache-2.0
"""What programs call: functions, registered names and sinks, as the core's callbacks."""
