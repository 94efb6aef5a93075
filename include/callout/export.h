// SPDX-License-Identifier: Apache-2.0
//
// Symbol visibility. The library is built with hidden visibility; every symbol that users link against carries
// CALLOUT_EXPORT.
#pragma once

/// Marks a symbol that the library exports.
#define CALLOUT_EXPORT [[gnu::visibility("default")]]
