// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how the core reports failure. A good Status is one null pointer, so returning it costs nothing.
// Codes are the canonical ones that XLA FFI and PJRT use (src/core/frame/ffi_abi.cc asserts it).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "callout/export.h"

namespace callout {

/// Canonical codes of failures.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// "InvalidArgument"; "code 17" for a number that is none of StatusCode's.
CALLOUT_EXPORT std::string StatusCodeName(StatusCode code);

/// Success, or a code and a message.
class [[nodiscard]] CALLOUT_EXPORT Status {
 public:
  /// Success.
  Status() = default;
  /// A failure. kOk is success, and the message is dropped then.
  Status(StatusCode code, std::string message);
  /// The same code and message.
  Status(const Status& other) : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {}
  /// Leaves success behind.
  Status(Status&&) = default;
  /// Copies code and message.
  Status& operator=(const Status& other) {
    if (this != &other) error_ = other.error_ ? std::make_unique<Error>(*other.error_) : nullptr;
    return *this;
  }
  /// Leaves success behind.
  Status& operator=(Status&&) = default;
  ~Status() = default;

  /// Whether it is success.
  bool ok() const { return error_ == nullptr; }
  /// kOk if it is success.
  StatusCode code() const { return error_ ? error_->code : StatusCode::kOk; }
  /// Returns an empty text if ok. Borrowed: valid until the Status changes.
  std::string_view message() const { return error_ ? std::string_view(error_->message) : std::string_view(); }
  /// NUL-terminated, for C interfaces.
  const char* c_message() const { return error_ ? error_->message.c_str() : ""; }
  /// "Ok", or "InvalidArgument: the message".
  std::string ToString() const;

 private:
  struct Error {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Error> error_;
};

/// Writes ToString().
CALLOUT_EXPORT std::ostream& operator<<(std::ostream& stream, const Status& status);

/// Success.
inline Status OkStatus() { return Status(); }
/// Returns a failure with this code.
inline Status InvalidArgument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
/// Returns a failure with this code.
inline Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
/// Returns a failure with this code.
inline Status AlreadyExists(std::string message) { return {StatusCode::kAlreadyExists, std::move(message)}; }
/// Returns a failure with this code.
inline Status FailedPrecondition(std::string message) { return {StatusCode::kFailedPrecondition, std::move(message)}; }
/// Returns a failure with this code.
inline Status ResourceExhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
/// Returns a failure with this code.
inline Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
/// Returns a failure with this code.
inline Status Unimplemented(std::string message) { return {StatusCode::kUnimplemented, std::move(message)}; }
/// Returns a failure with the code kInternal.
inline Status InternalError(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

namespace internal {
/// Writes the error that there is in the place of a value to standard error, and aborts.
[[noreturn]] CALLOUT_EXPORT void DieWithoutValue(const Status& status);
/// What a Result holds that was made of an ok Status.
CALLOUT_EXPORT Status NoValueOfOk();
}  // namespace internal

/// A value, or the Status that says why there is none. Asking for the value that is not there aborts with the Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// The value.
  Result(T held) : value_(std::move(held)) {}  // NOLINT(google-explicit-constructor)
  /// Internal instead of an ok Status, which says nothing about why there is no value.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : status_(status.ok() ? internal::NoValueOfOk() : std::move(status)) {}

  /// Whether there is a value.
  bool ok() const { return value_.has_value(); }
  /// Why there is no value; success if there is one.
  const Status& status() const& { return status_; }
  /// As above, moved out.
  Status status() && { return std::move(status_); }
  /// Returns the value, which must be there.
  T& value() & {
    Check();
    return *value_;
  }
  /// Returns the value, which must be there.
  const T& value() const& {
    Check();
    return *value_;
  }
  /// Returns the value, which must be there, moved out.
  T value() && {
    Check();
    return std::move(*value_);
  }
  /// Returns a member of the value, which must be there.
  T* operator->() { return &value(); }
  /// Returns a member of the value, which must be there.
  const T* operator->() const { return &value(); }
  /// Returns the value, which must be there.
  T& operator*() & { return value(); }
  /// Returns the value, which must be there.
  const T& operator*() const& { return value(); }

 private:
  void Check() const {
    if (!value_.has_value()) [[unlikely]]
      internal::DieWithoutValue(status_);
  }

  std::optional<T> value_;
  Status status_;
};

/// For the macros below.
#define CALLOUT_CONCAT_INNER(a, b) a##b
/// For the macros below.
#define CALLOUT_CONCAT(a, b) CALLOUT_CONCAT_INNER(a, b)

/// Returns the Status of `expression` from the function if it is a failure.
#define CALLOUT_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                                \
    if (::callout::Status callout_failed = (expression); !callout_failed.ok()) return callout_failed; \
  } while (false)

/// Puts the value of `expression`, a Result, into `declaration`, or returns its Status from the function.
#define CALLOUT_ASSIGN_OR_RETURN(declaration, expression)                 \
  auto CALLOUT_CONCAT(callout_result_, __LINE__) = (expression);          \
  if (!CALLOUT_CONCAT(callout_result_, __LINE__).ok())                    \
    return std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).status(); \
  declaration = std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).value()

}  // namespace callout
