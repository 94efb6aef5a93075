// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes files of compiled programs, without the plugin's own bytes. These are code, which a plugin trusts: random ones
// would only show that the plugin crashes. Each input is tried as it is, and as the fields behind a valid digest.
#include "host/executables/executable_file.h"

#include <string>

#include "core/encoding/checksums.h"
#include "fuzz.h"
#include "mutation.h"

namespace {

void Read(std::string_view text) {
  using callout::internal::ExecutableFile;
  const auto file = ExecutableFile::Read(text);
  if (!file.ok()) return;
  const auto again = ExecutableFile::Read(file->Write());
  CALLOUT_CHECK(again.ok(), "a file that was written is not read");
  CALLOUT_CHECK(again->bytes == file->bytes && again->made_by == file->made_by && again->device == file->device &&
                    again->wants_runners == file->wants_runners,
                "a file is not read as it was written");
}

}  // namespace

void callout::fuzz::Try(std::string_view bytes) {
  Read(bytes);
  Read("callout executable 2\n" + callout::internal::Sha256Hex(bytes) + std::string(bytes));
}

namespace {

constexpr uint32_t kNumbers[] = {1, 2, 3, 4, 5};
constexpr const char* kTexts[] = {"cpu; PJRT 0.81", "", "\x01"};

}  // namespace

// Mutates the fields behind the digest, which `Try` makes valid.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using callout::fuzz::Mutation;
  return callout::fuzz::MutateInput(data, size, max_size, seed, [](Mutation& mutation, const std::string& text) {
    constexpr size_t kHead = 21 + 64;
    const bool is_whole = text.starts_with("callout executable 2\n") && text.size() > kHead;
    if (!is_whole) return mutation.Message(text, kNumbers, kTexts);
    const std::string fields = mutation.Message(std::string_view(text).substr(kHead), kNumbers, kTexts);
    return text.substr(0, 21) + callout::internal::Sha256Hex(fields) + fields;
  });
}
