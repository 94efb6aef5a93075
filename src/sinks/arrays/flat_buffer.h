// SPDX-License-Identifier: Apache-2.0
//
// A minimal implementation of FlatBuffers (flatbuffers.dev/internals) for the few tables of Arrow's messages: tables,
// strings, and vectors of tables and of numbers. It spares the package the dependency on the schema compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace callout::internal {

/// A field of a table: absent, a number of `bytes` bytes, or a reference, which Point sets later.
struct FlatField {
  int bytes = 0;
  uint64_t value = 0;

  static FlatField Absent() { return {}; }
  static FlatField Number(int bytes, int64_t value) { return {bytes, static_cast<uint64_t>(value)}; }
  static FlatField Reference() { return {4, 0}; }
};

/// Writes objects so that each reference precedes its target.
class FlatWriter {
 public:
  /// Adds a table of at most kMaxFields fields, and returns the positions of the fields. The first table is the root.
  static constexpr size_t kMaxFields = 8;
  struct Table {
    size_t position = 0;
    size_t fields[kMaxFields] = {};
  };
  Table AddTable(std::initializer_list<FlatField> fields);
  size_t AddString(std::string_view text);
  /// Adds a vector of 8-byte numbers. Each `group` of them makes up one element (a struct).
  size_t AddNumbers(std::span<const int64_t> numbers, size_t group);
  /// Adds a vector of references. The i-th is at ReferenceAt(vector, i).
  size_t AddVector(size_t count);
  static size_t ReferenceAt(size_t vector, size_t i) { return vector + 4 + 4 * i; }
  /// Sets the reference at `from` to the object at `to`, which must be greater than `from`.
  void Point(size_t from, size_t to);

  const std::string& bytes() const { return bytes_; }

 private:
  void Align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }
  void Append(uint64_t value, int bytes);
  void Put(size_t at, uint64_t value, int bytes);

  std::string bytes_ = std::string(8, '\0');  // The root's reference, and padding.
};

/// A table in untrusted bytes. Never reads outside of `bytes`. Borrowed: valid as long as `bytes`.
class FlatTable {
 public:
  static std::optional<FlatTable> Root(std::string_view bytes);

  /// Returns the number in a field, or `otherwise` if the field is absent. Returns nothing if the field lies outside of
  /// the bytes.
  std::optional<int64_t> Number(int field, int bytes, int64_t otherwise) const;
  bool Has(int field) const { return At(field) != 0; }
  std::optional<FlatTable> Table(int field) const;
  std::optional<std::string_view> String(int field) const;
  /// Returns the number of elements of a vector whose elements have `element_bytes` bytes each; 0 if the field is
  /// absent.
  std::optional<size_t> Count(int field, size_t element_bytes) const;
  /// Returns an element of a vector of tables or numbers, or nothing if the vector has fewer elements.
  std::optional<FlatTable> TableAt(int field, size_t element) const;
  std::optional<int64_t> NumberAt(int field, size_t element_bytes, size_t element, size_t offset) const;

 private:
  FlatTable(std::string_view bytes, size_t position, size_t vtable, size_t vtable_bytes)
      : bytes_(bytes), position_(position), vtable_(vtable), vtable_bytes_(vtable_bytes) {}
  static std::optional<FlatTable> Of(std::string_view bytes, size_t position);
  static std::optional<int64_t> Load(std::string_view bytes, size_t at, int size);
  static std::optional<size_t> Follow(std::string_view bytes, size_t at);
  size_t At(int field) const;

  std::string_view bytes_;
  size_t position_;
  size_t vtable_;
  size_t vtable_bytes_;
};

}  // namespace callout::internal
