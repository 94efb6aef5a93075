// SPDX-License-Identifier: Apache-2.0
//
// What a program says of one kernel launch. It knows no compiler's calling convention: whoever traced the program
// packed the parameters, and said where the addresses of its buffers go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "cuda/driver/kernel.h"
#include "cuda/driver/tensor_map.h"

namespace callout::internal {

/// Where a kernel that was compiled for debugging says that a thread raised. All names are globals of its image.
struct Faults {
  std::string symbol;                   ///< An s32: 0, or the code of what was raised.
  std::array<std::string, 6> place;     ///< Of the thread's x, y, z and the block's, as s32; "" where there is none.
  std::map<int32_t, std::string> text;  ///< What each code means.
};

/// Eight bytes of the parameters that are the address of a buffer.
struct AddressSlot {
  size_t position;  ///< In ImageCall::parameter_block.
  size_t operand;   ///< Arguments first, then results.
};

/// A parameter by which the kernel copies boxes of a buffer.
struct TensorMapSlot {
  size_t position;  ///< In ImageCall::parameter_block.
  size_t operand;
  cuda::TensorMapShape shape;
};

struct ImageCall {
  std::string name;   ///< For errors.
  std::string bytes;  ///< A cubin, a fat binary, or PTX.
  std::string symbol;
  cuda::LaunchShape shape;
  bool fills_device = false;            ///< As many blocks along x as the device runs at once, instead of the shape's.
  std::vector<size_t> parameter_bytes;  ///< The size of each parameter.
  std::string parameter_block;          ///< All parameters, one after another.
  std::vector<AddressSlot> addresses;
  std::vector<TensorMapSlot> tensor_maps;
  std::optional<Faults> faults;

  /// InvalidArgument if the parts do not fit each other.
  CALLOUT_EXPORT Status Check() const;

 private:
  Status CheckCluster() const;
};

}  // namespace callout::internal
