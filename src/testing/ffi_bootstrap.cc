// SPDX-License-Identifier: Apache-2.0
#include "testing/ffi_bootstrap.h"

#include "testing/metadata_query.h"

namespace callout::internal {

void AskForMetadata(void* handler) {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api table = {};
    table.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    table.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, 0, 3};
    table.XLA_FFI_Handler_Register = [](XLA_FFI_Handler_Register_Args*) -> XLA_FFI_Error* { return nullptr; };
    return table;
  }();
  MetadataQuery query(&api);
  (void)reinterpret_cast<XLA_FFI_Handler*>(handler)(&query.frame);
}

}  // namespace callout::internal
