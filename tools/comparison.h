// SPDX-License-Identifier: Apache-2.0
//
// Results beside those that were expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "array.h"

namespace callout::tools {

/// An element may differ by absolute + relative * |expected|. What is not set: 1e-5 and 1e-8 for floats and complex
/// numbers, as numpy.allclose has it, 0 for everything else.
struct Tolerances {
  std::optional<double> relative = {};
  std::optional<double> absolute = {};
};

/// What one result is beside the expected one. NaN is as expected where NaN is expected, and an infinity where the same
/// one is; -0 is 0.
struct Comparison {
  bool equal = false;
  pjrt::ArrayType expected_type;
  pjrt::ArrayType got_type;
  std::string source;  ///< Where the expected array comes from.
  double relative = 0;
  double absolute = 0;
  // If both are of one type:
  int64_t elements = 0;
  int64_t differing = 0;
  std::vector<int64_t> index;  ///< Of the first element that differs.
  std::string expected;        ///< That element, as JSON.
  std::string got;
  double max_absolute_error = 0;  ///< Of all elements; infinite where a NaN or an infinity is not as expected.
  double max_relative_error = 0;  ///< Beside the expected element's magnitude, where that is not 0.

  bool same_type() const { return expected_type == got_type; }
};

/// `source`: of `expected`.
Comparison Compare(const Array& expected, const Array& got, const Tolerances& tolerances, std::string source);

/// What differs, in a line: "result 0, f32[2,3], differs from 'x.npy': ...".
std::string ToText(size_t number, const Comparison& comparison);

/// One object.
void AppendJson(const Comparison& comparison, std::string& text);

}  // namespace callout::tools
