// SPDX-License-Identifier: Apache-2.0
//
// Symbol visibility. The library is built with hidden visibility; whatever a user links against carries CALLOUT_EXPORT.
#pragma once

/// What the library exports.
#define CALLOUT_EXPORT [[gnu::visibility("default")]]
