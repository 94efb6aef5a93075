// SPDX-License-Identifier: Apache-2.0
//
// The door to the PJRT C API. It is built against version 0.81; plugins of other versions work as far as their table
// goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "callout/status.h"
#include "pjrt_c_api.h"

namespace callout::internal {

/// An argument struct for a plugin of any version. Zeros behind the fields that this header knows mean "not given" to
/// newer versions. Plugins refuse structs that are smaller than theirs, and take larger ones (seen in 0.81 and 0.116).
template <typename T>
struct PjrtArgs : T {
  PjrtArgs() {
    size_t size = sizeof(PjrtArgs);
    // Hides the size: compilers make `rep stos` of a large constant size, which starts more slowly than the library's
    // memset.
    if constexpr (!kIsOfOneHandle) asm("" : "+r"(size));
    std::memset(static_cast<void*>(this), 0, size);
    this->struct_size = sizeof(PjrtArgs);
  }

 private:
  // The structs of hot calls pass only a handle, so few bytes are cleared for them: room for eight more fields.
  static constexpr bool kIsOfOneHandle = sizeof(T) <= 3 * sizeof(void*);

  unsigned char later_fields_[kIsOfOneHandle ? 64 : 256];
};

// The FFI extension, for which no package ships a header: xla/pjrt/c/pjrt_c_api_ffi_extension.h, version 3.
struct PjrtFfiRegisterHandlerArgs {
  size_t struct_size;  // this struct has no extension_start
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

/// Returns the number in an enum field that a plugin wrote. Newer plugins have numbers that this header lacks, which
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
  /// Null if the plugin has no extension of this type.
  const PJRT_Extension_Base* Extension(PJRT_Extension_Type type) const;

  /// Calls a function of the table. Returns Unimplemented if the plugin is too old to have the function, Internal if
  /// the function throws, and the plugin's own code and text if the function fails.
  template <typename Args>
  Status Call(PJRT_Error* (*PJRT_Api::*function)(Args*), std::string_view name, PjrtArgs<Args>& args) const {
    if (!Has(&(table_->*function)) || table_->*function == nullptr) return Missing(name);
    try {
      return Take((table_->*function)(&args));
    } catch (...) {
      return Threw(name);
    }
  }
  /// Calls a function that destroys an object. It returns no error, because nobody could act on one.
  template <typename Args>
  void Destroy(PJRT_Error* (*PJRT_Api::*function)(Args*), PjrtArgs<Args>& args) const {
    if (Has(&(table_->*function)) && table_->*function != nullptr) (void)Call(function, "a destructor", args);
  }

  /// Returns the Status of an error, and destroys the error; ok for null.
  Status Take(PJRT_Error* error) const { return error == nullptr ? OkStatus() : TakeFailure(error); }

  /// Returns the Status of an exception that a function of the plugin threw. For use in a `catch`.
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

/// Calls PjrtApi::Call with the function's name.
#define CALLOUT_PJRT(api, name, args) (api).Call(&PJRT_Api::name, #name, args)

}  // namespace callout::internal
