// SPDX-License-Identifier: Apache-2.0
#include "callout/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <ostream>

#include "core/base/status.h"

namespace callout {
namespace {

constexpr std::array<const char*, 17> kNames = {
    "Ok",       "Cancelled",      "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

}  // namespace

std::string StatusCodeName(StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames[number] : "code " + std::to_string(static_cast<int>(code));
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) error_ = std::make_unique<Error>(Error{code, std::move(message)});
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
    return ResourceExhausted("out of memory");
  } catch (const std::exception& e) {
    return InternalError(e.what());
  } catch (...) {
    return InternalError("it threw something that is not a std::exception");
  }
}

Status OutOfMemory(uint64_t bytes, const char* what) {
  return ResourceExhausted("out of memory: cannot allocate " + std::to_string(bytes) + " bytes for " + what);
}

}  // namespace callout::internal
