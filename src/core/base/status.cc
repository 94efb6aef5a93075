// SPDX-License-Identifier: Apache-2.0
#include "callout/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <ostream>

#include "core/base/cat.h"
#include "core/base/status.h"

namespace callout {
namespace {

constexpr std::array<const char*, 17> kNames = {
    "Ok",       "Cancelled",      "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

#define CALLOUT_ROW(name, word, what) word,
constexpr std::array kKindNames = {CALLOUT_STATUS_KINDS(CALLOUT_ROW)};
#undef CALLOUT_ROW

}  // namespace

std::string StatusCodeName(StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames[number] : internal::Cat("code ", static_cast<int>(code));
}

const char* StatusKindName(StatusKind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < kKindNames.size() ? kKindNames[number] : kKindNames.front();
}

Status::Status(StatusCode code, std::string message, StatusKind kind) {
  if (code != StatusCode::kOk) error_ = std::make_unique<Error>(Error{code, std::move(message), kind});
}

Status Status::OfException(StatusCode code, std::string message, uint64_t exception) {
  Status status(code, std::move(message), StatusKind::kException);
  if (!status.ok()) status.error_->exception = exception;
  return status;
}

Status Status::WithMessage(std::string message) const {
  Status status;
  if (error_) status.error_ = std::make_unique<Error>(Error{code(), std::move(message), kind(), exception()});
  return status;
}

std::string Status::ToString() const {
  std::string text = StatusCodeName(code());
  if (!message().empty()) text.append(": ").append(message());
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Status& status) { return stream << status.ToString(); }

namespace internal {

void DieWithoutValue(const Status& status) {
  std::fprintf(stderr, "callout: the value of a Result was asked for that has none: %s\n", status.ToString().c_str());
  std::abort();
}

Status NoValueOfOk() { return InternalError("callout: a Result was made of an ok Status, and has no value"); }

}  // namespace internal
}  // namespace callout

namespace callout::internal {

Status CaughtStatus() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory", StatusKind::kMemory);
  } catch (const std::exception& e) {
    return InternalError(e.what());
  } catch (...) {
    return InternalError("it threw something that is not a std::exception");
  }
}

Status OutOfMemory(uint64_t bytes, const char* what) {
  return Status(StatusCode::kResourceExhausted, Cat("out of memory: cannot allocate ", bytes, " bytes for ", what),
                StatusKind::kMemory);
}

}  // namespace callout::internal
