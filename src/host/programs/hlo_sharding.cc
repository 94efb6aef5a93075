// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_sharding.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/encoding/wire.h"

namespace callout::internal {
namespace {

enum Type : uint64_t { kReplicated = 0, kTiled = 3 };
constexpr int kType = 1;
constexpr int kTileDims = 3;
constexpr int kTileDevices = 4;
constexpr int kReplicateOnLastDim = 6;
constexpr int kLastTileDims = 8;
constexpr int kIotaDims = 9;
constexpr int kIotaPermutation = 10;
constexpr int64_t kMaxTiles = 1 << 20;

struct OpSharding {
  uint64_t type = kReplicated;
  std::vector<int64_t> tile_dims;
  std::vector<int64_t> devices;
  std::vector<int64_t> iota_dims;
  std::vector<int64_t> permutation;
  std::vector<int64_t> subgroups;
  bool replicates_on_last = false;
};

bool Read(std::string_view bytes, OpSharding& sharding) {
  WireReader reader(bytes);
  bool ok = true;
  while (const auto field = reader.Next()) {
    if (field->number == kType) sharding.type = field->value;
    if (field->number == kReplicateOnLastDim) sharding.replicates_on_last = field->value != 0;
    if (field->number == kTileDims) ok = AppendNumbers(*field, sharding.tile_dims) && ok;
    if (field->number == kTileDevices) ok = AppendNumbers(*field, sharding.devices) && ok;
    if (field->number == kLastTileDims) ok = AppendNumbers(*field, sharding.subgroups) && ok;
    if (field->number == kIotaDims) ok = AppendNumbers(*field, sharding.iota_dims) && ok;
    if (field->number == kIotaPermutation) ok = AppendNumbers(*field, sharding.permutation) && ok;
  }
  return ok && reader.ok();
}

// The product of extents; 0 if it is none that a number of devices can be.
int64_t Product(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent < 1 || extent > kMaxTiles || product > kMaxTiles / extent) return 0;
    product *= extent;
  }
  return product;
}

// iota(product of dims), reshaped to dims, transposed; empty if that cannot be.
std::vector<int64_t> Iota(const std::vector<int64_t>& dims, std::vector<int64_t> permutation) {
  if (permutation.empty()) {
    permutation.resize(dims.size());
    std::iota(permutation.begin(), permutation.end(), 0);
  }
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return {};
  }
  if (permutation.size() != dims.size()) return {};
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  std::vector<int64_t> devices = {0};
  for (const int64_t from : permutation) {
    std::vector<int64_t> next;
    for (const int64_t base : devices) {
      for (int64_t i = 0; i < dims[from]; ++i) next.push_back(base + i * strides[from]);
    }
    devices = std::move(next);
  }
  return devices;
}

}  // namespace

Result<pjrt::Sharding> ParseSharding(std::string_view bytes, size_t rank, size_t num_devices) {
  OpSharding proto;
  if (!Read(bytes, proto)) return InternalError("callout: the plugin tells a sharding in a form that is not known");
  pjrt::Sharding sharding{std::vector<int64_t>(rank, 1), {num_devices, std::vector<int64_t>(rank, 0)}};
  if (proto.type == kReplicated) return sharding;
  if (proto.type != kTiled) {
    return Unimplemented("callout: a sharding of type " + std::to_string(proto.type) +
                         " (of xla.OpSharding); arrays are on all devices, whole or in tiles");
  }
  const int64_t tiles = Product(proto.tile_dims);
  if (proto.devices.empty() && Product(proto.iota_dims) != 0) {
    proto.devices = Iota(proto.iota_dims, proto.permutation);
  }
  const size_t replicating = proto.subgroups.empty() ? (proto.replicates_on_last ? 1 : 0) : proto.subgroups.size();
  if (tiles != static_cast<int64_t>(num_devices) || proto.devices.size() != num_devices ||
      proto.tile_dims.size() != rank + replicating) {
    return InternalError("callout: the plugin tells a sharding over " + std::to_string(tiles) + " devices in " +
                         std::to_string(proto.tile_dims.size()) + " dimensions, for an array of " +
                         std::to_string(rank) + " on " + std::to_string(num_devices));
  }
  std::copy_n(proto.tile_dims.begin(), rank, sharding.tiles.begin());
  for (size_t i = 0; i < num_devices; ++i) {
    const int64_t device = proto.devices[i];
    if (device < 0 || device >= static_cast<int64_t>(num_devices)) {
      return InternalError("callout: the plugin tells a sharding with a device " + std::to_string(device));
    }
    auto rest = static_cast<int64_t>(i);
    for (size_t d = proto.tile_dims.size(); d-- > 0; rest /= proto.tile_dims[d]) {
      if (d < rank) sharding.parts[static_cast<size_t>(device)][d] = rest % proto.tile_dims[d];
    }
  }
  return sharding;
}

}  // namespace callout::internal
