// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/npy_header.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "core/frame/dtype_row.h"
#include "sinks/arrays/stored_type.h"

namespace callout::internal {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kBegin = 10;  // the magic, the version and the length
constexpr size_t kRowDigits = 20;

constexpr DType kNpyTypes[] = {DType::kBool,    DType::kInt8,    DType::kInt16,     DType::kInt32,     DType::kInt64,
                               DType::kUint8,   DType::kUint16,  DType::kUint32,    DType::kUint64,    DType::kFloat16,
                               DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};

std::string Descr(DType dtype) {
  const DTypeRow& row = RowOf(dtype);
  const char kind = row.kind == DTypeKind::kBool       ? 'b'
                    : row.kind == DTypeKind::kSigned   ? 'i'
                    : row.kind == DTypeKind::kUnsigned ? 'u'
                    : row.kind == DTypeKind::kFloat    ? 'f'
                                                       : 'c';
  return std::string(row.bits == 8 ? "|" : "<") + kind + std::to_string(row.bits / 8);
}

std::string Dictionary(const NpyHead& head) {
  std::string text = "{'descr': '" + Descr(head.dtype) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : head.shape) text += std::to_string(extent) + ", ";
  if (head.shape.size() > 1) text.resize(text.size() - 2);
  if (head.shape.size() == 1) text.pop_back();
  return text + "), }";
}

// What stands between `name` and `end`.
std::optional<std::string_view> Between(std::string_view text, std::string_view name, std::string_view end) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + name.size());
  const size_t length = text.find(end);
  return length == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, length));
}

std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  std::vector<int64_t> shape;
  while (!text.empty()) {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.size() == kMaxStoredRank) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    shape.push_back(extent);
    if (!text.empty() && !text.starts_with(",")) return std::nullopt;
    text.remove_prefix(std::min<size_t>(text.size(), text.starts_with(", ") ? 2 : 1));
  }
  return shape;
}

}  // namespace

Result<std::string> NpyHeadText(const NpyHead& head) {
  constexpr size_t kAlignment = 64;
  const std::string dictionary = Dictionary(head);
  size_t bytes = head.bytes;
  if (bytes == 0) {
    const size_t most = kBegin + dictionary.size() - std::to_string(head.shape.at(0)).size() + kRowDigits + 1;
    bytes = (most + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (kBegin + dictionary.size() + 1 > bytes || bytes - kBegin > UINT16_MAX) {
    return InvalidArgument("its head of " + std::to_string(bytes) + " bytes has no room for " + dictionary);
  }
  const auto length = static_cast<uint16_t>(bytes - kBegin);
  std::string text(kMagic);
  text += '\1';
  text += '\0';
  text.append(reinterpret_cast<const char*>(&length), sizeof(length));
  text += dictionary;
  text.resize(bytes - 1, ' ');
  return text + '\n';
}

Result<NpyHead> ParseNpyHead(std::string_view bytes) {
  uint16_t length = 0;
  if (bytes.size() < kBegin || !bytes.starts_with(kMagic)) return InvalidArgument("it is no .npy file");
  if (bytes[kMagic.size()] != 1) return InvalidArgument("it is a .npy file of another version than 1");
  std::memcpy(&length, bytes.data() + kMagic.size() + 2, sizeof(length));
  if (bytes.size() < kBegin + length) return InvalidArgument("its head is not whole");
  const std::string_view text = bytes.substr(kBegin, length);
  const auto descr = Between(text, "'descr': '", "'");
  const auto order = Between(text, "'fortran_order': ", ",");
  const auto list = Between(text, "'shape': (", ")");
  const auto shape = list ? ParseShape(*list) : std::nullopt;
  if (!descr || !order || !shape) return InvalidArgument("its head is malformed");
  if (*order != "False") return InvalidArgument("its array is in Fortran's order");
  for (const DType dtype : kNpyTypes) {
    if (Descr(dtype) == *descr) return NpyHead{dtype, *shape, kBegin + length};
  }
  return InvalidArgument("its elements are of type '" + std::string(*descr) + "', which no sink writes");
}

}  // namespace callout::internal
