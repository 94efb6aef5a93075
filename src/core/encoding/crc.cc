// SPDX-License-Identifier: Apache-2.0
//
// Eight bytes at a time by eight tables ("slicing by 8", Kounavis and Berry 2008), or by an instruction: SSE 4.2's, or
// that of ARMv8's CRC extension.
#include "core/encoding/crc.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

#include <array>
#include <cstring>

namespace callout::internal {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Of a polynomial whose bits are reversed.
consteval Tables MakeTables(uint32_t polynomial) {
  Tables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t slice = 1; slice < tables.size(); ++slice) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8U) ^ tables[0][crc & 0xFFU];
    }
  }
  return tables;
}

constexpr Tables kCrc32 = MakeTables(0xEDB88320U);
constexpr Tables kCrc32c = MakeTables(0x82F63B78U);

uint64_t TakeWord(std::string_view& bytes) {
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof(word));
  bytes.remove_prefix(sizeof(word));
  return word;
}

uint32_t ByTables(const Tables& tables, std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (bytes.size() >= sizeof(uint64_t)) {
    const uint64_t word = TakeWord(bytes) ^ crc;
    crc = 0;
    for (size_t i = 0; i < tables.size(); ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xFFU];
  }
  for (const char byte : bytes) crc = (crc >> 8U) ^ tables[0][(crc ^ static_cast<uint8_t>(byte)) & 0xFFU];
  return ~crc;
}

#if defined(__x86_64__)

bool HasInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }

__attribute__((target("sse4.2"))) uint32_t ByInstruction(std::string_view bytes, uint32_t before) {
  uint64_t crc = ~before;
  while (bytes.size() >= sizeof(uint64_t)) crc = _mm_crc32_u64(crc, TakeWord(bytes));
  auto narrow = static_cast<uint32_t>(crc);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}

#elif defined(__aarch64__)

bool HasInstruction() {
  constexpr unsigned long kHasCrc32 = 1UL << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & kHasCrc32) != 0;
}

__attribute__((target("+crc"))) uint32_t ByInstruction(std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (bytes.size() >= sizeof(uint64_t)) crc = __crc32cd(crc, TakeWord(bytes));
  for (const char byte : bytes) crc = __crc32cb(crc, static_cast<uint8_t>(byte));
  return ~crc;
}

#else

bool HasInstruction() { return false; }
uint32_t ByInstruction(std::string_view bytes, uint32_t before) { return ByTables(kCrc32c, bytes, before); }

#endif

}  // namespace

uint32_t Crc32(std::string_view bytes, uint32_t before) { return ByTables(kCrc32, bytes, before); }

uint32_t Crc32cByTable(std::string_view bytes, uint32_t before) { return ByTables(kCrc32c, bytes, before); }

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  static const bool has_instruction = HasInstruction();
  return has_instruction ? ByInstruction(bytes, before) : Crc32cByTable(bytes, before);
}

}  // namespace callout::internal
