// SPDX-License-Identifier: Apache-2.0
//
// Converts a program's description of a kernel to an ImageCall. image_handler.cc has the handlers of callout.v1.image
// and callout.v1.image_sync.
#pragma once

#include "core/attributes/site_attributes.h"
#include "cuda/kernels/image_kernel.h"

namespace callout::internal {

/// InvalidArgument if the parts contradict each other.
Result<ImageCall> ImageCallOf(const ImageAttributes& attributes);

}  // namespace callout::internal
