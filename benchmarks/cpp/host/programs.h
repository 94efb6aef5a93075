// SPDX-License-Identifier: Apache-2.0
//
// The programs that are measured, in MLIR text. All take and return one f32[elements].
#pragma once

#include <cstdint>
#include <string>

namespace callout::bench {

/// A loop of `count` iterations whose body calls `target`: its operand is what the last call returned. `config`: the
/// entries of its backend_config.
std::string CallLoop(const std::string& target, const std::string& config, int64_t elements, int64_t count);

/// As CallLoop, with a tap of the argument that is named "t". The argument is returned.
std::string TapLoop(int64_t elements, int64_t count);

/// A loop whose body only counts.
std::string EmptyLoop(int64_t count);

/// So many layers, each the tanh of a product, of f32[extent,extent]. `calls`: the first layer's output goes through
/// the callback "hook", and the last one to the tap "t".
std::string Network(int64_t extent, int layers, bool calls);

/// Adds 1.
std::string AddOne(int64_t elements);

}  // namespace callout::bench
