// SPDX-License-Identifier: Apache-2.0
//
// A launch of callout.v1.image, from what the program says of it.
#pragma once

#include "core/attributes/image_attributes.h"
#include "cuda/kernels/image_call.h"

namespace callout::internal {

/// InvalidArgument for parts that do not fit each other.
Result<ImageCall> ImageCallOf(const ImageAttributes& said);

}  // namespace callout::internal
