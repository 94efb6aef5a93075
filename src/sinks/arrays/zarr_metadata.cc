// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/zarr_metadata.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/encoding/json.h"
#include "core/frame/dtype_row.h"
#include "sinks/arrays/stored_type.h"

namespace callout::internal {
namespace {

std::string Numbers(int64_t first, std::span<const int64_t> rest) {
  std::string text = "[" + std::to_string(first);
  for (const int64_t number : rest) text += ", " + std::to_string(number);
  return text + "]";
}

// What elements are that no writer has written, which is what the system makes of a file's parts that are not either.
const char* FillOf(DType dtype) {
  const DTypeKind kind = RowOf(dtype).kind;
  return kind == DTypeKind::kBool      ? "false"
         : kind == DTypeKind::kComplex ? "[0.0, 0.0]"
         : kind == DTypeKind::kFloat   ? "0.0"
                                       : "0";
}

Status Malformed(const std::string& what) {
  return InvalidArgument("its zarr.json has no " + what + " that a sink writes");
}

const Json* FindPath(const Json& json, std::initializer_list<const char*> names) {
  const Json* at = &json;
  for (const char* name : names) {
    at = at->Find(name);
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool HasText(const Json& json, std::initializer_list<const char*> names, std::string_view text) {
  const Json* const at = FindPath(json, names);
  return at != nullptr && at->kind == Json::Kind::kString && at->text == text;
}

// The first number and those behind it.
std::optional<std::pair<int64_t, std::vector<int64_t>>> Axes(const Json* list, int64_t least) {
  if (list == nullptr || list->kind != Json::Kind::kArray) return std::nullopt;
  if (list->items.empty() || list->items.size() > kMaxStoredRank) return std::nullopt;
  std::pair<int64_t, std::vector<int64_t>> axes;
  for (const Json& item : list->items) {
    const auto number = item.Integer();
    if (!number || *number < least) return std::nullopt;
    axes.second.push_back(*number);
  }
  axes.first = axes.second.front();
  axes.second.erase(axes.second.begin());
  return axes;
}

std::optional<DType> TypeNamed(const Json* name) {
  if (name == nullptr || name->kind != Json::Kind::kString) return std::nullopt;
  for (const DTypeRow& row : kDTypeRows) {
    const bool is_stored = row.bits >= 8 && row.kind != DTypeKind::kToken && row.kind != DTypeKind::kUnknown &&
                           (row.kind != DTypeKind::kFloat || row.bits >= 32 || row.dtype == DType::kFloat16);
    if (is_stored && row.numpy_name == name->text) return row.dtype;
  }
  return std::nullopt;
}

// Whether elements that no writer has written are zero: see FillOf.
bool HasZeroFill(const Json& json, DType dtype) {
  const Json* const fill = json.Find("fill_value");
  if (fill == nullptr) return false;
  const DTypeKind kind = RowOf(dtype).kind;
  const auto is_zero = [](const Json& one) {
    return one.kind == Json::Kind::kNumber && one.number == 0 && !one.text.starts_with('-');
  };
  if (kind == DTypeKind::kBool) return fill->kind == Json::Kind::kBool && !fill->boolean;
  if (kind != DTypeKind::kComplex) return is_zero(*fill);
  return fill->kind == Json::Kind::kArray && fill->items.size() == 2 && std::ranges::all_of(fill->items, is_zero);
}

bool HasPlainCodecs(const Json& json) {
  const Json* const codecs = json.Find("codecs");
  if (codecs == nullptr || codecs->items.size() != 1 || !HasText(codecs->items[0], {"name"}, "bytes")) return false;
  const Json* const endian = FindPath(codecs->items[0], {"configuration", "endian"});
  return endian == nullptr || endian->text == "little";
}

// A chunk's indices behind the first, "0/1".
bool IsWriter(std::string_view key, size_t axes) {
  size_t count = 0;
  while (!key.empty()) {
    const std::string_view index = key.substr(0, key.find('/'));
    const bool is_number = !index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number || (index.size() > 1 && index.front() == '0')) return false;
    ++count;
    key.remove_prefix(index.size());
    if (key == "/") return false;
    key.remove_prefix(key.empty() ? 0 : 1);
  }
  return count == axes;
}

}  // namespace

bool HasChunkBytes(const ZarrArray& array) {
  int64_t bytes = BitWidth(array.dtype) / 8;
  if (__builtin_mul_overflow(bytes, array.chunk_rows, &bytes)) return false;
  return std::none_of(array.chunk.begin(), array.chunk.end(),
                      [&](int64_t extent) { return __builtin_mul_overflow(bytes, extent, &bytes); });
}

std::string ZarrGroupText() { return "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {}}\n"; }

std::string ZarrArrayText(const ZarrArray& array) {
  std::string text = "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": " + Numbers(array.rows, array.shape) +
                     ", \"data_type\": \"" + std::string(RowOf(array.dtype).numpy_name) +
                     "\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": " +
                     Numbers(array.chunk_rows, array.chunk) +
                     "}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": \"/\"}}, "
                     "\"fill_value\": " +
                     FillOf(array.dtype) +
                     ", \"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}], "
                     "\"attributes\": {\"rows\": {";
  bool is_first = true;
  for (const auto& [writer, rows] : array.written) {
    if (!std::exchange(is_first, false)) text += ", ";
    AppendJsonString(writer, text);
    text += ": " + std::to_string(rows);
  }
  return text + "}}}\n";
}

Result<ZarrArray> ParseZarrArray(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json || !HasText(*json, {"node_type"}, "array")) return InvalidArgument("its zarr.json is none of an array");
  const Json* const format = json->Find("zarr_format");
  if (format == nullptr || format->Integer() != 3) return Malformed("zarr_format");
  const auto dtype = TypeNamed(json->Find("data_type"));
  if (!dtype) return Malformed("data_type");
  const auto shape = Axes(json->Find("shape"), 0);
  const auto chunk = Axes(FindPath(*json, {"chunk_grid", "configuration", "chunk_shape"}), 1);
  if (!shape) return Malformed("shape");
  if (!chunk || chunk->second.size() != shape->second.size() || !HasText(*json, {"chunk_grid", "name"}, "regular")) {
    return Malformed("chunk_grid");
  }
  if (!HasText(*json, {"chunk_key_encoding", "name"}, "default")) return Malformed("chunk_key_encoding");
  if (!HasPlainCodecs(*json)) return Malformed("codecs");
  if (!HasZeroFill(*json, *dtype)) return Malformed("fill_value");
  ZarrArray array{*dtype, shape->second, chunk->second, shape->first, chunk->first, {}};
  if (!HasChunkBytes(array)) return Malformed("chunk_grid");
  const Json* const written = FindPath(*json, {"attributes", "rows"});
  if (written == nullptr || written->kind != Json::Kind::kObject) return Malformed("rows");
  for (const auto& [writer, rows] : written->members) {
    const auto number = rows.Integer();
    if (!IsWriter(writer, array.chunk.size()) || !number || *number < 0 || *number > array.rows) {
      return Malformed("rows");
    }
    array.written[writer] = *number;
  }
  return array;
}

bool IsZarrGroup(std::string_view text) {
  const auto json = ParseJson(text);
  return json && HasText(*json, {"node_type"}, "group");
}

}  // namespace callout::internal
