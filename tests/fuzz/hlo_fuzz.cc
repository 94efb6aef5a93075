// SPDX-License-Identifier: Apache-2.0
//
// What a plugin tells of a compiled program: an HloModuleProto, behind a byte for the number of devices.
#include "fuzz.h"
#include "programs/hlo_calls.h"
#include "programs/hlo_signature.h"

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
