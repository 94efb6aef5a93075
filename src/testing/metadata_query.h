// SPDX-License-Identifier: Apache-2.0
//
// The frame with which a runtime asks a handler for its metadata. Has no .cc file, because the tests' plugins link no
// library.
#pragma once

#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Not movable: `frame` points into the object.
struct MetadataQuery {
  explicit MetadataQuery(const XLA_FFI_Api* api) {
    metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
    extension.extension_base = {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata, nullptr};
    extension.metadata = &metadata;
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.extension_start = &extension.extension_base;
    frame.api = api;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  }
  MetadataQuery(const MetadataQuery&) = delete;
  MetadataQuery& operator=(const MetadataQuery&) = delete;

  XLA_FFI_Metadata metadata = {};
  XLA_FFI_Metadata_Extension extension = {};
  XLA_FFI_CallFrame frame = {};
};

}  // namespace callout::internal
