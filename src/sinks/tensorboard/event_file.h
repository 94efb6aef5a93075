// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard's event files: the messages (event.proto and summary.proto of TensorFlow) as far as summaries need
// them, and images as PNG (RFC 2083) without compression, since what a training shows is small and its file is read
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "callout/abi.h"
#include "callout/status.h"
#include "core/encoding/wire.h"

namespace callout::internal {

/// `pixels`: a byte for each of 1 (grey), 3 (RGB) or 4 (RGBA) `channels`, row by row.
std::string PngOf(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels);

// The elements of arrays of any real type as doubles.

/// False for complex numbers, tokens and types that are not known. Numbers of 64 bits are rounded.
bool HasRealElements(const callout_buffer& buffer);

/// Calls `visit` with all elements in turn, some at a time. For buffers that HasRealElements.
void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit);

/// The first element, of a buffer that HasRealElements.
double FirstValue(const callout_buffer& buffer);

// The messages in TensorBoard's event files (event.proto and summary.proto of TensorFlow), as far as
// summaries need them.
// Arrays are written as TensorBoard's plugins take them: a number, or tensor.proto of TensorFlow.

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
