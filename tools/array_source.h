// SPDX-License-Identifier: Apache-2.0
//
// Reads arrays that a command line describes:
//   f32[2,3]=0.5       a SPEC, see array_spec.h
//   FILE.npy           an array
//   FILE.npz           its arrays, in the file's order
//   FILE.npz:NAME      one of them
//   -                  standard input: the next of its .npy files, or all arrays of its .npz file
//   -:NAME             an array of that .npz file
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array.h"
#include "callout/status.h"
#include "npz.h"

namespace callout::tools {

/// Not thread-safe. Standard input is read once, when a text first asks for it.
class ArraySource {
 public:
  /// Appends one or more arrays. `wanted` has the types of the arrays that are still needed: they give the types of raw
  /// elements, for types that NumPy does not have, and a SPEC of another type gets no elements. Errors: InvalidArgument
  /// and NotFound, with the text; those of reading.
  Status Append(const std::string& text, std::span<const pjrt::ArrayType> wanted, std::vector<Array>& arrays);

 private:
  struct Reference;
  Status AppendNext(const std::vector<DType>& raw, std::vector<Array>& arrays);
  Result<NamedArrays> ReadArchive(const Reference& reference, const std::vector<DType>& raw);

  std::optional<std::string> input_;  // The bytes of standard input.
  size_t at_ = 0;                     // The end of the last array that was taken from them.
};

}  // namespace callout::tools
