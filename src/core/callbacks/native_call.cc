// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/native_call.h"

#include <algorithm>
#include <cstdlib>

namespace callout::internal {

void NativeError::Set(void* context, int32_t code, const char* message, size_t length) noexcept {
  auto* error = static_cast<NativeError*>(context);
  error->code = code > 0 && code <= 16 ? static_cast<StatusCode>(code) : StatusCode::kInternal;
  try {
    error->message.assign(message, length);
  } catch (...) {  // no memory: the code says enough
    error->message.clear();
  }
}

Status NativeError::Outcome(int32_t returned) {
  if (returned == 0) [[likely]]
    return OkStatus();
  if (message.empty()) message = "the function returned error code " + std::to_string(returned);
  return {code, std::move(message)};
}

Status NativeError::Outcome(Status returned) const {
  if (returned.ok() || message.empty()) [[likely]]
    return returned;
  return {returned.code(), std::string(returned.message()) + ": " + message};
}

Scratch::~Scratch() {
  for (void* block : blocks_) std::free(block);
}

void* Scratch::Allocate(void* scratch, uint64_t bytes, uint64_t alignment) noexcept {
  constexpr uint64_t kAlignment = 64;
  if (alignment > kAlignment || bytes > (uint64_t{1} << 62)) return nullptr;
  void* block =
      std::aligned_alloc(kAlignment, (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
  if (block == nullptr) return nullptr;
  try {
    static_cast<Scratch*>(scratch)->blocks_.push_back(block);
  } catch (...) {
    std::free(block);
    return nullptr;
  }
  return block;
}

}  // namespace callout::internal
