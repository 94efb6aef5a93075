// SPDX-License-Identifier: Apache-2.0
//
// The protobuf wire format (protobuf.dev/programming-guides/encoding), for the few messages that cross PJRT as bytes or
// go to files. A second protobuf library in the process of a plugin that has its own is what this saves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace callout::internal {

class WireWriter {
 public:
  void AddNumber(int field, uint64_t value);
  void AddFloat(int field, float value);
  void AddDouble(int field, double value);
  /// A message, a string or bytes.
  void AddMessage(int field, std::string_view bytes);
  /// Fields that another writer wrote.
  void AddFields(std::string_view bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }
  /// Keeps the memory.
  void Clear() { bytes_.clear(); }

 private:
  void AppendVarint(uint64_t value);

  std::string bytes_;
};

struct WireField {
  int number = 0;
  bool is_bytes = false;  ///< A message, a string, or packed numbers.
  uint64_t value = 0;     ///< Of a number; the bits of one with 4 or 8 bytes.
  std::string_view bytes = {};
};

/// Reads bytes that may be anything. Borrowed: the fields point into them.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  /// The next field; nothing at the end, and where the bytes are no message. Groups are none.
  std::optional<WireField> Next();
  /// False if the bytes were no message.
  bool ok() const { return ok_; }

 private:
  std::optional<WireField> Bad();
  bool TakeFixed(size_t bytes, uint64_t& value);

  std::string_view rest_;
  bool ok_ = true;
};

/// Appends a repeated number, which writers pack or do not. False if it is neither.
bool AppendNumbers(const WireField& field, std::vector<int64_t>& numbers);

}  // namespace callout::internal
