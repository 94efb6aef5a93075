// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the zarr.json of arrays that a sink appends to.
#include "fuzz.h"
#include "mutation.h"
#include "sinks/arrays/zarr_array.h"

namespace {

using callout::internal::ZarrArray;

bool AreEqual(const ZarrArray& a, const ZarrArray& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.chunk == b.chunk && a.rows == b.rows &&
         a.chunk_rows == b.chunk_rows && a.written == b.written;
}

constexpr const char* kPieces[] = {"\"zarr_format\"",
                                   "\"node_type\"",
                                   "\"array\"",
                                   "\"group\"",
                                   "\"shape\"",
                                   "\"data_type\"",
                                   "\"float32\"",
                                   "\"complex64\"",
                                   "\"bool\"",
                                   "\"int8\"",
                                   "\"uint64\"",
                                   "\"float16\"",
                                   "\"chunk_grid\"",
                                   "\"configuration\"",
                                   "\"chunk_shape\"",
                                   "\"fill_value\"",
                                   "\"codecs\"",
                                   "\"bytes\"",
                                   "\"endian\"",
                                   "\"big\"",
                                   "\"little\"",
                                   "\"attributes\"",
                                   "\"rows\"",
                                   "\"0/0\"",
                                   "\"0\"",
                                   "\"\\\"\"",
                                   "\"\\u0001\"",
                                   "false",
                                   "null",
                                   "0.0",
                                   "-0.0",
                                   "[0.0, 0.0]",
                                   "0",
                                   "1",
                                   "3",
                                   "-1",
                                   "1e30",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "4294967296",
                                   "{}",
                                   "[]",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ":",
                                   " "};

}  // namespace

void callout::fuzz::Try(std::string_view bytes) {
  using namespace callout::internal;
  const Result<ZarrArray> array = ParseZarrArray(bytes);
  CALLOUT_CHECK(!array.ok() || !IsZarrGroup(bytes), "an array and a group");
  if (!array.ok()) return;
  const Result<ZarrArray> again = ParseZarrArray(ZarrArrayText(*array));
  CALLOUT_CHECK(again.ok() && AreEqual(*again, *array), "written as something else");
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateTokens(data, size, max_size, seed, " ,:{}[]", kPieces);
}
