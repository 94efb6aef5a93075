// SPDX-License-Identifier: Apache-2.0
#include "testing/ffi_bootstrap.h"

#include "frame/ffi_abi.h"

namespace callout::internal {

void AskForMetadata(void* handler) {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api table = {};
    table.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    table.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, 0, 3};
    table.XLA_FFI_Handler_Register = [](XLA_FFI_Handler_Register_Args*) -> XLA_FFI_Error* { return nullptr; };
    return table;
  }();
  XLA_FFI_Metadata metadata = {};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension = {};
  extension.extension_base = {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr};
  extension.metadata = &metadata;
  XLA_FFI_CallFrame frame = {};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.extension_start = &extension.extension_base;
  frame.api = &api;
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  (void)reinterpret_cast<XLA_FFI_Handler*>(handler)(&frame);
}

}  // namespace callout::internal
