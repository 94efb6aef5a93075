// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the command's SPECs of arrays.
#include "array_spec.h"
#include "fuzz.h"
#include "mutation.h"

void callout::fuzz::Try(std::string_view bytes) {
  constexpr int64_t kMostElements = 1 << 12;  // larger arrays are valid, but slow the fuzzer down
  const Result<pjrt::ArrayType> type = tools::ParseArrayType(bytes.substr(0, bytes.find('=')));
  if (type.ok()) {
    const Result<int64_t> elements = tools::ElementCount(*type);
    if (elements.ok() && *elements > kMostElements) return;
  }
  const Result<tools::Array> array = tools::ParseSpec(bytes);
  if (!array.ok()) return;
  CALLOUT_CHECK(type.ok() && array->type == *type, "an array of another type");
  (void)tools::ToText(*array);
}

namespace {

constexpr const char* kPieces[] = {"f32",
                                   "bf16",
                                   "f16",
                                   "f64",
                                   "bool",
                                   "pred",
                                   "s4",
                                   "u4",
                                   "s8",
                                   "u8",
                                   "s16",
                                   "s32",
                                   "s64",
                                   "u64",
                                   "u2",
                                   "s2",
                                   "c64",
                                   "c128",
                                   "f8e4m3fn",
                                   "f8e5m2",
                                   "f8e3m4",
                                   "f8e4m3",
                                   "f8e4m3b11fnuz",
                                   "f8e4m3fnuz",
                                   "f8e5m2fnuz",
                                   "f8e8m0fnu",
                                   "f4e2m1fn",
                                   "token",
                                   "[",
                                   "]",
                                   "[]",
                                   "[2]",
                                   "[2,3]",
                                   "[0]",
                                   "=",
                                   "=0",
                                   ",",
                                   "true",
                                   "false",
                                   "1e30",
                                   "-1",
                                   "0x1p-3",
                                   "nan",
                                   "-inf",
                                   "1+2j",
                                   "-2.5e-3j",
                                   "random:7",
                                   "iota",
                                   "255",
                                   "256",
                                   "9223372036854775807",
                                   "18446744073709551615",
                                   "4294967296",
                                   "1e400"};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateTokens(data, size, max_size, seed, "[],=:+", kPieces);
}
