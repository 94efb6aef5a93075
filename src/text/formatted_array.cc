// SPDX-License-Identifier: Apache-2.0
#include "text/formatted_array.h"

#include <complex>
#include <cstring>
#include <vector>

#include "frame/buffer.h"
#include "frame/small_float.h"
#include "frame/subbyte.h"
#include "text/numpy_text.h"
#include "text/text.h"

namespace callout::internal {
namespace {

template <typename T>
T Load(const callout_buffer& buffer, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer.data) + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void AppendInteger(T value, const FormatSpec& spec, std::string& out) {
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  AppendFormatted(static_cast<Wide>(value), spec, out);
}

// Elements of a whole number of bytes.
void AppendElement(const callout_buffer& buffer, size_t i, const FormatSpec& spec, std::string& out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  switch (dtype) {
    case DType::kBool:
      return AppendFormatted(static_cast<int64_t>(Load<uint8_t>(buffer, i) != 0 ? 1 : 0), spec, out);
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
      return AppendInteger(Load<int8_t>(buffer, i), spec, out);
    case DType::kInt16:
      return AppendInteger(Load<int16_t>(buffer, i), spec, out);
    case DType::kInt32:
      return AppendInteger(Load<int32_t>(buffer, i), spec, out);
    case DType::kInt64:
      return AppendInteger(Load<int64_t>(buffer, i), spec, out);
    case DType::kUint1:
    case DType::kUint2:
    case DType::kUint4:
    case DType::kUint8:
      return AppendInteger(Load<uint8_t>(buffer, i), spec, out);
    case DType::kUint16:
      return AppendInteger(Load<uint16_t>(buffer, i), spec, out);
    case DType::kUint32:
      return AppendInteger(Load<uint32_t>(buffer, i), spec, out);
    case DType::kUint64:
      return AppendInteger(Load<uint64_t>(buffer, i), spec, out);
    case DType::kFloat32:
      return AppendFormatted(static_cast<double>(Load<float>(buffer, i)), spec, out);
    case DType::kFloat64:
      return AppendFormatted(Load<double>(buffer, i), spec, out);
    case DType::kComplex64:
      return AppendFormatted(std::complex<double>(Load<std::complex<float>>(buffer, i)), spec, out);
    case DType::kComplex128:
      return AppendFormatted(Load<std::complex<double>>(buffer, i), spec, out);
    case DType::kFloat16:
    case DType::kBfloat16:
      return AppendFormatted(static_cast<double>(SmallFloatToFloat(dtype, Load<uint16_t>(buffer, i))), spec, out);
    default:
      return AppendFormatted(static_cast<double>(SmallFloatToFloat(dtype, Load<uint8_t>(buffer, i))), spec, out);
  }
}

// A scalar that NumPy's str writes in another way than its arrays'.
bool AppendPlainScalar(const callout_buffer& buffer, std::string& out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  switch (dtype) {
    case DType::kFloat32:
      return AppendShortest(Load<float>(buffer, 0), out), true;
    case DType::kFloat64:
      return AppendShortest(Load<double>(buffer, 0), out), true;
    case DType::kComplex64:
      return AppendShortest(Load<std::complex<float>>(buffer, 0), out), true;
    case DType::kComplex128:
      return AppendShortest(Load<std::complex<double>>(buffer, 0), out), true;
    case DType::kFloat16:
    case DType::kBfloat16:
      return AppendShortest(SmallFloatToFloat(dtype, Load<uint16_t>(buffer, 0)), out), true;
    default:
      return false;
  }
}

}  // namespace

FormatKind FormatKindOf(DType dtype) {
  if (dtype == DType::kBool) return FormatKind::kBool;
  if (dtype == DType::kComplex64 || dtype == DType::kComplex128) return FormatKind::kComplex;
  const char kind = ShortName(dtype).front();
  return kind == 's' || kind == 'u' ? FormatKind::kInteger : FormatKind::kFloat;
}

void AppendFormattedArray(const callout_buffer& buffer, const FormatSpec& spec, std::string& out) {
  callout_buffer whole_bytes = buffer;
  std::vector<uint8_t> unpacked;
  if (IsSubByte(static_cast<DType>(buffer.dtype))) {
    unpacked.resize(static_cast<size_t>(ElementCount(buffer)));
    Unpack(static_cast<DType>(buffer.dtype), buffer.data, ElementCount(buffer), unpacked.data());
    whole_bytes.data = unpacked.data();
    whole_bytes.size_bytes = unpacked.size();
  }
  const auto append = [&](const callout_buffer& shown, size_t i, std::string& to) {
    AppendElement(shown, i, spec, to);
  };
  AppendNumpyWords(whole_bytes, NumpyTextOptions().threshold, append, out);
}

void AppendPlainArray(const callout_buffer& buffer, std::string& out) {
  if (buffer.rank == 0 && AppendPlainScalar(buffer, out)) return;
  if (!AppendNumpyText(buffer, {}, out)) AppendArray(buffer, TextStyle::kPrint, out);
}

}  // namespace callout::internal
