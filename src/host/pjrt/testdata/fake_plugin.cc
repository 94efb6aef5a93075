// SPDX-License-Identifier: Apache-2.0
//
// Broken PJRT plugins; FAKE_KIND selects the defect.
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

#include "host/pjrt/pjrt_abi.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string text;
};

namespace {

using callout::internal::PjrtFfiExtension;
using callout::internal::PjrtFfiRegisterHandlerArgs;

enum Kind {
  kOtherMajor,
  kOld,
  kNewer,
  kNoFfi,
  kFailsToStart,
  kFailsWithoutCode,
  kSwallowsHandlers,
  kThrows,
  kThrowsAtOnce
};
constexpr Kind kKind = FAKE_KIND;

void DestroyError(PJRT_Error_Destroy_Args* args) { delete args->error; }
void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->text.data();
  args->message_size = args->error->text.size();
}
PJRT_Error* ErrorCode(PJRT_Error_GetCode_Args* args) {
  if (kKind == kFailsWithoutCode) return new PJRT_Error{PJRT_Error_Code_INTERNAL, "no code to be had"};
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* Initialize(PJRT_Plugin_Initialize_Args* args) {
  // A newer plugin's struct is larger than the one in the header here.
  if (kKind == kNewer && args->struct_size < sizeof(*args) + 64) {
    return new PJRT_Error{PJRT_Error_Code_INVALID_ARGUMENT, "the argument struct is too small"};
  }
  if (kKind == kThrows) throw std::runtime_error("no device at all");
  if (kKind != kFailsToStart && kKind != kFailsWithoutCode) return nullptr;
  return new PJRT_Error{PJRT_Error_Code_RESOURCE_EXHAUSTED, "all devices are taken"};
}

PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args) {
  static PJRT_NamedValue values[2] = {};
  static const int64_t version[] = {1, 99, 0};
  values[0].name = "stablehlo_current_version";
  values[0].name_size = std::strlen(values[0].name);
  values[0].type = PJRT_NamedValue_kInt64List;
  values[0].int64_array_value = version;
  values[0].value_size = 3;
  values[1].name = "fake";
  values[1].name_size = 4;
  values[1].type = PJRT_NamedValue_kBool;
  values[1].bool_value = true;
  values[1].value_size = 1;
  args->attributes = values;
  args->num_attributes = 2;
  return nullptr;
}

// Returns success without registering anything.
PJRT_Error* RegisterHandler(PjrtFfiRegisterHandlerArgs*) { return nullptr; }

PJRT_Api MakeTable() {
  static PjrtFfiExtension ffi = {
      {sizeof(PjrtFfiExtension), PJRT_Extension_Type_FFI, nullptr}, nullptr, nullptr, &RegisterHandler};
  static PJRT_Extension_Base other = {sizeof(PJRT_Extension_Base), PJRT_Extension_Type_Layouts,
                                      kKind == kNoFfi ? nullptr : &ffi.base};
  PJRT_Api table = {};
  table.struct_size = kKind == kOld ? offsetof(PJRT_Api, PJRT_Plugin_Attributes) : sizeof(table);
  table.extension_start = &other;
  table.pjrt_api_version.major_version = kKind == kOtherMajor ? 7 : 0;
  table.pjrt_api_version.minor_version = kKind == kOld ? 1 : 81;
  table.PJRT_Error_Destroy = &DestroyError;
  table.PJRT_Error_Message = &ErrorMessage;
  table.PJRT_Error_GetCode = &ErrorCode;
  table.PJRT_Plugin_Initialize = &Initialize;
  table.PJRT_Plugin_Attributes = &Attributes;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  if (kKind == kThrowsAtOnce) throw 42;
  static const PJRT_Api table = MakeTable();
  return &table;
}
