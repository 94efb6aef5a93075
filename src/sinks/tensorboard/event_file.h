// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard's event files: the part of the messages (event.proto and summary.proto of TensorFlow) that summaries
// need, and images as PNG (RFC 2083). Images are not compressed, because a training shows small ones and their file is
// read once.
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

/// Encodes an image. `pixels` has one byte for each of 1 (grey), 3 (RGB) or 4 (RGBA) `channels`, row by row.
std::string PngOf(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels);

// ForEachValue and FirstValue read elements of any real type as doubles, to which they round 64-bit integers.

/// Returns whether these functions can read the buffer; false for complex numbers, tokens and unknown types.
bool HasRealElements(const callout_buffer& buffer);

/// Calls `visit` with consecutive parts of the elements. Requires HasRealElements(buffer).
void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit);

/// Returns the first element. Requires HasRealElements(buffer).
double FirstValue(const callout_buffer& buffer);

// Messages of event files. Arrays are written in the form that TensorBoard's plugins take: a number, or tensor.proto of
// TensorFlow.

/// The TensorBoard plugin that shows a value.
enum class ShownAs { kScalar, kHistogram, kImage, kText };

/// Returns the encoded field of a summary's value that holds the data: `simple_value` for a scalar, which TensorFlow 1
/// and PyTorch write and which every reader knows as a scalar, and `tensor` for other kinds. InvalidArgument, with the
/// shape, for arrays that cannot be shown as `kind`.
Result<std::string> SummaryDataOf(const callout_buffer& buffer, ShownAs kind);

/// Returns the first event of each file.
std::string VersionEvent(double wall_time);

/// Writes an event with a summary of some values. `event` must be empty.
void WriteEvent(double wall_time, int64_t step, std::string_view summary, WireWriter& event);

/// Returns a summary's value without its data: the tag, and for a tensor the TensorBoard plugin that shows it.
std::string ValueHead(std::string_view tag, ShownAs kind);

/// Adds a value to a summary. `data` comes from SummaryDataOf. `value` is scratch memory.
void AddValue(std::string_view head, std::string_view data, WireWriter& value, WireWriter& summary);

}  // namespace callout::internal
