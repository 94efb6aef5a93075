// SPDX-License-Identifier: Apache-2.0
//
// The protobuf wire format (protobuf.dev/programming-guides/encoding), for the few messages that cross PJRT as bytes or
// go to files. This file avoids a second protobuf library in a process whose plugin has its own.
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
  /// Adds a message, a string or bytes.
  void AddMessage(int field, std::string_view bytes);
  /// Adds fields that another writer wrote.
  void AddFields(std::string_view bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }
  /// Clears the bytes, and keeps the memory.
  void Clear() { bytes_.clear(); }

 private:
  void AppendVarint(uint64_t value);

  std::string bytes_;
};

struct WireField {
  int number = 0;
  bool is_bytes = false;  ///< A message, a string, or packed numbers.
  uint64_t value = 0;     ///< Value of a number; the bits of one with 4 or 8 bytes.
  std::string_view bytes = {};
};

/// Reads a message, and is safe for any bytes. Borrowed: the fields point into the bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  /// Returns the next field; nullopt at the end, and if the bytes are no message. Groups are not supported.
  std::optional<WireField> Next();
  /// Returns false if the bytes were no message.
  bool ok() const { return ok_; }

 private:
  std::optional<WireField> Bad();
  bool TakeFixed(size_t bytes, uint64_t& value);

  std::string_view rest_;
  bool ok_ = true;
};

/// Appends a repeated number, packed or not. Returns false if the field is neither.
bool AppendNumbers(const WireField& field, std::vector<int64_t>& numbers);

}  // namespace callout::internal
