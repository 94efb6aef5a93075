# SPDX-License-Identifier: Apache-2.0
"""Native code that is built while Python runs."""
