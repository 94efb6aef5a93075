// SPDX-License-Identifier: Apache-2.0
//
// Arrays as TensorBoard's plugins take them: tensor.proto of TensorFlow.
#pragma once

#include <string>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// Which of TensorBoard's plugins shows it.
enum class ShownAs { kScalar, kHistogram, kImage, kText };

/// The encoded tensor. InvalidArgument, with the shape, for arrays that are no such thing.
Result<std::string> TensorOf(const callout_buffer& buffer, ShownAs kind);

}  // namespace callout::internal
