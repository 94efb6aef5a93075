// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/native_function.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>

#include "core/base/small_buffer.h"
#include "core/callbacks/native_call.h"

namespace callout::internal {
namespace {

// What its writer knew of the record; the rest is zeros.
callout_function CopyRecord(const callout_function& function) {
  callout_function copy = {};
  std::memcpy(&copy, &function, std::min(function.struct_size, sizeof(copy)));
  return copy;
}

int32_t CallWithPointers(void (*fn)(void), const callout_call& call) {
  size_t num_dims = 0;
  for (uint32_t i = 0; i < call.num_args; ++i) num_dims += call.args[i].rank;
  for (uint32_t i = 0; i < call.num_results; ++i) num_dims += call.results[i].rank;
  SmallBuffer<void*, 16> pointers(call.num_args + call.num_results + call.num_attributes);
  SmallBuffer<int64_t, 32> dims(num_dims);
  void** pointer = pointers.data();
  int64_t* dim = dims.data();
  auto append = [&](const callout_buffer& buffer) {
    *pointer++ = buffer.data;
    dim = std::copy_n(buffer.dims, buffer.rank, dim);
  };
  std::for_each_n(call.args, call.num_args, append);
  std::for_each_n(call.results, call.num_results, append);
  for (uint32_t i = 0; i < call.num_attributes; ++i) *pointer++ = const_cast<void*>(call.attributes[i].data);
  if (call.platform == CALLOUT_PLATFORM_HOST) [[likely]]
    return reinterpret_cast<callout_pointers_fn>(fn)(pointers.data(), dims.data());
  return reinterpret_cast<callout_stream_fn>(fn)(pointers.data(), dims.data(), call.stream);
}

bool HasReserved(const callout_function& function) {
  const callout_function known = CopyRecord(function);
  const std::span<const callout_parameter> parameters(known.parameters, known.parameters ? known.num_parameters : 0);
  return known.reserved != 0 ||
         std::ranges::any_of(parameters, [](const callout_parameter& one) { return one.reserved != 0; });
}

}  // namespace

NativeFunction::NativeFunction(std::string label, const callout_function& function, NativeOptions options)
    : Callback(std::move(label)), function_(CopyRecord(function)), options_(std::move(options)) {}

Status NativeFunction::Call(const callout_call& call) {
  static std::mutex one_at_a_time;
  std::unique_lock<std::mutex> turn;
  if (options_.one_at_a_time) turn = std::unique_lock(one_at_a_time);
  return CallNative(call, [&](const callout_call* with_error) {
    if (function_.kind == CALLOUT_FUNCTION_POINTERS) {
      return CallWithPointers(function_.fn, *with_error);
    }
    return reinterpret_cast<callout_call_fn>(function_.fn)(with_error);
  });
}

Status NativeFunction::Deliver(const Record& record) { return Call(AsCall(record)); }

Result<std::shared_ptr<Callback>> MakeNativeFunction(std::string label, const callout_function& function,
                                                     NativeOptions options) {
  // What libraries of the first release know of the record.
  constexpr size_t kLeastSize = offsetof(callout_function, parameters);
  if (function.struct_size < kLeastSize || function.abi_version != CALLOUT_ABI_VERSION) {
    return InvalidArgument("native callback '" + label + "' was built for Callout ABI version " +
                           std::to_string(function.abi_version) + "; this core has version " +
                           std::to_string(CALLOUT_ABI_VERSION));
  }
  if (function.fn == nullptr ||
      (function.kind != CALLOUT_FUNCTION_POINTERS && function.kind != CALLOUT_FUNCTION_CALL)) {
    return InvalidArgument("native callback '" + label + "' has no function, or one of unknown kind " +
                           std::to_string(function.kind));
  }
  if (HasReserved(function)) {
    return Unimplemented("native callback '" + label + "' says in `reserved` what this core does not know");
  }
  return std::shared_ptr<Callback>(std::make_shared<NativeFunction>(std::move(label), function, std::move(options)));
}

Result<std::shared_ptr<Callback>> LoadNativeFunction(std::string label, const std::string& spec) {
  CALLOUT_ASSIGN_OR_RETURN(const LibrarySymbol named, LibrarySymbol::Parse(spec));
  CALLOUT_ASSIGN_OR_RETURN(const DynamicLibrary library, DynamicLibrary::Open(named.path));
  return FindNativeFunction(std::move(label), library, named.symbol);
}

Result<std::shared_ptr<Callback>> FindNativeFunction(std::string label, const DynamicLibrary& library,
                                                     const std::string& symbol) {
  if (void* record = library.Find(symbol + "_callout_record")) {
    return MakeNativeFunction(std::move(label), *static_cast<const callout_function*>(record));
  }
  void* fn = library.Find(symbol);
  if (fn == nullptr) {
    return NotFound("shared library '" + library.path() + "' exports neither '" + symbol + "' nor '" + symbol +
                    "_callout_record'");
  }
  const callout_function function = {sizeof(function),
                                     CALLOUT_ABI_VERSION,
                                     CALLOUT_FUNCTION_POINTERS,
                                     reinterpret_cast<void (*)(void)>(fn),
                                     nullptr,
                                     0,
                                     0};
  return MakeNativeFunction(std::move(label), function);
}

}  // namespace callout::internal
