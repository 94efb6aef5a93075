// SPDX-License-Identifier: Apache-2.0
// Evaluates instructions in tests, by their spelling.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/operation.h"

namespace callout::software_gpu::ptx {

inline constexpr uint64_t kOnes = ~uint64_t{0};

inline uint64_t F(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t D(double value) { return std::bit_cast<uint64_t>(value); }

/// Returns the instruction's result for `inputs`, and checks that single lanes and a whole warp agree.
inline uint64_t Evaluate(const std::string& spelling, std::vector<uint64_t> inputs, bool second = false) {
  std::string why;
  const Operation operation = FindOperation(spelling, &why, static_cast<int>(inputs.size()));
  EXPECT_TRUE(operation.value) << spelling << ": " << why;
  if (!operation.value) return 0;
  EXPECT_EQ(operation.inputs + (operation.carry_in ? 1 : 0), static_cast<int>(inputs.size())) << spelling;
  const Function& function = second ? operation.second : operation.value;
  EXPECT_TRUE(function) << spelling;
  if (!function) return 0;
  inputs.resize(4);
  const uint64_t result = function.lane(operation.how, inputs[0], inputs[1], inputs[2], inputs[3]);
  std::array<std::array<uint64_t, kWarpLanes>, 5> lanes = {};
  for (size_t i = 0; i < 4; ++i) lanes[i].fill(inputs[i]);
  for (const uint32_t active : {~uint32_t{0}, uint32_t{0x80000005}}) {
    lanes[4].fill(0x5555);
    function.warp(operation.how, lanes[4].data(), lanes[0].data(), lanes[1].data(), lanes[2].data(), lanes[3].data(),
                  active);
    for (size_t lane = 0; lane < kWarpLanes; ++lane) {
      EXPECT_EQ(lanes[4][lane], (active >> lane & 1) != 0 ? result : 0x5555) << spelling << " in lane " << lane;
    }
  }
  return result;
}

inline uint64_t EvaluateSecond(const std::string& spelling, const std::vector<uint64_t>& inputs) {
  return Evaluate(spelling, inputs, true);
}

/// An instruction with its inputs and its result.
struct Case {
  std::string spelling;
  std::vector<uint64_t> inputs;
  uint64_t result;
};

inline void PrintTo(const Case& tested, std::ostream* out) {
  *out << tested.spelling << std::hex;
  for (const uint64_t input : tested.inputs) *out << " 0x" << input;
}

inline void ExpectAll(const std::vector<Case>& cases) {
  for (const Case& tested : cases) {
    const uint64_t result = Evaluate(tested.spelling, tested.inputs);
    EXPECT_EQ(result, tested.result) << testing::PrintToString(tested) << " is 0x" << std::hex << result
                                     << ", expected 0x" << tested.result;
  }
}

}  // namespace callout::software_gpu::ptx
