// SPDX-License-Identifier: Apache-2.0
#include "sinks/tensorboard/event_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "callout/dtype.h"
#include "core/base/invariant.h"
#include "core/encoding/checksums.h"
#include "core/encoding/utf8.h"
#include "core/encoding/wire.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

constexpr size_t kMaxStored = 65535;

void AppendBig(uint32_t number, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> static_cast<unsigned>(shift));
}

void AppendChunk(std::string_view type, std::string_view data, std::string& out) {
  AppendBig(static_cast<uint32_t>(data.size()), out);
  out += type;
  out += data;
  AppendBig(Crc32(data, Crc32(type)), out);
}

uint32_t Adler32(std::string_view bytes) {
  constexpr uint32_t kModulus = 65521;
  constexpr size_t kBeforeOverflow = 5552;  // The largest number of bytes for which the second sum fits.
  uint32_t a = 1, b = 0;
  while (!bytes.empty()) {
    for (const char byte : bytes.substr(0, kBeforeOverflow)) b += a += static_cast<uint8_t>(byte);
    a %= kModulus;
    b %= kModulus;
    bytes.remove_prefix(std::min(bytes.size(), kBeforeOverflow));
  }
  return b << 16U | a;
}

// Returns a zlib stream (RFC 1950) of stored blocks.
std::string Stored(std::string_view bytes) {
  std::string stream = "\x78\x01";
  for (std::string_view rest = bytes;;) {
    const auto size = static_cast<uint32_t>(std::min(rest.size(), kMaxStored));
    const bool is_last = size == rest.size();
    for (const uint32_t byte : {is_last ? 1U : 0U, size, size >> 8U, ~size, ~size >> 8U}) {
      stream += static_cast<char>(byte);
    }
    stream += rest.substr(0, size);
    rest.remove_prefix(size);
    if (is_last) break;
  }
  AppendBig(Adler32(bytes), stream);
  return stream;
}

}  // namespace

std::string PngOf(uint32_t width, uint32_t height, uint32_t channels, std::string_view pixels) {
  const size_t row_bytes = size_t{width} * channels;
  CALLOUT_CHECK(pixels.size() == row_bytes * height, "an image has a byte for each channel of each pixel");
  std::string header;
  AppendBig(width, header);
  AppendBig(height, header);
  header += '\x08';  // Bits of a channel.
  header += channels == 1 ? '\x00' : channels == 3 ? '\x02' : '\x06';
  header.append(3, '\0');  // Deflate, filters by row, not interlaced.
  std::string rows;
  rows.reserve(pixels.size() + height);
  for (uint32_t row = 0; row < height; ++row) {
    rows += '\0';  // No filter.
    rows += pixels.substr(row * row_bytes, row_bytes);
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", header, png);
  AppendChunk("IDAT", Stored(rows), png);
  AppendChunk("IEND", "", png);
  return png;
}

bool HasRealElements(const callout_buffer& buffer) {
  const DTypeRow& row = RowOf(static_cast<DType>(buffer.dtype));
  return row.kind == DTypeKind::kBool || row.kind == DTypeKind::kFloat || row.is_integer();
}

void ForEachValue(const callout_buffer& buffer, const std::function<void(std::span<const double>)>& visit) {
  constexpr int64_t kAtOnce = 1024;
  std::array<double, kAtOnce> values;
  const int64_t count = ElementCount(buffer);
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const auto some = static_cast<size_t>(std::min(kAtOnce, count - i));
    CALLOUT_CHECK(ReadDoubles(buffer, i, some, values.data()).ok(), "an array has elements that are no numbers");
    visit({values.data(), some});
  }
}

double FirstValue(const callout_buffer& buffer) {
  double value = 0;
  CALLOUT_CHECK(ReadDoubles(buffer, 0, 1, &value).ok(), "an array has elements that are no numbers");
  return value;
}

namespace {

constexpr size_t kBuckets = 30;  // The number that TensorFlow's and TensorBoard's own writers use.

// Field numbers.
enum Data { kSimpleValue = 2, kTensor = 8 };
enum Tensor { kDType = 1, kShape = 2, kContent = 4, kStrings = 8 };
enum DataType { kDouble = 2, kString = 7 };

std::string ShapeOf(std::initializer_list<uint64_t> dims) {
  WireWriter shape;
  for (const uint64_t extent : dims) {
    WireWriter dim;
    dim.AddNumber(1, extent);
    shape.AddMessage(2, dim.bytes());
  }
  return shape.bytes();
}

template <typename T>
std::string_view BytesOf(const T& values) {
  return {reinterpret_cast<const char*>(&values), sizeof(values)};
}

// Writes [left edge, right edge, count] for each bucket. NaN and infinities are in none.
std::string HistogramTensor(const callout_buffer& buffer) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = kInfinity, high = -kInfinity, count = 0;
  ForEachValue(buffer, [&](std::span<const double> values) {
    for (const double value : values) {
      if (!(value > -kInfinity && value < kInfinity)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
      ++count;
    }
  });
  std::array<std::array<double, 3>, kBuckets> buckets = {};
  const double scale = high - low < kInfinity ? 1 : 0.5;  // Scales a range that would overflow a double.
  const double width = (high * scale - low * scale) / kBuckets;
  if (count > 0) {
    const auto edge = [&](size_t i) { return (low * scale + width * static_cast<double>(i)) / scale; };
    for (size_t i = 0; i < kBuckets; ++i) buckets[i] = {edge(i), i + 1 == kBuckets ? high : edge(i + 1), 0};
  }
  if (width > 0) {
    ForEachValue(buffer, [&](std::span<const double> values) {
      for (const double value : values) {
        if (!(value >= low && value <= high)) continue;
        const double index = (value * scale - low * scale) / width;
        ++buckets[index < kBuckets - 1 ? static_cast<size_t>(std::max(index, 0.0)) : kBuckets - 1][2];
      }
    });
  } else {
    buckets.back()[2] = count;  // All elements are equal.
  }
  WireWriter tensor;
  tensor.AddNumber(kDType, kDouble);
  tensor.AddMessage(kShape, ShapeOf({kBuckets, 3}));
  tensor.AddMessage(kContent, BytesOf(buckets));
  return tensor.bytes();
}

// TensorFlow's convention: floats from 0 to 1.
Result<std::string> PixelsOf(const callout_buffer& buffer) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  if (dtype == DType::kUint8) return std::string(static_cast<const char*>(buffer.data), buffer.size_bytes);
  const bool is_float =
      dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  if (!is_float && dtype != DType::kBool) {
    return InvalidArgument("expected an image of uint8, bool or floats from 0 to 1, got " + ShapeString(buffer));
  }
  std::string pixels;
  ForEachValue(buffer, [&](std::span<const double> values) {
    for (const double value : values) {
      const double inside = value > 0 ? std::min(value, 1.0) : 0.0;  // NaN becomes 0.
      pixels += static_cast<char>(std::lround(inside * 255.0));
    }
  });
  return pixels;
}

Result<std::string> ImageTensor(const callout_buffer& buffer) {
  const uint32_t rank = buffer.rank;
  const int64_t last = rank > 0 ? buffer.dims[rank - 1] : 0;
  const bool has_channels = rank >= 3;
  const int64_t channels = has_channels ? last : 1;
  if (rank < 2 || rank > 4 || (channels != 1 && channels != 3 && channels != 4) || ElementCount(buffer) == 0) {
    return InvalidArgument(
        "expected an image of [height,width], [height,width,1 or 3 or 4], or several as [n,...], got " +
        ShapeString(buffer));
  }
  const int64_t* const size = buffer.dims + (rank == 4 ? 1 : 0);
  const auto height = static_cast<uint32_t>(size[0]), width = static_cast<uint32_t>(size[1]);
  CALLOUT_ASSIGN_OR_RETURN(const std::string pixels, PixelsOf(buffer));
  const size_t image_bytes = size_t{height} * width * static_cast<size_t>(channels);
  const uint64_t images = pixels.size() / image_bytes;
  WireWriter tensor;
  tensor.AddNumber(kDType, kString);
  tensor.AddMessage(kShape, ShapeOf({2 + images}));
  tensor.AddMessage(kStrings, std::to_string(width));
  tensor.AddMessage(kStrings, std::to_string(height));
  for (size_t i = 0; i < images; ++i) {
    const auto image = std::string_view(pixels).substr(i * image_bytes, image_bytes);
    tensor.AddMessage(kStrings, PngOf(width, height, static_cast<uint32_t>(channels), image));
  }
  return tensor.bytes();
}

Result<std::string> TextTensor(const callout_buffer& buffer) {
  if (static_cast<DType>(buffer.dtype) != DType::kUint8 || buffer.rank < 1 || buffer.rank > 2) {
    return InvalidArgument("expected text as UTF-8 in uint8[bytes] or uint8[texts,bytes], got " + ShapeString(buffer));
  }
  const bool is_one = buffer.rank == 1;
  const int64_t texts = is_one ? 1 : buffer.dims[0];
  const auto bytes = static_cast<size_t>(buffer.dims[buffer.rank - 1]);
  WireWriter tensor;
  tensor.AddNumber(kDType, kString);
  tensor.AddMessage(kShape, is_one ? "" : ShapeOf({static_cast<uint64_t>(texts)}));
  for (int64_t i = 0; i < texts; ++i) {
    std::string_view text(static_cast<const char*>(buffer.data) + static_cast<size_t>(i) * bytes, bytes);
    tensor.AddMessage(kStrings, ValidUtf8(text.substr(0, text.find_last_not_of('\0') + 1)));
  }
  return tensor.bytes();
}

Result<std::string> TensorOf(const callout_buffer& buffer, ShownAs kind) {
  switch (kind) {
    case ShownAs::kHistogram:
      return HistogramTensor(buffer);
    case ShownAs::kImage:
      return ImageTensor(buffer);
    case ShownAs::kText:
      return TextTensor(buffer);
    case ShownAs::kScalar:
      break;
  }
  return InvalidArgument("expected a kind of summary");
}

}  // namespace

Result<std::string> SummaryDataOf(const callout_buffer& buffer, ShownAs kind) {
  if (!HasRealElements(buffer)) {
    return InvalidArgument("expected real numbers, got " + ShapeString(buffer));
  }
  WireWriter data;
  if (kind == ShownAs::kScalar) {
    if (ElementCount(buffer) != 1) return InvalidArgument("expected a scalar, got " + ShapeString(buffer));
    data.AddFloat(kSimpleValue, static_cast<float>(FirstValue(buffer)));
  } else {
    CALLOUT_ASSIGN_OR_RETURN(const std::string tensor, TensorOf(buffer, kind));
    data.AddMessage(kTensor, tensor);
  }
  return data.bytes();
}

namespace {

constexpr char kFileVersion[] = "brain.Event:2";

// Field numbers.
enum Event { kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSource = 10 };
enum SummaryField { kValue = 1 };
enum Value { kTag = 1, kMetadata = 9 };
enum Metadata { kPluginData = 1, kDataClass = 4 };

struct Plugin {
  std::string_view name;
  uint64_t data_class;  // 2: tensor, 3: sequence of blobs.
};

Plugin PluginOf(ShownAs kind) {
  switch (kind) {
    case ShownAs::kScalar:
      break;  // Readers know a `simple_value` without metadata.
    case ShownAs::kHistogram:
      return {"histograms", 2};
    case ShownAs::kImage:
      return {"images", 3};
    case ShownAs::kText:
      return {"text", 2};
  }
  return {};
}

}  // namespace

std::string VersionEvent(double wall_time) {
  WireWriter source, event;
  source.AddMessage(1, "callout");
  event.AddDouble(kWallTime, wall_time);
  event.AddMessage(kVersion, kFileVersion);
  event.AddMessage(kSource, source.bytes());
  return event.bytes();
}

void WriteEvent(double wall_time, int64_t step, std::string_view summary, WireWriter& event) {
  event.AddDouble(kWallTime, wall_time);
  event.AddNumber(kStep, static_cast<uint64_t>(step));
  event.AddMessage(kSummary, summary);
}

std::string ValueHead(std::string_view tag, ShownAs kind) {
  WireWriter plugin_data, metadata, value;
  value.AddMessage(kTag, ValidUtf8(tag));
  if (kind == ShownAs::kScalar) return value.bytes();
  const Plugin plugin = PluginOf(kind);
  plugin_data.AddMessage(1, plugin.name);
  metadata.AddMessage(kPluginData, plugin_data.bytes());
  metadata.AddNumber(kDataClass, plugin.data_class);
  value.AddMessage(kMetadata, metadata.bytes());
  return value.bytes();
}

void AddValue(std::string_view head, std::string_view data, WireWriter& value, WireWriter& summary) {
  value.Clear();
  value.AddFields(head);
  value.AddFields(data);
  summary.AddMessage(kValue, value.bytes());
}

}  // namespace callout::internal
