// SPDX-License-Identifier: Apache-2.0
//
// Arrays as text, for callbacks that print or log their values. All functions are thread-safe; the GIL is not needed.
#pragma once

#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout {

/// Returns the text that `print` shows for the array in Python (NumPy 2.3 and later): 8 digits, lines of 75 characters,
/// long arrays cut; all digits of a scalar. An element type that NumPy lacks is written on one line, each element with
/// the fewest digits that tell it apart. InvalidArgument for tokens and dtypes that this library does not have.
CALLOUT_EXPORT Result<std::string> ArrayText(const callout_buffer& buffer);

/// Appends the array as JSON: nested lists, a number for a scalar; true and false; [re, im] for a complex number; the
/// strings "NaN", "Infinity" and "-Infinity". Each number has the fewest digits that read back as the same number.
/// Errors: those of ArrayText, and then nothing was appended.
CALLOUT_EXPORT Status AppendJson(const callout_buffer& buffer, std::string& out);

/// Appends `text` as a JSON string, quotes included. A byte that is not UTF-8 becomes U+FFFD.
CALLOUT_EXPORT void AppendJson(std::string_view text, std::string& out);

/// Appends the fewest digits that read back as the same number, in every locale. `number` must be finite.
CALLOUT_EXPORT void AppendJson(double number, std::string& out);

}  // namespace callout
