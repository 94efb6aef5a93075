// SPDX-License-Identifier: Apache-2.0
#include "array_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "core/base/cat.h"
#include "element_text.h"

namespace callout::tools {
namespace {

constexpr std::string_view kRandom = "random:";

Status BadSpec(std::string_view text, const std::string& why) {
  return InvalidArgument("callout: '" + std::string(text) + "' is no array: " + why +
                         "; write f32[2,3]=0.5, f32[3]=1,2,3, f32[]=1 or f32[2,3]=random:SEED");
}

Status Fill(std::string_view value, Array& array) {
  const size_t size = ElementSize(array.type.dtype);
  std::byte element[16];
  CALLOUT_RETURN_IF_ERROR(StoreText(value, array.type.dtype, element));
  for (size_t at = 0; at < array.bytes.size(); at += size) std::memcpy(&array.bytes[at], element, size);
  return OkStatus();
}

Status FillFromList(std::string_view values, Array& array) {
  const size_t size = ElementSize(array.type.dtype);
  for (size_t at = 0; at < array.bytes.size(); at += size) {
    const size_t comma = values.find(',');
    CALLOUT_RETURN_IF_ERROR(StoreText(values.substr(0, comma), array.type.dtype, &array.bytes[at]));
    values.remove_prefix(comma == std::string_view::npos ? values.size() : comma + 1);
  }
  return OkStatus();
}

bool FillAtRandom(std::string_view seed_text, Array& array) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(seed_text.data(), seed_text.data() + seed_text.size(), seed);
  if (error != std::errc() || end != seed_text.data() + seed_text.size()) return false;
  // The C++ standard defines the generator's numbers, but not those of std::uniform_real_distribution.
  std::mt19937_64 random(seed);
  const size_t size = ElementSize(array.type.dtype);
  for (size_t at = 0; at < array.bytes.size(); at += size) {
    constexpr int kMantissa = 24;  // Keeps even a float32 below 1.
    StoreUniform(std::ldexp(static_cast<double>(random() >> (64 - kMantissa)), -kMantissa), array.type.dtype,
                 &array.bytes[at]);
  }
  return true;
}

}  // namespace

bool LooksLikeSpec(std::string_view text) {
  const size_t open = text.find('['), close = text.find("]=");
  return open != std::string_view::npos && close != std::string_view::npos && open < close &&
         text.substr(0, open).find('/') == std::string_view::npos;
}

Result<pjrt::ArrayType> ParseArrayType(std::string_view text) {
  const size_t open = text.find('[');
  const auto bad = [&](const std::string& why) {
    return InvalidArgument("callout: '" + std::string(text) + "' is no type of an array: " + why);
  };
  if (open == std::string_view::npos || !text.ends_with(']')) return bad("expected f32[2,3] or the like");
  pjrt::ArrayType type{ParseDType(text.substr(0, open)), {}};
  if (type.dtype == DType::kInvalid) return bad("unknown element type '" + std::string(text.substr(0, open)) + "'");
  std::string_view dims = text.substr(open + 1, text.size() - open - 2);
  while (!dims.empty()) {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(dims.data(), dims.data() + dims.size(), extent);
    dims.remove_prefix(static_cast<size_t>(end - dims.data()));
    if (error != std::errc() || extent < 0 || (!dims.empty() && (dims.front() != ',' || dims.size() == 1))) {
      return bad("its dimensions are no numbers");
    }
    if (!dims.empty()) dims.remove_prefix(1);
    type.dims.push_back(extent);
  }
  return type;
}

Result<Array> ParseSpec(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return BadSpec(text, "it has no '='");
  const std::string_view values = text.substr(equals + 1);
  CALLOUT_ASSIGN_OR_RETURN(pjrt::ArrayType type, ParseArrayType(text.substr(0, equals)));
  CALLOUT_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(type));
  Array array{std::move(type), {}};
  array.bytes.resize(static_cast<size_t>(elements) * ElementSize(array.type.dtype));
  if (values.starts_with(kRandom)) {
    if (!FillAtRandom(values.substr(kRandom.size()), array)) return BadSpec(text, "its seed is no number");
    return array;
  }
  if (values.empty()) {
    if (elements == 0) return array;
    return BadSpec(text, "it has no values");
  }
  const auto listed = static_cast<int64_t>(std::count(values.begin(), values.end(), ',')) + 1;
  if (listed > 1 && listed != elements) {
    return BadSpec(text, internal::Cat(elements, " elements, but ", listed, " values"));
  }
  const Status status = listed > 1 ? FillFromList(values, array) : Fill(values, array);
  if (!status.ok()) return BadSpec(text, std::string(status.message()).substr(std::strlen("callout: ")));
  return array;
}

}  // namespace callout::tools
