// SPDX-License-Identifier: Apache-2.0
//
// Matchers for Status and Result<T>: EXPECT_THAT(status, IsOk()), StatusIs(code, "part of the text"),
// IsOkAndHolds(value).
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "callout/status.h"

namespace callout {

inline void PrintTo(const Status& status, std::ostream* out) {
  *out << "Status(" << static_cast<int>(status.code()) << ", \"" << status.message() << "\")";
}

template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  if (result.ok()) {
    *out << "Result with " << ::testing::PrintToString(result.value());
  } else {
    PrintTo(result.status(), out);
  }
}

namespace internal {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const Result<T>& result) {
  return result.status();
}

inline bool Succeeded(const Status& status) { return status.ok(); }
template <typename T>
bool Succeeded(const Result<T>& result) {
  return result.ok();
}

MATCHER(IsOk, negation ? "is an error" : "is ok") { return Succeeded(arg); }

/// Matches errors. `message` is a part of the error's text, or a matcher for the whole text.
MATCHER_P2(StatusIs, code, message, "is an error with that code and text") {
  if (Succeeded(arg)) {
    *result_listener << "which is ok";
    return false;
  }
  const Status& status = StatusOf(arg);
  *result_listener << "with code " << static_cast<int>(status.code()) << " and text \"" << status.message() << '"';
  if (status.code() != code) return false;
  const std::string text(status.message());
  if constexpr (std::is_convertible_v<decltype(message), std::string>) {
    return text.find(message) != std::string::npos;
  } else {
    return ::testing::Matches(message)(text);
  }
}

MATCHER_P(IsOkAndHolds, value, "is ok and holds the value") {
  return arg.ok() &&
         ::testing::ExplainMatchResult(::testing::Matcher<decltype(arg.value())>(value), arg.value(), result_listener);
}

}  // namespace internal
}  // namespace callout
