// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how the core reports failure. A good Status is one null pointer, so returning it costs nothing.
// Codes are the canonical ones that XLA FFI and PJRT use (src/core/frame/ffi_abi.cc asserts it). Kinds are Callout's
// own: by the kind, a host or Python tells failures apart whose messages differ.
#pragma once

#include <cstdint>
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

/// Returns the code's name, "InvalidArgument"; "code 17" for a number that is none of StatusCode's.
CALLOUT_EXPORT std::string StatusCodeName(StatusCode code);

/// The one table of kinds: ROW(name, word, what failed). The error tags that cross XLA contain the words, and the dict
/// KINDS in python/callout/_base/error_classes.py has them as keys. A compiled program never holds a word.
#define CALLOUT_STATUS_KINDS(ROW)                                                                           \
  ROW(kGeneral, "general", "Anything without a row of its own: the code says more.")                        \
  ROW(kCallback, "callback", "A native callback reported an error of its own.")                             \
  ROW(kException, "exception", "A Python callback raised an exception, which Status::exception() numbers.") \
  ROW(kResult, "result", "A callback returned something that does not fit what the program declares.")      \
  ROW(kCheck, "check", "A check of the program found what must not be.")                                    \
  ROW(kNonFinite, "non_finite", "A watch or a search for NaNs found a NaN or an infinity.")                 \
  ROW(kUnboundName, "unbound_name", "The program asks for a callback under a name that nobody bound.")      \
  ROW(kRegistration, "registration", "A name, a function, a library or a file could not be registered.")    \
  ROW(kMemory, "memory", "The machine has no memory for what a call or a tap needs.")                       \
  ROW(kFork, "fork", "Callout was used in a forked child of a process that had used it.")

/// The kind of a failure, which does not depend on the message.
enum class StatusKind : int {
#define CALLOUT_ROW(name, word, what) name,
  CALLOUT_STATUS_KINDS(CALLOUT_ROW)
#undef CALLOUT_ROW
};

/// Returns the word of a kind: "result". "general" for a number that is none of StatusKind's.
CALLOUT_EXPORT const char* StatusKindName(StatusKind kind);

/// Success, or a code, a message and a kind.
class [[nodiscard]] CALLOUT_EXPORT Status {
 public:
  /// Makes a success.
  Status() = default;
  /// Makes a failure. kOk makes a success, without `message` and `kind`.
  Status(StatusCode code, std::string message, StatusKind kind = StatusKind::kGeneral);
  /// Makes a failure of the kind kException. `exception` is the number under which Python keeps the object.
  static Status OfException(StatusCode code, std::string message, uint64_t exception);
  /// Copies the failure.
  Status(const Status& other) : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {}
  /// Leaves a success in the other object.
  Status(Status&&) = default;
  /// Copies the failure.
  Status& operator=(const Status& other) {
    if (this != &other) error_ = other.error_ ? std::make_unique<Error>(*other.error_) : nullptr;
    return *this;
  }
  /// Leaves a success in the other object.
  Status& operator=(Status&&) = default;
  ~Status() = default;

  /// Returns whether the operation succeeded.
  bool ok() const { return error_ == nullptr; }
  /// Returns the code; kOk for a success.
  StatusCode code() const { return error_ ? error_->code : StatusCode::kOk; }
  /// Returns the kind of the failure; kGeneral for a success.
  StatusKind kind() const { return error_ ? error_->kind : StatusKind::kGeneral; }
  /// Returns the number under which Python keeps the exception of a failure of the kind kException; else 0.
  uint64_t exception() const { return error_ ? error_->exception : 0; }
  /// Returns the message; empty for a success. Borrowed: valid until the Status changes.
  std::string_view message() const { return error_ ? std::string_view(error_->message) : std::string_view(); }
  /// Returns the message NUL-terminated, for C interfaces. Borrowed: valid until the Status changes.
  const char* c_message() const { return error_ ? error_->message.c_str() : ""; }
  /// Returns "Ok", or "InvalidArgument: the message".
  std::string ToString() const;

  /// Returns the failure with another message, and the same code, kind and exception. Success stays success.
  Status WithMessage(std::string message) const;

 private:
  struct Error {
    StatusCode code;
    std::string message;
    StatusKind kind = StatusKind::kGeneral;
    uint64_t exception = 0;
  };
  std::unique_ptr<Error> error_;
};

/// Writes `status.ToString()`.
CALLOUT_EXPORT std::ostream& operator<<(std::ostream& stream, const Status& status);

/// Returns a success.
inline Status OkStatus() { return Status(); }
/// Returns a failure with the code kInvalidArgument.
inline Status InvalidArgument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
/// Returns a failure with the code kNotFound.
inline Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
/// Returns a failure with the code kAlreadyExists.
inline Status AlreadyExists(std::string message) { return {StatusCode::kAlreadyExists, std::move(message)}; }
/// Returns a failure with the code kFailedPrecondition.
inline Status FailedPrecondition(std::string message) { return {StatusCode::kFailedPrecondition, std::move(message)}; }
/// Returns a failure with the code kResourceExhausted.
inline Status ResourceExhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
/// Returns a failure with the code kUnavailable.
inline Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
/// Returns a failure with the code kUnimplemented.
inline Status Unimplemented(std::string message) { return {StatusCode::kUnimplemented, std::move(message)}; }
/// Returns a failure with the code kInternal.
inline Status InternalError(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

namespace internal {
/// Writes the error that a Result holds instead of a value to standard error, and aborts.
[[noreturn]] CALLOUT_EXPORT void DieWithoutValue(const Status& status);
/// Returns the failure that a Result holds after construction from an ok Status.
CALLOUT_EXPORT Status NoValueOfOk();
}  // namespace internal

/// A value, or the Status that says why there is no value. Access to a missing value aborts with the Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// Holds `held`.
  Result(T held) : value_(std::move(held)) {}  // NOLINT(google-explicit-constructor)
  /// Holds the failure. An ok Status cannot explain a missing value, so the Result then holds an Internal failure.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : status_(status.ok() ? internal::NoValueOfOk() : std::move(status)) {}

  /// Returns whether there is a value.
  bool ok() const { return value_.has_value(); }
  /// Returns why there is no value; a success if there is one.
  const Status& status() const& { return status_; }
  /// Moves the Status out of a temporary Result.
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
  /// Moves the value, which must be there, out of a temporary Result.
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

/// A step of CALLOUT_CONCAT, which expands the arguments.
#define CALLOUT_CONCAT_INNER(a, b) a##b
/// Joins two tokens after their expansion, for the macros below.
#define CALLOUT_CONCAT(a, b) CALLOUT_CONCAT_INNER(a, b)

/// Returns the Status of `expression` from the enclosing function if it is a failure.
#define CALLOUT_RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                                \
    if (::callout::Status callout_failed = (expression); !callout_failed.ok()) return callout_failed; \
  } while (false)

/// Assigns the value of `expression`, a Result, to `declaration`, or returns its Status from the enclosing function.
#define CALLOUT_ASSIGN_OR_RETURN(declaration, expression)                 \
  auto CALLOUT_CONCAT(callout_result_, __LINE__) = (expression);          \
  if (!CALLOUT_CONCAT(callout_result_, __LINE__).ok())                    \
    return std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).status(); \
  declaration = std::move(CALLOUT_CONCAT(callout_result_, __LINE__)).value()

}  // namespace callout
