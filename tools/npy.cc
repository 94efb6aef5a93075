// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <charconv>
#include <cstring>
#include <vector>

#include "core/base/cat.h"

namespace callout::tools {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;
constexpr size_t kMaxRank = 64;  // NumPy's limit.

struct Header {
  std::string descr;
  bool is_fortran = false;
  std::vector<int64_t> dims;
};

// Returns the header's text from the value of `key` on. The header is a Python dict.
std::string_view ValueOf(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const size_t value = header.find_first_not_of(": ", at + quoted.size());
    return value == std::string_view::npos ? std::string_view() : header.substr(value);
  }
  return {};
}

bool ParseHeader(std::string_view text, Header& header) {
  const std::string_view descr = ValueOf(text, "descr");
  if (descr.empty() || (descr.front() != '\'' && descr.front() != '"')) return false;
  const size_t end = descr.find(descr.front(), 1);
  if (end == std::string_view::npos) return false;
  header.descr = descr.substr(1, end - 1);
  const std::string_view order = ValueOf(text, "fortran_order");
  if (!order.starts_with("True") && !order.starts_with("False")) return false;
  header.is_fortran = order.starts_with("True");
  std::string_view shape = ValueOf(text, "shape");
  if (!shape.starts_with('(') || shape.find(')') == std::string_view::npos) return false;
  shape = shape.substr(1, shape.find(')') - 1);
  while (true) {
    const size_t begin = shape.find_first_not_of(", ");
    if (begin == std::string_view::npos) return true;
    shape.remove_prefix(begin);
    int64_t extent = 0;
    const auto [stop, error] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
    if (error != std::errc() || extent < 0 || header.dims.size() == kMaxRank) return false;
    shape.remove_prefix(static_cast<size_t>(stop - shape.data()));
    header.dims.push_back(extent);
  }
}

// Returns "<f4" and the like, or raw bytes, "|V2", for types that NumPy itself does not have.
std::string DescrOf(DType dtype) {
  const int bits = BitWidth(dtype);
  const std::string size = std::to_string(ElementSize(dtype));
  const std::string order = size == "1" ? "|" : "<";
  switch (bits < 8 ? DTypeKind::kUnknown : KindOf(dtype)) {
    case DTypeKind::kBool:
      return "|b1";
    case DTypeKind::kSigned:
      return order + "i" + size;
    case DTypeKind::kUnsigned:
      return order + "u" + size;
    case DTypeKind::kComplex:
      return order + "c" + size;
    case DTypeKind::kFloat:
      return NumpyName(dtype) == internal::Cat("float", bits) ? order + "f" + size : "|V" + size;
    case DTypeKind::kToken:
    case DTypeKind::kUnknown:
      break;
  }
  return "|V" + size;
}

// Returns kInvalid for types that XLA's arrays cannot have.
DType FromDescr(std::string_view descr, DType raw) {
  if (descr.size() < 3 || (descr[0] != '<' && descr[0] != '|' && descr[0] != '=')) return DType::kInvalid;
  const bool is_raw = descr[1] == 'V' || descr.substr(1) == "f1";
  if (is_raw) return std::to_string(ElementSize(raw)) == descr.substr(2) ? raw : DType::kInvalid;
  for (uint32_t number = 0; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (BitWidth(dtype) > 0 && DescrOf(dtype).substr(1) == descr.substr(1)) return dtype;
  }
  return DType::kInvalid;
}

// Converts from Fortran order, where the first dimension varies fastest.
std::vector<std::byte> ToRowMajor(const char* data, const std::vector<int64_t>& dims, size_t bytes, size_t size) {
  std::vector<std::byte> out(bytes);
  std::vector<int64_t> index(dims.size());
  for (size_t to = 0; to < bytes; to += size) {
    size_t from = 0;
    for (size_t d = dims.size(); d-- > 0;) from = from * static_cast<size_t>(dims[d]) + static_cast<size_t>(index[d]);
    std::memcpy(&out[to], data + from * size, size);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
  return out;
}

}  // namespace

Result<Array> ParseNpy(std::string_view bytes, const std::string& what, DType raw, size_t* used) {
  const auto bad = [&](const std::string& why) { return InvalidArgument("callout: " + what + " " + why); };
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) return bad("is no .npy file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const bool is_short = byte(6) == 1;
  const size_t begin = is_short ? 10 : 12;
  if (byte(6) < 1 || byte(6) > 3 || bytes.size() < begin) return bad("is of a version of .npy that is not known");
  const size_t length =
      is_short ? byte(8) | byte(9) << 8U : byte(8) | byte(9) << 8U | byte(10) << 16U | byte(11) << 24U;
  if (length > bytes.size() - begin) return bad("ends within its header");
  Header header;
  if (!ParseHeader(bytes.substr(begin, length), header)) return bad("has a header that is no .npy header");
  Array array{{FromDescr(header.descr, raw), header.dims}, {}};
  if (array.type.dtype == DType::kInvalid)
    return bad("has elements of type '" + header.descr + "', which no program takes");
  CALLOUT_ASSIGN_OR_RETURN(const int64_t elements, ElementCount(array.type));
  const size_t size = ElementSize(array.type.dtype), wanted = static_cast<size_t>(elements) * size;
  const std::string_view data = bytes.substr(begin + length);
  if (data.size() < wanted) {
    return bad(internal::Cat("should have ", wanted, " bytes of ", array.type.ToString(), ", and has ", data.size()));
  }
  if (header.is_fortran && elements > 0) {
    array.bytes = ToRowMajor(data.data(), header.dims, wanted, size);
  } else {
    const auto* first = reinterpret_cast<const std::byte*>(data.data());
    array.bytes.assign(first, first + wanted);
  }
  if (used != nullptr) *used = begin + length + wanted;
  return array;
}

std::string FormatNpy(const Array& array) {
  std::string header = "{'descr': '" + DescrOf(array.type.dtype) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : array.type.dims) header += internal::Cat(extent, ", ");
  if (array.type.dims.size() > 1) header.resize(header.size() - 2);
  if (array.type.dims.size() == 1) header.pop_back();
  header += "), }";
  const size_t used = kMagic.size() + 4 + header.size() + 1;
  header.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xFFU);
  bytes += static_cast<char>(header.size() >> 8U);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  return bytes;
}

}  // namespace callout::tools
