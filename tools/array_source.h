// SPDX-License-Identifier: Apache-2.0
//
// Arrays from what a command line says:
//   f32[2,3]=0.5       a SPEC, see array_spec.h
//   FILE.npy           an array
//   FILE.npz           its arrays, in the file's order
//   FILE.npz:NAME      one of them
//   -                  standard input: the next of its .npy files, or the arrays of the .npz file that it is
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

/// Not thread-safe. Standard input is read once, by the first text that asks for it.
class ArraySource {
 public:
  /// Appends one array or more. `wanted`: the types that are wanted from here on; elements of types that NumPy does not
  /// have are taken for theirs, and a SPEC of another type has no elements. Errors: InvalidArgument and NotFound with
  /// the text; what reading gives.
  Status Append(const std::string& text, std::span<const pjrt::ArrayType> wanted, std::vector<Array>& arrays);

 private:
  struct Reference;
  Status AppendNext(const std::vector<DType>& raw, std::vector<Array>& arrays);
  Result<NamedArrays> ReadArchive(const Reference& reference, const std::vector<DType>& raw);

  std::optional<std::string> input_;  // standard input's bytes
  size_t at_ = 0;                     // behind the last array that was taken of them
};

}  // namespace callout::tools
