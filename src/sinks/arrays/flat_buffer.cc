// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/flat_buffer.h"

#include <bit>
#include <cstring>

#include "core/base/invariant.h"

namespace callout::internal {

static_assert(std::endian::native == std::endian::little, "numbers lie in files as in memory");

void FlatWriter::Append(uint64_t value, int bytes) {
  bytes_.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
}

void FlatWriter::Put(size_t at, uint64_t value, int bytes) {
  std::memcpy(bytes_.data() + at, &value, static_cast<size_t>(bytes));
}

FlatWriter::Table FlatWriter::AddTable(std::initializer_list<FlatField> fields) {
  CALLOUT_CHECK(fields.size() <= kMaxFields, "a table has few fields");
  const bool is_root = bytes_.size() == 8;
  Align(8);
  const size_t vtable = bytes_.size();
  const size_t vtable_bytes = 4 + 2 * fields.size();
  bytes_.resize(vtable + vtable_bytes);
  Align(8);
  Table table;
  table.position = bytes_.size();
  Append(table.position - vtable, 4);
  size_t i = 0;
  for (const FlatField& field : fields) {
    if (field.bytes > 0) {
      Align(static_cast<size_t>(field.bytes));
      table.fields[i] = bytes_.size();
      Put(vtable + 4 + 2 * i, bytes_.size() - table.position, 2);
      Append(field.value, field.bytes);
    }
    ++i;
  }
  Put(vtable, vtable_bytes, 2);
  Put(vtable + 2, bytes_.size() - table.position, 2);
  if (is_root) Put(0, table.position, 4);
  return table;
}

size_t FlatWriter::AddString(std::string_view text) {
  Align(4);
  const size_t position = bytes_.size();
  Append(text.size(), 4);
  bytes_.append(text);
  bytes_ += '\0';
  return position;
}

size_t FlatWriter::AddNumbers(std::span<const int64_t> numbers, size_t group) {
  Align(8);
  bytes_.resize(bytes_.size() + 4);  // Aligns the numbers that follow the count.
  const size_t position = bytes_.size();
  Append(numbers.size() / group, 4);
  bytes_.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  return position;
}

size_t FlatWriter::AddVector(size_t count) {
  Align(4);
  const size_t position = bytes_.size();
  Append(count, 4);
  bytes_.resize(bytes_.size() + 4 * count);
  return position;
}

void FlatWriter::Point(size_t from, size_t to) {
  CALLOUT_CHECK(from >= 4 && to > from, "references point to what follows");
  Put(from, to - from, 4);
}

std::optional<int64_t> FlatTable::Load(std::string_view bytes, size_t at, int size) {
  if (at > bytes.size() || bytes.size() - at < static_cast<size_t>(size)) return std::nullopt;
  switch (size) {
    case 1:
      return static_cast<unsigned char>(bytes[at]);
    case 2: {
      int16_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      return value;
    }
    case 4: {
      int32_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      return value;
    }
    default: {
      int64_t value = 0;
      std::memcpy(&value, bytes.data() + at, sizeof(value));
      return value;
    }
  }
}

std::optional<size_t> FlatTable::Follow(std::string_view bytes, size_t at) {
  const auto offset = Load(bytes, at, 4);
  if (!offset) return std::nullopt;
  const size_t to = at + static_cast<uint32_t>(*offset);
  return to < bytes.size() ? std::optional(to) : std::nullopt;
}

std::optional<FlatTable> FlatTable::Of(std::string_view bytes, size_t position) {
  const auto back = Load(bytes, position, 4);
  if (!back) return std::nullopt;
  const int64_t vtable = static_cast<int64_t>(position) - *back;
  if (vtable < 0) return std::nullopt;
  const auto size = Load(bytes, static_cast<size_t>(vtable), 2);
  if (!size || *size < 4 || static_cast<size_t>(vtable) + static_cast<size_t>(*size) > bytes.size())
    return std::nullopt;
  return FlatTable(bytes, position, static_cast<size_t>(vtable), static_cast<size_t>(*size));
}

std::optional<FlatTable> FlatTable::Root(std::string_view bytes) {
  const auto position = Follow(bytes, 0);
  return position ? Of(bytes, *position) : std::nullopt;
}

// Returns 0 if the field is absent: position 0 never holds a field.
size_t FlatTable::At(int field) const {
  const size_t slot = 4 + 2 * static_cast<size_t>(field);
  if (slot + 2 > vtable_bytes_) return 0;
  const auto offset = static_cast<uint16_t>(Load(bytes_, vtable_ + slot, 2).value_or(0));
  return offset == 0 ? 0 : position_ + offset;
}

std::optional<int64_t> FlatTable::Number(int field, int bytes, int64_t otherwise) const {
  const size_t at = At(field);
  return at == 0 ? otherwise : Load(bytes_, at, bytes);
}

std::optional<FlatTable> FlatTable::Table(int field) const {
  const size_t at = At(field);
  const auto position = at == 0 ? std::nullopt : Follow(bytes_, at);
  return position ? Of(bytes_, *position) : std::nullopt;
}

std::optional<std::string_view> FlatTable::String(int field) const {
  const auto count = Count(field, 1);
  if (!count || !Has(field)) return std::nullopt;
  return bytes_.substr(*Follow(bytes_, At(field)) + 4, *count);
}

std::optional<size_t> FlatTable::Count(int field, size_t element_bytes) const {
  const size_t at = At(field);
  if (at == 0) return size_t{0};
  const auto position = Follow(bytes_, at);
  const auto loaded = position ? Load(bytes_, *position, 4) : std::nullopt;
  if (!loaded) return std::nullopt;
  const auto count = static_cast<uint32_t>(*loaded);
  const size_t rest = bytes_.size() - *position - 4;
  return count <= rest / element_bytes ? std::optional<size_t>(count) : std::nullopt;
}

std::optional<FlatTable> FlatTable::TableAt(int field, size_t element) const {
  const auto count = Count(field, 4);
  if (!count || element >= *count) return std::nullopt;
  const auto position = Follow(bytes_, *Follow(bytes_, At(field)) + 4 + 4 * element);
  return position ? Of(bytes_, *position) : std::nullopt;
}

std::optional<int64_t> FlatTable::NumberAt(int field, size_t element_bytes, size_t element, size_t offset) const {
  const auto count = Count(field, element_bytes);
  if (!count || element >= *count) return std::nullopt;
  return Load(bytes_, *Follow(bytes_, At(field)) + 4 + element * element_bytes + offset, 8);
}

}  // namespace callout::internal
