// SPDX-License-Identifier: Apache-2.0
//
// Arrays as TensorBoard's plugins take them: a number, or tensor.proto of TensorFlow.
#pragma once

#include <string>

#include "callout/abi.h"
#include "callout/status.h"

namespace callout::internal {

/// Which of TensorBoard's plugins shows it.
enum class ShownAs { kScalar, kHistogram, kImage, kText };

/// The encoded field of a summary's value that holds the data: `simple_value` for a scalar, which TensorFlow 1 and
/// PyTorch write and which every reader knows as a scalar, and `tensor` for the other kinds. InvalidArgument, with the
/// shape, for arrays that cannot be shown as `kind`.
Result<std::string> SummaryDataOf(const callout_buffer& buffer, ShownAs kind);

}  // namespace callout::internal
