// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes a plugin's description of a compiled program: an HloModuleProto, behind a byte for the number of devices.
#include "fuzz.h"
#include "host/programs/hlo_calls.h"
#include "mutation.h"

void callout::fuzz::Try(std::string_view bytes) {
  if (bytes.empty()) return;
  constexpr size_t kMostDevices = 8;
  const size_t num_devices = 1 + static_cast<unsigned char>(bytes[0]) % kMostDevices;
  bytes.remove_prefix(1);
  (void)internal::ParseHloCalls(bytes);
  const Result<pjrt::Signature> signature = internal::ParseHloSignature(bytes, num_devices);
  if (!signature.ok()) return;
  for (const auto* arrays : {&signature->inputs, &signature->outputs}) {
    for (const pjrt::ProgramArray& array : *arrays) {
      CALLOUT_CHECK(array.sharding.parts.size() == num_devices, "a device without a part");
      (void)array.WholeType().ToString();
    }
  }
}

namespace {

// Field numbers of modules, computations, instructions, shapes, layouts and shardings.
constexpr uint32_t kNumbers[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 18, 28, 35, 36, 38, 43};
constexpr const char* kTexts[] = {"parameter",
                                  "custom-call",
                                  "tuple",
                                  "main",
                                  "callout.v1.call",
                                  "callout.v1.tap",
                                  "xla_ffi_python_cpu_callback",
                                  "{callback = \"py:f\", label = \"x\"}",
                                  "\x10\x0b\x1a\x01\x04",  // f32[4]
                                  "\x08\x03\x1a\x01\x02",  // tiles
                                  "\x08\x01",
                                  ""};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  using callout::fuzz::Mutation;
  return callout::fuzz::MutateInput(data, size, max_size, seed, [](Mutation& mutation, const std::string& text) {
    if (text.empty() || mutation.OneIn(16)) return mutation.Bytes(text);
    return text.substr(0, 1) + mutation.Message(std::string_view(text).substr(1), kNumbers, kTexts);
  });
}
