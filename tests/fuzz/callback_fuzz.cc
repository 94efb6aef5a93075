// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes serialized callbacks, which a host may get from anywhere, and the names of callbacks in programs.
#include <string>

#include "callout/pjrt/host_callback.h"
#include "core/callbacks/callback.h"
#include "fuzz.h"
#include "mutation.h"
#include "sinks/catalog/callback_kinds.h"

void callout::fuzz::Try(std::string_view bytes) {
  internal::RegisterKinds();
  (void)internal::Makers::Get().MakeForProgram(bytes);
  // These kinds open files of any name, so the fuzzer does not create them.
  std::string text(bytes);
  if (bytes.starts_with("library:")) text.insert(std::string_view("library:").size(), "/dev/null/");
  const internal::SinkKind* const sink = internal::SinkKindOf(bytes);
  if (sink != nullptr && !sink->options.empty() && sink->options[0].type == internal::OptionType::kPath) {
    const size_t colon = text.find(':');
    if (text.substr(0, colon).find(sink->options[0].name) != std::string::npos) return;
    if (colon != std::string::npos) text.insert(colon + 1, "/dev/null/");
  }
  const auto made = pjrt::OpaqueCallback("f", text).Make();
  if (!made.ok()) return;
  const auto serialized = made->Serialize();
  CALLOUT_CHECK(serialized.ok() && *serialized == text, "serialized as something else");
}

namespace {

// Pieces of prints, watches and their prefixes.
constexpr const char* kPieces[] = {"1",
                                   "1;",
                                   ";",
                                   ",",
                                   "(",
                                   ")",
                                   "t",
                                   "t%20",
                                   "tx",
                                   "t%F0%9F",
                                   "d",
                                   "l0",
                                   "l1",
                                   "l2",
                                   "b0",
                                   "b2",
                                   "b65536",
                                   "9223372036854775807",
                                   "-1",
                                   "1000",
                                   "1000000",
                                   "l18446744073709551615",
                                   "t%",
                                   "t%4",
                                   "1;1000;1000000;;l0",
                                   "id_print:",
                                   "check:1;raise;a%3B.py:3 in f;2;3,1e;{value:.2f} in lane {lane} at {index}",
                                   "check:1;warn;;0;0,0;{0} {step} {device} {time:%H}",
                                   "check:",
                                   "nans:",
                                   "1;warn;ni;forward;0;1;1,1,1,0;1;log;1;1;f.py:3 in f;y = log(x);net",
                                   "watch:",
                                   "watch:1;ni;stop",
                                   "n",
                                   "i",
                                   "report",
                                   "stop",
                                   "progress_bar:",
                                   "progress_clock:",
                                   "channels:1,2->3",
                                   "print:",
                                   "print,update,fd=",
                                   "jsonl,fields=false",
                                   "csv,append",
                                   ",columns=",
                                   ",fsync=batch",
                                   ",rotate_bytes=",
                                   ",keep=1",
                                   "kinds=*=image",
                                   "%2C",
                                   "print",
                                   "null",
                                   "jsonl:",
                                   "csv:",
                                   "tensorboard:",
                                   "library:",
                                   ":f",
                                   "{x:.3f}",
                                   "{name}",
                                   "{",
                                   "}",
                                   "py:",
                                   "native:"};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateTokens(data, size, max_size, seed, ";,:", kPieces);
}
