// SPDX-License-Identifier: Apache-2.0
//
// Compares results with expected ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "array.h"

namespace callout::tools {

/// An element may differ by absolute + relative * |expected|. The defaults are 1e-5 and 1e-8 for floats and complex
/// numbers, as in numpy.allclose, and 0 for all other types.
struct Tolerances {
  std::optional<double> relative = {};
  std::optional<double> absolute = {};
};

/// The comparison of one result. NaN equals NaN, an infinity equals itself, and -0 equals 0.
struct Comparison {
  bool equal = false;
  pjrt::ArrayType expected_type;
  pjrt::ArrayType got_type;
  std::string source;  ///< Describes where the expected array comes from.
  double relative = 0;
  double absolute = 0;
  // The following members are set if both types are equal.
  int64_t elements = 0;
  int64_t differing = 0;
  std::vector<int64_t> index;  ///< The index of the first element that differs.
  std::string expected;        ///< The expected value of that element, as JSON.
  std::string got;
  double max_absolute_error = 0;  ///< The maximum over all elements; infinite if a NaN or an infinity differs.
  double max_relative_error = 0;  ///< Relative to the expected element's magnitude, if that is not 0.

  bool same_type() const { return expected_type == got_type; }
};

/// Compares two arrays. `source` describes where `expected` comes from.
Comparison Compare(const Array& expected, const Array& got, const Tolerances& tolerances, std::string source);

/// Returns a line about the difference: "result 0, f32[2,3], differs from 'x.npy': ...".
std::string ToText(size_t number, const Comparison& comparison);

/// Appends one JSON object.
void AppendJson(const Comparison& comparison, std::string& text);

}  // namespace callout::tools
