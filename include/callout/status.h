// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how the core reports failure. A good Status is one null pointer, so returning it costs nothing.
// Codes are the canonical ones that XLA FFI and PJRT use (src/frame/ffi_abi.cc asserts it).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "callout/export.h"

namespace callout {

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

class [[nodiscard]] CALLOUT_EXPORT Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  Status(const Status& other) : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {}
  Status(Status&&) = default;
  Status& operator=(const Status& other) {
    if (this != &other) error_ = other.error_ ? std::make_unique<Error>(*other.error_) : nullptr;
    return *this;
  }
  Status& operator=(Status&&) = default;
  ~Status() = default;

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const { return error_ ? error_->code : StatusCode::kOk; }
  /// Empty if ok. Borrowed: valid until the Status changes.
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

inline Status OkStatus() { return Status(); }
inline Status InvalidArgument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
inline Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status AlreadyExists(std::string message) { return {StatusCode::kAlreadyExists, std::move(message)}; }
inline Status FailedPrecondition(std::string message) { return {StatusCode::kFailedPrecondition, std::move(message)}; }
inline Status ResourceExhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
inline Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status Unimplemented(std::string message) { return {StatusCode::kUnimplemented, std::move(message)}; }
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
  Result(T held) : value_(std::move(held)) {}  // NOLINT(google-explicit-constructor)
  /// Internal instead of an ok Status, which says nothing about why there is no value.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : status_(status.ok() ? internal::NoValueOfOk() : std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & {
    Check();
    return *value_;
  }
  const T& value() const& {
    Check();
    return *value_;
  }
  T value() && {
    Check();
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  void Check() const {
    if (!value_.has_value()) [[unlikely]]
      internal::DieWithoutValue(status_);
  }

  std::optional<T> value_;
  Status status_;
};

#define CALLOUT_CONCAT_INNER(a, b) a##b
#define CALLOUT_CONCAT(a, b) CALLOUT_CONCAT_INNER(a, b)

#define CALLOUT_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                                \
    if (::callout::Status callout_failed = (expression); !callout_failed.ok()) return callout_failed; \
  } while (false)

#define CALLOUT_ASSIGN_OR_RETURN(declaration, expression)                 \
  auto CALLOUT_CONCAT(callout_result_, __LINE__) = (expression);          \
  if (!CALLOUT_CONCAT(callout_result_, __LINE__).ok())                    \
    return std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).status(); \
  declaration = std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).value()

}  // namespace callout
