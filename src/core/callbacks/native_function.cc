// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/native_function.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>

#include "callout/abi.h"
#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/small_buffer.h"
#include "core/base/status.h"
#include "core/callbacks/registry.h"

namespace callout::internal {

void NativeError::Set(void* context, int32_t code, const char* message, size_t length) noexcept {
  Status& reported = static_cast<NativeError*>(context)->reported;
  const StatusCode known = code > 0 && code <= 16 ? static_cast<StatusCode>(code) : StatusCode::kInternal;
  try {
    reported = Status(known, "", StatusKind::kCallback);
    std::string text;
    text.assign(message, length);  // assign throws for impossible lengths; a constructor would add them to `message`
    reported = reported.WithMessage(std::move(text));
  } catch (...) {  // no memory: the code is enough
  }
}

Status NativeError::Outcome(int32_t returned) {
  if (returned == 0) [[likely]]
    return OkStatus();
  if (!reported.message().empty()) return std::move(reported);
  const StatusCode code = reported.ok() ? StatusCode::kInternal : reported.code();
  return {code, Cat("the function returned error code ", returned), StatusKind::kCallback};
}

Status NativeError::Outcome(Status returned) const {
  if (returned.ok() || reported.message().empty()) [[likely]]
    return returned;
  return returned.WithMessage(std::string(returned.message()) + ": " + std::string(reported.message()));
}

void FailCall(const callout_call& call, const Status& failure) noexcept {
  const std::string_view message = failure.message();
  if (call.set_error != &NativeError::Set) {
    call.set_error(call.error_context, static_cast<int32_t>(failure.code()), message.data(), message.size());
    return;
  }
  try {
    static_cast<NativeError*>(call.error_context)->reported = failure;
  } catch (...) {  // no memory: the callback's return value tells the failure
  }
}

CallMemory::~CallMemory() {
  for (void* block : blocks_) std::free(block);
}

void* CallMemory::Allocate(void* scratch, uint64_t bytes, uint64_t alignment) noexcept {
  constexpr uint64_t kAlignment = 64;
  if (alignment > kAlignment) return nullptr;
  auto* memory = static_cast<CallMemory*>(scratch);
  void* block = nullptr;
  if (bytes <= (uint64_t{1} << 62)) {
    block = std::aligned_alloc(kAlignment, (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
  }
  try {
    if (block != nullptr) memory->blocks_.push_back(block);
  } catch (...) {
    std::free(block);
    block = nullptr;
  }
  if (block == nullptr) memory->was_refused_ = true;
  return block;
}

namespace {

int32_t Report(const Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  if (error != nullptr && error_size > 0) {
    const size_t n = std::min(status.message().size(), error_size - 1);
    std::memcpy(error, status.message().data(), n);
    error[n] = '\0';
  }
  return static_cast<int32_t>(status.code());
}

Status RegisterStatus(const char* name, const callout_function* function) {
  if (name == nullptr || function == nullptr) return InvalidArgument("register_function: null name or function");
  CALLOUT_RETURN_IF_ERROR(CheckOnlyCore());
  CALLOUT_ASSIGN_OR_RETURN(auto callback, MakeNativeFunction(name, *function));
  return Registry::Get().Register(name, std::move(callback), /*replace=*/false);
}

Status UnregisterStatus(const char* name) {
  if (name == nullptr) return InvalidArgument("unregister: null name");
  return Registry::Get().Unregister(name);
}

int32_t RegisterFunction(const char* name, const callout_function* function, char* error, size_t error_size) noexcept {
  return Report(Guarded(&RegisterStatus, name, function), error, error_size);
}

int32_t Unregister(const char* name, char* error, size_t error_size) noexcept {
  return Report(Guarded(&UnregisterStatus, name), error, error_size);
}

constexpr callout_api kApi = {sizeof(callout_api), CALLOUT_ABI_VERSION, &RegisterFunction, &Unregister};

}  // namespace
}  // namespace callout::internal

const callout_api* callout_get_api(uint32_t abi_version) {
  return abi_version == CALLOUT_ABI_VERSION ? &callout::internal::kApi : nullptr;
}

namespace callout::internal {
namespace {

// Copies the fields that the record's writer knew; all others are zeros.
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
  // Libraries of the first release know the fields before this one.
  constexpr size_t kLeastSize = offsetof(callout_function, parameters);
  if (function.struct_size < kLeastSize || function.abi_version != CALLOUT_ABI_VERSION) {
    return InvalidArgument(Cat("native callback '", label, "' was built for Callout ABI version ", function.abi_version,
                               "; this core has version ", CALLOUT_ABI_VERSION));
  }
  if (function.fn == nullptr ||
      (function.kind != CALLOUT_FUNCTION_POINTERS && function.kind != CALLOUT_FUNCTION_CALL)) {
    return InvalidArgument(
        Cat("native callback '", label, "' has no function, or one of unknown kind ", function.kind));
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

namespace {

class Closure final : public Callback {
 public:
  Closure(std::string label, const callout_closure& closure) : Callback(std::move(label)), closure_(closure) {}
  ~Closure() override {
    if (closure_.destroy != nullptr) closure_.destroy(closure_.context);
  }

  Worker worker() const override { return Worker::kNative; }
  bool takes_device_memory() const override { return true; }
  Status Call(const callout_call& call) override {
    return CallNative(call,
                      [this](const callout_call* with_error) { return closure_.call(closure_.context, with_error); });
  }
  Status Deliver(const Record& record) override { return Call(AsCall(record)); }

 private:
  const callout_closure closure_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeClosure(std::string label, const callout_closure& closure) {
  if (closure.struct_size < sizeof(callout_closure)) {  // the first version; there are no smaller ones
    return InvalidArgument(Cat("callout: the closure for '", label, "' has struct_size ", closure.struct_size,
                               "; expected at least ", sizeof(callout_closure), " (0: it was taken)"));
  }
  if (closure.call == nullptr) return InvalidArgument("callout: the closure for '" + label + "' has no function");
  return std::shared_ptr<Callback>(std::make_shared<Closure>(std::move(label), closure));
}

}  // namespace callout::internal
