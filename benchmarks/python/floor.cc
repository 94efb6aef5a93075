// SPDX-License-Identifier: Apache-2.0
// The floor: the cost of leaving a program in XLA itself. The handlers use the C API and only make the copies of their
// descriptions; one returns the thread that runs a program.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace {

bool AnswersMetadata(XLA_FFI_CallFrame* frame) {
  for (XLA_FFI_Extension_Base* e = frame->extension_start; e != nullptr; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return true;
  }
  return false;
}

XLA_FFI_Buffer* Arg(XLA_FFI_CallFrame* frame) { return static_cast<XLA_FFI_Buffer*>(frame->args.args[0]); }
XLA_FFI_Buffer* Ret(XLA_FFI_CallFrame* frame) { return static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0]); }

size_t Bytes(const XLA_FFI_Buffer* buffer) {
  size_t bytes = 4;  // all operands of the benchmarks have elements of four bytes
  for (int64_t i = 0; i < buffer->rank; ++i) bytes *= static_cast<size_t>(buffer->dims[i]);
  return bytes;
}

// Memory that is warm after the first call, like a pool's blocks.
char* Scratch(size_t bytes) {
  thread_local std::vector<char> scratch;
  if (scratch.size() < bytes) scratch.resize(bytes);
  return scratch.data();
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Makes one copy, of the operand to the result.
EXPORT XLA_FFI_Error* floor_copy(XLA_FFI_CallFrame* frame) {
  if (AnswersMetadata(frame)) return nullptr;
  std::memcpy(Ret(frame)->data, Arg(frame)->data, Bytes(Arg(frame)));
  return nullptr;
}

/// Makes two copies: a callback that owns its argument needs one of the operand and one of the result.
EXPORT XLA_FFI_Error* floor_copy_twice(XLA_FFI_CallFrame* frame) {
  if (AnswersMetadata(frame)) return nullptr;
  const size_t bytes = Bytes(Arg(frame));
  char* scratch = Scratch(bytes);
  std::memcpy(scratch, Arg(frame)->data, bytes);
  std::memcpy(Ret(frame)->data, scratch, bytes);
  return nullptr;
}

/// Has no result and makes no copy.
EXPORT XLA_FFI_Error* floor_look(XLA_FFI_CallFrame* frame) {
  (void)AnswersMetadata(frame);
  return nullptr;
}

/// Has no result and makes one copy, like a tap.
EXPORT XLA_FFI_Error* floor_take(XLA_FFI_CallFrame* frame) {
  if (AnswersMetadata(frame)) return nullptr;
  const size_t bytes = Bytes(Arg(frame));
  std::memcpy(Scratch(bytes), Arg(frame)->data, bytes);
  return nullptr;
}

/// Returns s32[], the kernel's number of the thread that runs the program.
EXPORT XLA_FFI_Error* floor_thread_id(XLA_FFI_CallFrame* frame) {
  if (AnswersMetadata(frame)) return nullptr;
  const auto id = static_cast<int32_t>(syscall(SYS_gettid));
  std::memcpy(Ret(frame)->data, &id, sizeof(id));
  return nullptr;
}
