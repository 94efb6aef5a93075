// SPDX-License-Identifier: Apache-2.0
#include "host/c_api/edge.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/base/cat.h"
#include "core/base/live_count.h"

struct callout_status {
  int32_t code;
  std::string message;
};

namespace callout::internal {
namespace {

// A status that its caller destroys, unlike the static one for "out of memory".
struct MadeStatus : callout_status {
  explicit MadeStatus(const Status& status)
      : callout_status{static_cast<int32_t>(status.code()), std::string(status.message())} {}
  Counted<LiveKind::kHandle> counted;
};

callout_status g_out_of_memory = {static_cast<int32_t>(StatusCode::kResourceExhausted), "out of memory"};

constexpr size_t kLargestOptions = 4096;  // a larger struct_size cannot be right

}  // namespace

callout_status* OutOfMemory() noexcept { return &g_out_of_memory; }

callout_status* ToCStatus(const Status& status) noexcept {
  if (status.ok()) [[likely]]
    return nullptr;
  try {
    return new MadeStatus(status);
  } catch (...) {
    return OutOfMemory();
  }
}

Status CheckNotNull(const char* function, std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments) {
    if (argument.pointer == nullptr) return InvalidArgument(std::string(function) + ": " + argument.name + " is null");
  }
  return OkStatus();
}

Status CopyOptions(const char* function, const void* options, size_t least, size_t known_size, void* known) {
  size_t size = 0;
  std::memcpy(&size, options, sizeof(size));
  if (size < least || size > kLargestOptions) {
    return InvalidArgument(Cat(function, ": struct_size of the options is ", size, "; expected ", known_size,
                               ", the sizeof of the struct"));
  }
  const auto* bytes = static_cast<const unsigned char*>(options);
  for (size_t i = known_size; i < size; ++i) {
    if (bytes[i] != 0) {
      return Unimplemented(
          Cat(function, ": an option at byte ", i, " is newer than this library, version ", CALLOUT_C_API_VERSION));
    }
  }
  std::memcpy(known, options, std::min(size, known_size));
  return OkStatus();
}

double ClampTimeout(double seconds) { return seconds < 1e9 ? seconds : -1; }

}  // namespace callout::internal

uint32_t callout_c_api_version() noexcept { return CALLOUT_C_API_VERSION; }

int32_t callout_status_code(const callout_status* status) noexcept { return status == nullptr ? 0 : status->code; }

const char* callout_status_message(const callout_status* status) noexcept {
  return status == nullptr ? "" : status->message.c_str();
}

void callout_status_destroy(callout_status* status) noexcept {
  if (status != callout::internal::OutOfMemory()) delete static_cast<callout::internal::MadeStatus*>(status);
}
