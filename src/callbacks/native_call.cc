// SPDX-License-Identifier: Apache-2.0
#include "callbacks/native_call.h"

#include <algorithm>
#include <cstdlib>

namespace callout::internal {

void NativeError::Set(void* context, int32_t code, const char* message, size_t length) {
  auto* error = static_cast<NativeError*>(context);
  error->code = code > 0 && code <= 16 ? static_cast<StatusCode>(code) : StatusCode::kInternal;
  error->message.assign(message, length);
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
