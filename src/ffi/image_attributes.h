// SPDX-License-Identifier: Apache-2.0
//
// What callout.v1.image says of a launch, read from the program's attributes (docs/abi.md).
#pragma once

#include "frame/ffi_abi.h"
#include "images/image_call.h"

namespace callout::internal {

/// Checked. InvalidArgument for what is missing or does not fit.
Result<ImageCall> DecodeImageCall(const XLA_FFI_Attrs& attrs);

}  // namespace callout::internal
