// SPDX-License-Identifier: Apache-2.0
//
// The messages in TensorBoard's event files (event.proto and summary.proto of TensorFlow), as far as
// summaries need them.
// Arrays are written as TensorBoard's plugins take them: a number, or tensor.proto of TensorFlow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/encoding/wire.h"

namespace callout::internal {

/// Which of TensorBoard's plugins shows it.
enum class ShownAs { kScalar, kHistogram, kImage, kText };

/// The encoded field of a summary's value that holds the data: `simple_value` for a scalar, which TensorFlow 1 and
/// PyTorch write and which every reader knows as a scalar, and `tensor` for the other kinds. InvalidArgument, with the
/// shape, for arrays that cannot be shown as `kind`.
Result<std::string> SummaryDataOf(const callout_buffer& buffer, ShownAs kind);

/// The first event of each file.
std::string VersionEvent(double wall_time);

/// An event with a summary of some values. `event` is empty.
void WriteEvent(double wall_time, int64_t step, std::string_view summary, WireWriter& event);

/// A summary's value up to its data: the tag, and for a tensor which of TensorBoard's plugins shows it.
std::string ValueHead(std::string_view tag, ShownAs kind);

/// Adds a value to a summary. `data` comes from SummaryDataOf; `value` is for its memory.
void AddValue(std::string_view head, std::string_view data, WireWriter& value, WireWriter& summary);

}  // namespace callout::internal
