// SPDX-License-Identifier: Apache-2.0
#include "core/frame/xla_scope.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "core/base/thread_annotations.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {
namespace {

// xla::FfiLoadedHostCallbacks, in jaxlib 0.10.2 to 0.12.
struct LoadedFunctions {
  void** functions;
  size_t count;
};

struct Lent {
  XLA_FFI_Handler* handler;
  void* function;
  LoadedFunctions ours{&function, 1};
};

// The runtime that had the expected layout: its API, and its type id of the functions.
struct Borrowed {
  const XLA_FFI_Api* real;
  int64_t type_id;  // type id of LoadedFunctions in that runtime
};

std::atomic<Lent*> g_provided{nullptr};
std::atomic<const Borrowed*> g_borrowed{nullptr};
thread_local const XLA_FFI_Api* t_real = nullptr;  // the table that GetFromContext calls

constexpr size_t kMostFunctions = 4096;  // a program with more is treated as one without Callout's function

bool Has(const void* data, const void* function) {
  LoadedFunctions loaded;
  if (data == nullptr) return false;
  std::memcpy(&loaded, data, sizeof(loaded));
  if (loaded.count == 0 || loaded.count > kMostFunctions) return false;
  const auto address = reinterpret_cast<uintptr_t>(loaded.functions);
  if (address < 4096 || address % alignof(void*) != 0) return false;
  return std::ranges::find(std::span(loaded.functions, loaded.count), function) !=
         std::span(loaded.functions, loaded.count).end();
}

XLA_FFI_Error* Refuse(const XLA_FFI_Api* api) {
  return ToFfiError(api, Unimplemented("callout: this program's host callbacks were not found"));
}

// Replaces XLA_FFI_ExecutionContext_Get.
XLA_FFI_Error* GetFromContext(XLA_FFI_ExecutionContext_Get_Args* args) {
  const XLA_FFI_Api* api = t_real;
  Lent* lent = g_provided.load(std::memory_order_acquire);                // pairs with ProvideScopeHandler
  const Borrowed* borrowed = g_borrowed.load(std::memory_order_acquire);  // pairs with the exchange below
  if (borrowed == nullptr) {
    if (XLA_FFI_Error* error = api->XLA_FFI_ExecutionContext_Get(args)) return error;
    if (!Has(args->data, lent->function)) return Refuse(api);
    auto* found = new Borrowed{api, args->type_id->type_id};  // leaked: one per process
    if (!g_borrowed.compare_exchange_strong(borrowed, found, std::memory_order_acq_rel)) delete found;
  } else if (borrowed->real != api) {
    return Refuse(api);  // a plugin's runtime, where the type id may mean another type
  } else if (borrowed->type_id != args->type_id->type_id) {
    return api->XLA_FFI_ExecutionContext_Get(args);
  }
  args->data = &lent->ours;
  return nullptr;
}

// A copy of a runtime's table, with GetFromContext in it. Newer runtimes have longer tables than this header's.
struct ApiTable {
  alignas(XLA_FFI_Api) char bytes[512];

  bool CopyFrom(const XLA_FFI_Api* real) {
    if (real->struct_size > sizeof(bytes)) return false;
    std::memcpy(bytes, real, real->struct_size);
    get()->XLA_FFI_ExecutionContext_Get = &GetFromContext;
    return true;
  }
  XLA_FFI_Api* get() { return reinterpret_cast<XLA_FFI_Api*>(bytes); }
};

}  // namespace

void ProvideScopeHandler(void* handler, void* function) {
  auto* lent = new Lent{reinterpret_cast<XLA_FFI_Handler*>(handler), function};  // leaked: handlers run until exit
  Lent* none = nullptr;
  if (!g_provided.compare_exchange_strong(none, lent, std::memory_order_acq_rel)) delete lent;
}

// Until the layout is known, only a program that declares that it carries Callout's function is asked for its
// functions. A program that carries none (it was exported, or its name was bound late) runs asynchronously with a
// context that jaxlib has already destroyed, and reading that context would crash.
void CallInXlaScope(XLA_FFI_CallFrame* program) {
  const Lent* lent = g_provided.load(std::memory_order_acquire);  // pairs with ProvideScopeHandler
  ApiTable table;
  if (lent == nullptr || !table.CopyFrom(program->api)) return;
  if (g_borrowed.load(std::memory_order_acquire) == nullptr) {  // pairs with the exchange in GetFromContext
    const auto carries = Int64Attribute(program->attrs, kXlaScopeAttribute, 0);
    if (!carries.ok() || carries.value() == 0) return;
  }
  uint64_t index = 0;
  XLA_FFI_Scalar scalar = {XLA_FFI_DataType_U64, &index};
  XLA_FFI_ByteSpan name = {"index", 5};
  XLA_FFI_AttrType attr_type = XLA_FFI_AttrType_SCALAR;
  XLA_FFI_ByteSpan* names[] = {&name};
  void* values[] = {&scalar};
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = table.get();
  frame.ctx = program->ctx;
  frame.stage = program->stage;
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, &attr_type, names, values};
  t_real = program->api;
  (void)FromFfiError(program->api, lent->handler(&frame));
}

}  // namespace callout::internal
