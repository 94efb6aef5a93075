// SPDX-License-Identifier: Apache-2.0
//
// A launch of callout.v1.image, from what the program says of it.
// image_handler.cc has the handlers of callout.v1.image and callout.v1.image_sync.
#pragma once

#include "core/attributes/site_attributes.h"
#include "cuda/kernels/image_kernel.h"

namespace callout::internal {

/// InvalidArgument for parts that do not fit each other.
Result<ImageCall> ImageCallOf(const ImageAttributes& said);

}  // namespace callout::internal
