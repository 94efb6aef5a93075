// SPDX-License-Identifier: Apache-2.0
//
// The inputs and outputs of a compiled program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/pjrt/program.h"

namespace callout::pjrt {

/// How the devices of a program share an array: each device has one part along each dimension.
struct Sharding {
  /// The number of parts of each dimension; all 1 for an array that every device has whole.
  std::vector<int64_t> tiles;
  /// For each device, in the order of the program's devices, its part of each dimension.
  std::vector<std::vector<int64_t>> parts;

  /// Returns whether both have the same parts on the same devices.
  bool operator==(const Sharding&) const = default;
};

/// An argument or a result of a program.
struct ProgramArray {
  ArrayType type;     ///< The type of one device's part.
  Sharding sharding;  ///< How the devices share it.

  /// Returns the whole array's type.
  CALLOUT_EXPORT ArrayType WholeType() const;
};

/// The inputs and outputs of a program.
struct Signature {
  std::vector<ProgramArray> inputs;   ///< In the order of the program's arguments.
  std::vector<ProgramArray> outputs;  ///< In the order of the program's results.
  /// The numbers of the inputs whose memory the program can use for outputs, see ExecuteOptions.
  std::vector<int64_t> donatable;
};

/// A place in a program that calls a callback.
struct CallbackUse {
  std::string name;                 ///< Name of the callback.
  std::string target;               ///< "callout.v1.call", "callout.v1.tap", ..., see docs/abi.md.
  bool is_embedded = false;         ///< The program carries the callback's code, which needs no binding.
  std::vector<ArrayType> operands;  ///< On one device.
  std::vector<ArrayType> results;   ///< On one device.
};

/// Another custom call of a program: to a function of XLA FFI, or to one of XLA's own.
struct CustomCallUse {
  std::string target;    ///< The target's name, "lapack_sgetrf_ffi".
  std::string given_by;  ///< "LAPACK of 'libopenblas.so.0'", "the host" (Plugin::RegisterHandler), "the plugin".
  std::vector<ArrayType> operands;  ///< On one device.
  std::vector<ArrayType> results;   ///< On one device.
};

}  // namespace callout::pjrt
