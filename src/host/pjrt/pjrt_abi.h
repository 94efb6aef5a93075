// SPDX-License-Identifier: Apache-2.0
//
// The door to the PJRT C API. Built against its 0.81; plugins of other versions work as far as their table goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "callout/status.h"
#include "pjrt_c_api.h"

namespace callout::internal {

/// An argument struct for a plugin of any version: zeros behind what this header knows are what newer versions take for
/// "not given". Plugins refuse structs that are smaller than theirs, and take larger ones (seen in 0.81 and 0.116).
template <typename T>
struct PjrtArgs : T {
  PjrtArgs() {
    size_t size = sizeof(PjrtArgs);
    // Compilers make `rep stos` of a large constant size, which takes longer to begin than the library's memset takes.
    if constexpr (!kIsOfOneHandle) asm("" : "+r"(size));
    std::memset(static_cast<void*>(this), 0, size);
    this->struct_size = sizeof(PjrtArgs);
  }

 private:
  // What tells no more than a handle, for each run: clearing room for eight more fields is a few stores.
  static constexpr bool kIsOfOneHandle = sizeof(T) <= 3 * sizeof(void*);

  unsigned char later_fields_[kIsOfOneHandle ? 64 : 256];
};

// The FFI extension, which no package ships a header for: xla/pjrt/c/pjrt_c_api_ffi_extension.h, version 3.
struct PjrtFfiRegisterHandlerArgs {
  size_t struct_size;  // there is no extension_start
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  uint32_t traits;
};
inline constexpr size_t kPjrtFfiRegisterHandlerArgsSize = offsetof(PjrtFfiRegisterHandlerArgs, traits) + 4;
static_assert(kPjrtFfiRegisterHandlerArgsSize == 52, "what plugins expect");

struct PjrtFfiExtension {
  PJRT_Extension_Base base;
  void* type_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(PjrtFfiRegisterHandlerArgs* args);
};

/// The number in a field of an enum type that a plugin wrote: newer plugins have numbers that this header lacks, which
/// C++ does not let an enum hold.
template <typename Enum>
int EnumNumber(const Enum& field) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &field, sizeof(number));
  return number;
}

/// A plugin's table of functions. Thread-safe.
class PjrtApi {
 public:
  explicit PjrtApi(const PJRT_Api* table) : table_(table) {}

  const PJRT_Api& table() const { return *table_; }
  /// Null if the plugin has none of this type.
  const PJRT_Extension_Base* Extension(PJRT_Extension_Type type) const;

  /// Calls a function of the table. Errors: Unimplemented if the plugin is too old to have it; Internal if it throws;
  /// else the plugin's own code and text.
  template <typename Args>
  Status Call(PJRT_Error* (*PJRT_Api::*function)(Args*), std::string_view name, PjrtArgs<Args>& args) const {
    if (!Has(&(table_->*function)) || table_->*function == nullptr) return Missing(name);
    try {
      return Take((table_->*function)(&args));
    } catch (...) {
      return Threw(name);
    }
  }
  /// For functions that destroy, which have no error that anybody could act on.
  template <typename Args>
  void Destroy(PJRT_Error* (*PJRT_Api::*function)(Args*), PjrtArgs<Args>& args) const {
    if (Has(&(table_->*function)) && table_->*function != nullptr) (void)Call(function, "a destructor", args);
  }

  /// The Status of an error, which is destroyed; ok for null.
  Status Take(PJRT_Error* error) const { return error == nullptr ? OkStatus() : TakeFailure(error); }

  /// In a `catch`, for what a function of the plugin threw.
  static Status Threw(std::string_view name);

 private:
  Status TakeFailure(PJRT_Error* error) const;
  bool Has(const void* field) const {
    return static_cast<const char*>(field) + sizeof(void*) <=
           reinterpret_cast<const char*>(table_) + table_->struct_size;
  }
  Status Missing(std::string_view name) const;

  const PJRT_Api* const table_;
};

/// As PjrtApi::Call, by the name of the function.
#define CALLOUT_PJRT(api, name, args) (api).Call(&PJRT_Api::name, #name, args)

}  // namespace callout::internal
