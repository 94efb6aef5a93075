// SPDX-License-Identifier: Apache-2.0
//
// The measured programs, in MLIR text. Each takes and returns one f32[elements].
#pragma once

#include <cstdint>
#include <string>

namespace callout::bench {

/// Returns a loop of `count` iterations whose body calls `target` with the result of the previous call. `config` holds
/// the entries of its backend_config.
std::string CallLoop(const std::string& target, const std::string& config, int64_t elements, int64_t count);

/// Returns a loop that taps its argument, with the name "t", in each of `count` iterations, and returns the argument.
std::string TapLoop(int64_t elements, int64_t count);

/// Returns a loop whose body only counts.
std::string EmptyLoop(int64_t count);

/// Returns `layers` layers, each the tanh of a product of f32[extent,extent]. With `calls`, the first layer's output
/// goes through the callback "hook", and the last one's to the tap "t".
std::string Network(int64_t extent, int layers, bool calls);

/// Returns a program that adds 1.
std::string AddOne(int64_t elements);

}  // namespace callout::bench
