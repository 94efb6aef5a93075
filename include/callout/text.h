// SPDX-License-Identifier: Apache-2.0
//
// Arrays as text, for callbacks that print or log what they get. All functions are thread-safe; the GIL is not needed.
#pragma once

#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout {

/// As `print` shows the array in Python (NumPy 2.3 and later): 8 digits, lines of 75 characters, long arrays cut; all
/// digits of a scalar. Elements that NumPy lacks have the fewest digits that tell them apart, on one line.
/// InvalidArgument for tokens and dtypes that this library does not have.
CALLOUT_EXPORT Result<std::string> ArrayText(const callout_buffer& buffer);

/// Appends the array as JSON: nested lists, a number for a scalar; true and false; [re, im] for a complex number; the
/// strings "NaN", "Infinity" and "-Infinity". The fewest digits that read back as the same number. Errors, after which
/// nothing was appended: as ArrayText.
CALLOUT_EXPORT Status AppendJson(const callout_buffer& buffer, std::string& out);

/// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD.
CALLOUT_EXPORT void AppendJson(std::string_view text, std::string& out);

/// Appends the fewest digits that read back as the same number, in every locale; `number` is finite.
CALLOUT_EXPORT void AppendJson(double number, std::string& out);

}  // namespace callout
