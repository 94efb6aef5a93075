// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/ffi/handlers.h"

namespace callout::internal {
namespace {

TEST(TargetsTest, NamesAreFrozen) {
  std::vector<std::string> names;
  for (const Target& target : Targets()) names.push_back(std::string(target.name) + " " + target.platform);
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "callout.v1.buffer cpu", "callout.v1.buffer cuda", "callout.v1.buffer_capturable cuda",
                         "callout.v1.call cpu", "callout.v1.call cuda", "callout.v1.check cpu", "callout.v1.check cuda",
                         "callout.v1.gathered_call cpu", "callout.v1.gathered_tap cpu", "callout.v1.image cuda",
                         "callout.v1.image_sync cuda", "callout.v1.read cpu", "callout.v1.read cuda",
                         "callout.v1.tap cpu", "callout.v1.tap cuda"));
}

using Handler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*) noexcept;

void ExpectHandlers(const std::string& name, const std::string& platform, Handler instantiate, Handler initialize,
                    Handler execute) {
  for (const Target& target : Targets()) {
    if (target.name != name || target.platform != platform) continue;
    EXPECT_EQ(target.instantiate, reinterpret_cast<void*>(instantiate)) << name << " " << platform;
    EXPECT_EQ(target.initialize, reinterpret_cast<void*>(initialize)) << name << " " << platform;
    EXPECT_EQ(target.execute, reinterpret_cast<void*>(execute)) << name << " " << platform;
    return;
  }
  ADD_FAILURE() << "no " << name << " for " << platform;
}

TEST(TargetsTest, HandlersAreThoseOfTheName) {
  for (const char* name : {"callout.v1.buffer", "callout.v1.call"}) {
    ExpectHandlers(name, "cpu", &callout_v1_call_instantiate, nullptr, &callout_v1_call_execute);
  }
  ExpectHandlers("callout.v1.call", "cuda", &callout_v1_cuda_call_instantiate, &callout_v1_cuda_call_initialize,
                 &callout_v1_cuda_call_execute);
  ExpectHandlers("callout.v1.check", "cpu", nullptr, nullptr, &callout_v1_check_execute);
  ExpectHandlers("callout.v1.check", "cuda", &callout_v1_cuda_check_instantiate, &callout_v1_cuda_check_initialize,
                 &callout_v1_cuda_check_execute);
  ExpectHandlers("callout.v1.gathered_call", "cpu", &callout_v1_gathered_call_instantiate, nullptr,
                 &callout_v1_gathered_call_execute);
  ExpectHandlers("callout.v1.gathered_tap", "cpu", &callout_v1_gathered_tap_instantiate, nullptr,
                 &callout_v1_gathered_tap_execute);
  ExpectHandlers("callout.v1.image", "cuda", &callout_v1_image_instantiate, &callout_v1_image_initialize,
                 &callout_v1_image_execute);
  ExpectHandlers("callout.v1.image_sync", "cuda", &callout_v1_image_instantiate, &callout_v1_image_initialize,
                 &callout_v1_image_sync_execute);
  ExpectHandlers("callout.v1.read", "cpu", &callout_v1_read_instantiate, nullptr, &callout_v1_read_execute);
  ExpectHandlers("callout.v1.read", "cuda", &callout_v1_cuda_read_instantiate, &callout_v1_cuda_read_initialize,
                 &callout_v1_cuda_read_execute);
  ExpectHandlers("callout.v1.tap", "cpu", &callout_v1_tap_instantiate, nullptr, &callout_v1_tap_execute);
  ExpectHandlers("callout.v1.tap", "cuda", &callout_v1_tap_instantiate, &callout_v1_cuda_tap_initialize,
                 &callout_v1_cuda_tap_execute);
  ExpectHandlers("callout.v1.buffer", "cuda", &callout_v1_cuda_buffer_instantiate, &callout_v1_cuda_buffer_initialize,
                 &callout_v1_cuda_buffer_execute);
  ExpectHandlers("callout.v1.buffer_capturable", "cuda", &callout_v1_cuda_buffer_instantiate,
                 &callout_v1_cuda_buffer_initialize, &callout_v1_buffer_capturable_execute);
}

}  // namespace
}  // namespace callout::internal
