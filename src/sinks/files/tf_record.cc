// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/tf_record.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstring>

#include "core/encoding/checksums.h"
#include "sinks/files/file_output.h"

namespace callout::internal {
namespace {

constexpr size_t kHeaderBytes = sizeof(uint64_t) + sizeof(uint32_t);

uint32_t Masked(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

template <typename T>
void AppendBytes(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <typename T>
T Load(const char* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

bool ReadAt(int fd, uint64_t offset, size_t size, std::string& bytes) {
  bytes.resize(size);
  return pread(fd, bytes.data(), size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

// Returns the size of the record at `offset`, or 0 if no whole record is there.
uint64_t RecordBytes(int fd, uint64_t offset, uint64_t size, std::string& bytes) {
  if (size - offset < kHeaderBytes || !ReadAt(fd, offset, kHeaderBytes, bytes)) return 0;
  const auto length = Load<uint64_t>(bytes.data());
  if (Load<uint32_t>(bytes.data() + sizeof(length)) != Masked({bytes.data(), sizeof(length)})) return 0;
  const uint64_t rest = size - offset - kHeaderBytes;
  if (rest < sizeof(uint32_t) || rest - sizeof(uint32_t) < length) return 0;
  if (!ReadAt(fd, offset + kHeaderBytes, length + sizeof(uint32_t), bytes)) return 0;
  if (Load<uint32_t>(bytes.data() + length) != Masked({bytes.data(), length})) return 0;
  return kHeaderBytes + length + sizeof(uint32_t);
}

}  // namespace

void AppendTfRecord(std::string_view record, std::string& out) {
  const uint64_t length = record.size();
  AppendBytes(length, out);
  AppendBytes(Masked({reinterpret_cast<const char*>(&length), sizeof(length)}), out);
  out += record;
  AppendBytes(Masked(record), out);
}

std::optional<std::string> ReadTfRecord(int fd, uint64_t& offset, uint64_t size) {
  std::string bytes;
  const uint64_t whole = offset < size ? RecordBytes(fd, offset, size, bytes) : 0;
  if (whole == 0) return std::nullopt;
  offset += whole;
  bytes.resize(bytes.size() - sizeof(uint32_t));
  return bytes;
}

Result<uint64_t> EndOfTfRecords(int fd, uint64_t size) {
  std::string bytes;
  uint64_t end = 0;
  while (end < size) {
    const uint64_t record = RecordBytes(fd, end, size, bytes);
    if (record == 0) break;
    end += record;
  }
  if (end == 0 && size > 0) return InvalidArgument("it has no records of TFRecord");
  return end;
}

}  // namespace callout::internal
