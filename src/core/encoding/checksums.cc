// SPDX-License-Identifier: Apache-2.0
//
// The checksums take eight bytes at a time by eight tables ("slicing by 8", Kounavis and Berry 2008), or by an
// instruction: of SSE 4.2, or of ARMv8's CRC extension.

#include "core/encoding/checksums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#endif

#include <cstring>

#include "core/base/platform.h"

namespace callout::internal {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Makes the tables of a checksum. `polynomial` has its bits reversed.
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

bool HasInstruction() { return ProcessorHasCrc32(); }

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

namespace {

constexpr size_t kBlock = 64;

// The constants of FIPS 180-4, 4.2.2: the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using State = std::array<uint32_t, 8>;

void Compress(State& state, const uint8_t* block) {
  std::array<uint32_t, 64> w;
  for (size_t i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  }
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  // The initial state of 5.3.3: the fractional parts of the square roots of the first eight primes.
  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t whole = bytes.size() / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock) Compress(state, data + i);
  // The padding of 5.1.1: a one, zeros, and the length in bits, to the end of a block.
  std::array<uint8_t, 2 * kBlock> tail = {};
  const size_t rest = bytes.size() - whole;
  std::copy_n(data + whole, rest, tail.begin());
  tail[rest] = 0x80;
  const size_t length = rest + 9 > kBlock ? 2 * kBlock : kBlock;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (size_t i = 0; i < 8; ++i) tail[length - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  for (size_t i = 0; i < length; i += kBlock) Compress(state, tail.data() + i);
  std::string hex;
  for (const uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

}  // namespace callout::internal
