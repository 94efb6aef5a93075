// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the files that `callout cat` reads.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "callout/pjrt/written_rows.h"
#include "core/encoding/checksums.h"
#include "fuzz.h"
#include "npy_mutation.h"

void callout::fuzz::Try(std::string_view bytes) {
  static const int fd = memfd_create("written", MFD_CLOEXEC);
  CALLOUT_CHECK(
      ftruncate(fd, 0) == 0 && pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
      "memory holds a file");
  int rows = 0;
  (void)pjrt::ForEachWrittenRow("/proc/self/fd/" + std::to_string(fd), [&](const pjrt::WrittenRow& row) {
    std::string text;
    for (const pjrt::WrittenCell& cell : row) AppendCellJson(cell, text);
    return ++rows < 100;
  });
}

namespace {

using callout::fuzz::Mutation;

// Pieces of lines in JSON and CSV.
constexpr const char* kPieces[] = {"name",      "step",
                                   "device",    "run",
                                   "seq",       "time",
                                   "loss",      "unsent",
                                   "lanes",     "index",
                                   "0",         "-1",
                                   "1.5",       "1e400",
                                   "NaN",       "Infinity",
                                   "-Infinity", "null",
                                   "true",      "[",
                                   "]",         "[]",
                                   "[0,0]",     "{",
                                   "}",         "\"",
                                   "\"\"",      "\\u0000",
                                   "\\ud800",   "\\n",
                                   ",",         ": ",
                                   "\n",        "\r\n",
                                   "w.0.0",     "w.0",
                                   "w",         "9223372036854775808"};
// Field numbers of TensorBoard's events, summaries and tensors.
constexpr uint32_t kNumbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
constexpr const char* kTexts[] = {"scalars", "histograms", "images", "text", "callout", "brain.Event:2", "", "\x01"};

uint64_t WordAt(std::string_view text, size_t at, size_t width) {
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, width);
  return word;
}

void AppendChecked(std::string_view bytes, std::string& to) {
  constexpr uint32_t kMask = 0xa282ead8;
  const uint32_t crc = callout::internal::Crc32c(bytes);
  const uint32_t masked = (crc >> 15 | crc << 17) + kMask;
  to.append(bytes).append(reinterpret_cast<const char*>(&masked), sizeof(masked));
}

// Replaces the message of one record in a file, with its length and checksums. Empty if the text has no records.
std::string MutateEvents(Mutation& mutation, std::string_view text) {
  constexpr size_t kAround = 16;  // bytes of the length and the two checksums
  std::vector<std::string> messages;
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at < kAround) return {};
    const uint64_t size = WordAt(text, at, 8);
    if (size > text.size() - at - kAround) return {};
    messages.emplace_back(text.substr(at + 12, size));
    at += kAround + size;
  }
  if (messages.empty()) return {};
  std::string& one = messages[mutation.Below(messages.size())];
  one = mutation.Message(one, kNumbers, kTexts);
  std::string changed;
  for (const std::string& message : messages) {
    const uint64_t size = message.size();
    AppendChecked({reinterpret_cast<const char*>(&size), sizeof(size)}, changed);
    AppendChecked(message, changed);
  }
  return changed;
}

std::string MutateWritten(Mutation& mutation, const std::string& text) {
  if (text.starts_with(callout::fuzz::kNpyMagic)) return callout::fuzz::MutateNpy(mutation, text);
  if (text.starts_with("\xff\xff\xff\xff") || text.starts_with("ARROW1")) return mutation.Words(text);
  std::string events = MutateEvents(mutation, text);
  return events.empty() ? mutation.Tokens(text, ",:[]{}\"\n", kPieces) : events;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateInput(data, size, max_size, seed, MutateWritten);
}
