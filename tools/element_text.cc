// SPDX-License-Identifier: Apache-2.0
#include "element_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callout/elements.h"

namespace callout::tools {
namespace {

Status NoNumber(std::string_view text, DType dtype) {
  return InvalidArgument("callout: '" + std::string(text) + "' is no " + std::string(ShortName(dtype)));
}

template <typename T>
bool Parse(std::string_view text, T& number) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

template <typename T>
void Put(T number, std::byte* out) {
  std::memcpy(out, &number, sizeof(number));
}

// Returns all values of an 8-bit or 16-bit float except -0, with their bits, in ascending order.
const std::vector<std::pair<float, uint16_t>>& SmallFloats(DType dtype) {
  static auto* const tables = new std::map<DType, std::vector<std::pair<float, uint16_t>>>;
  auto& table = (*tables)[dtype];
  if (table.empty()) {
    for (uint32_t bits = 0; bits < 1U << BitWidth(dtype); ++bits) {
      const float value = SmallFloatToFloat(dtype, static_cast<uint16_t>(bits));
      if (!std::isnan(value) && (value != 0 || !std::signbit(value)))
        table.emplace_back(value, static_cast<uint16_t>(bits));
    }
    std::sort(table.begin(), table.end());
  }
  return table;
}

// Returns the bits of the nearest value, ties to even.
uint16_t NearestBits(double number, DType dtype) {
  const auto& table = SmallFloats(dtype);
  const auto above = std::lower_bound(table.begin(), table.end(), number,
                                      [](const auto& entry, double wanted) { return entry.first < wanted; });
  if (above == table.end()) return table.back().second;
  if (above == table.begin() || above->first == number) return above->second;
  const auto below = std::prev(above);
  // Infinity begins at the value that would follow the last finite one.
  const double high = std::isinf(above->first) ? 2.0 * below->first - std::prev(below)->first : above->first;
  const double low = std::isinf(below->first) ? 2.0 * above->first - std::next(above)->first : below->first;
  const double up = high - number, down = number - low;
  if (up != down) return up < down ? above->second : below->second;
  return (above->second & 1U) == 0 ? above->second : below->second;
}

// Returns the first NaN pattern of a small float, or nothing if the type has no NaN.
std::optional<uint16_t> NanBits(DType dtype) {
  for (uint32_t bits = 0; bits < 1U << BitWidth(dtype); ++bits) {
    if (std::isnan(SmallFloatToFloat(dtype, static_cast<uint16_t>(bits)))) return static_cast<uint16_t>(bits);
  }
  return std::nullopt;
}

uint16_t SmallFloatBits(double number, DType dtype) {
  if (std::isnan(number)) return NanBits(dtype).value_or(0);
  const uint16_t bits = NearestBits(number, dtype);
  const auto sign = static_cast<uint16_t>(1U << (BitWidth(dtype) - 1));
  const bool has_negative_zero = SmallFloatToFloat(dtype, sign) == 0;
  return bits == 0 && std::signbit(number) && has_negative_zero ? sign : bits;
}

void PutReal(double number, DType dtype, std::byte* out) {
  if (dtype == DType::kFloat32) return Put(static_cast<float>(number), out);
  if (dtype == DType::kFloat64) return Put(number, out);
  const uint16_t bits = SmallFloatBits(number, dtype);
  if (BitWidth(dtype) == 16) return Put(bits, out);
  Put(static_cast<uint8_t>(bits), out);
}

bool IsComplex(DType dtype) { return KindOf(dtype) == DTypeKind::kComplex; }

bool IsFloat(DType dtype) { return KindOf(dtype) == DTypeKind::kFloat; }

bool IsSigned(DType dtype) { return KindOf(dtype) == DTypeKind::kSigned; }

// Works for all widths: the number is the low bytes of a two's complement.
void PutInteger(uint64_t number, DType dtype, std::byte* out) {
  const int bits = BitWidth(dtype);
  if (bits < 8) number &= (1U << bits) - 1U;
  std::memcpy(out, &number, static_cast<size_t>((bits + 7) / 8));
}

Status StoreInteger(std::string_view text, DType dtype, std::byte* out) {
  const int bits = BitWidth(dtype);
  if (IsSigned(dtype)) {
    int64_t number = 0;
    const int64_t limit = std::numeric_limits<int64_t>::max() >> (64 - bits);
    if (!Parse(text, number) || number > limit || number < -limit - 1) return NoNumber(text, dtype);
    PutInteger(static_cast<uint64_t>(number), dtype, out);
  } else {
    uint64_t number = 0;
    const uint64_t limit = std::numeric_limits<uint64_t>::max() >> (64 - bits);
    if (!Parse(text, number) || number > limit) return NoNumber(text, dtype);
    PutInteger(number, dtype, out);
  }
  return OkStatus();
}

// Parses "1.5", "2j", "1+2j", "1e-3-2e+4j". The last sign that does not belong to an exponent begins the imaginary
// part.
bool ParseComplex(std::string_view text, double& re, double& im) {
  re = im = 0;
  if (!text.ends_with('j')) return Parse(text, re);
  text.remove_suffix(1);
  size_t split = text.size();
  while (split-- > 1) {
    const bool is_sign = text[split] == '+' || text[split] == '-';
    if (is_sign && text[split - 1] != 'e' && text[split - 1] != 'E') {
      return Parse(text.substr(0, split), re) && Parse(text.substr(split), im);
    }
  }
  return Parse(text, im);
}

}  // namespace

Status StoreText(std::string_view text, DType dtype, std::byte* out) {
  if (dtype == DType::kBool) {
    const bool is_true = text == "1" || text == "true" || text == "True";
    if (!is_true && text != "0" && text != "false" && text != "False") return NoNumber(text, dtype);
    Put(static_cast<uint8_t>(is_true), out);
    return OkStatus();
  }
  if (IsComplex(dtype)) {
    double re, im;
    if (!ParseComplex(text, re, im)) return NoNumber(text, dtype);
    const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    PutReal(re, part, out);
    PutReal(im, part, out + BitWidth(part) / 8);
    return OkStatus();
  }
  if (!IsFloat(dtype)) return StoreInteger(text, dtype, out);
  double number = 0;
  const auto has_nan = [&] { return BitWidth(dtype) > 16 || NanBits(dtype).has_value(); };
  if (!Parse(text, number) || (std::isnan(number) && !has_nan())) return NoNumber(text, dtype);
  PutReal(number, dtype, out);
  return OkStatus();
}

void StoreUniform(double number, DType dtype, std::byte* out) {
  constexpr double kIntegers = 100;
  if (dtype == DType::kBool) {
    Put(static_cast<uint8_t>(number >= 0.5), out);
  } else if (IsComplex(dtype)) {
    const DType part = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
    PutReal(number, part, out);
    PutReal(number, part, out + BitWidth(part) / 8);
  } else if (IsFloat(dtype)) {
    PutReal(number, dtype, out);
  } else {
    const int magnitude = BitWidth(dtype) - (IsSigned(dtype) ? 1 : 0);
    PutInteger(static_cast<uint64_t>(number * std::min(std::ldexp(1, magnitude), kIntegers)), dtype, out);
  }
}

DType ParseDType(std::string_view name) {
  const std::string xla = name.starts_with('i') ? "s" + std::string(name.substr(1)) : std::string(name);
  if (xla == "pred") return DType::kBool;
  for (uint32_t number = 0; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (BitWidth(dtype) > 0 && ShortName(dtype) == xla) return dtype;
  }
  return DType::kInvalid;
}

}  // namespace callout::tools
