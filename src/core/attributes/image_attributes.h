// SPDX-License-Identifier: Apache-2.0
//
// What programs say of callout.v1.image and callout.v1.image_sync.
#pragma once

#include <cstdint>

#include "core/attributes/call_attributes.h"

namespace callout::internal {

inline constexpr int64_t kMostOfImages = (int64_t{1} << 31) - 1;  // of sizes, extents and positions

/// Attribute `image`: strings.
struct ImageSource {
  std::string_view bytes;
  std::string_view symbol;
};

template <>
inline constexpr auto kAttributeRows<ImageSource> =
    std::tuple(Required("bytes", &ImageSource::bytes, "a cubin, a fat binary or PTX"),
               Required("symbol", &ImageSource::symbol, "the kernel's name in it"));

inline constexpr int64_t kTensorMapNumbers = 28;  // of one map

/// Attribute `faults`: strings.
struct FaultAttributes {
  const XLA_FFI_Attrs* all_entries = nullptr;
  std::string_view symbol;
  std::string_view thread_x;
  std::string_view thread_y;
  std::string_view thread_z;
  std::string_view block_x;
  std::string_view block_y;
  std::string_view block_z;
};

template <>
inline constexpr auto kAttributeRows<FaultAttributes> =
    std::tuple(Required("symbol", &FaultAttributes::symbol,
                        "names an s32 of the image that is set to 0 before the launch, and is not 0 after it if a "
                        "thread raised"),
               Optional("thread_x", &FaultAttributes::thread_x, "names an s32 with that thread's place"),
               Optional("thread_y", &FaultAttributes::thread_y, "as `thread_x`"),
               Optional("thread_z", &FaultAttributes::thread_z, "as `thread_x`"),
               Optional("block_x", &FaultAttributes::block_x, "names an s32 with its block's place"),
               Optional("block_y", &FaultAttributes::block_y, "as `block_x`"),
               Optional("block_z", &FaultAttributes::block_z, "as `block_x`"));

struct ImageAttributes : LaneAttributes {
  std::string_view callback;
  std::optional<ImageSource> image;
  std::span<const int64_t> grid;
  std::span<const int64_t> block;
  int64_t shared_bytes = 0;
  bool cooperative = false;
  bool fills_device = false;
  std::span<const int64_t> cluster;
  bool dependent = false;
  std::span<const int64_t> priority;
  std::span<const int64_t> tensor_maps;
  std::span<const int64_t> parameter_bytes;
  std::string_view parameter_block;
  std::span<const int64_t> pointers;
  std::span<const int64_t> aliases;
  std::optional<FaultAttributes> faults;
};

template <>
inline constexpr auto kAttributeRows<ImageAttributes> = std::tuple_cat(
    std::tuple(
        Required(kCallbackAttribute, &ImageAttributes::callback, "what the kernel is called in errors"),
        Required("image", &ImageAttributes::image, "the code, and what is launched of it"),
        Required("grid", &ImageAttributes::grid, "blocks along x, y, z",
                 {.least = 0, .most = kMostOfImages, .count = 3}),
        Required("block", &ImageAttributes::block, "threads of a block along x, y, z",
                 {.least = 0, .most = kMostOfImages, .count = 3}),
        Optional("shared_bytes", &ImageAttributes::shared_bytes, "dynamic shared memory of a block",
                 {.least = 0, .most = kMostOfImages}),
        Optional("cooperative", &ImageAttributes::cooperative, "1: a cooperative launch"),
        Optional("fills_device", &ImageAttributes::fills_device,
                 "1: instead of `grid`, as many blocks along x as the device runs at once"),
        Optional("cluster", &ImageAttributes::cluster, "blocks of a cluster along x, y, z",
                 {.least = 1, .most = kMostOfImages, .count = 3}),
        Optional("dependent", &ImageAttributes::dependent, "1: a programmatic dependent launch"),
        Optional("priority", &ImageAttributes::priority, "of the launch, CUDA's number",
                 {.least = -kMostOfImages, .most = kMostOfImages, .count = 1}),
        Optional(
            "tensor_maps", &ImageAttributes::tensor_maps,
            "for each parameter that is a CUtensorMap, 28 numbers: its byte position in `parameter_block`, the "
            "operand that it is of, and as cuTensorMapEncodeTiled takes them, arrays filled up to 5 numbers: type, "
            "rank, dims, strides, box, element strides, interleave, swizzle, promotion, fill",
            {.least = 0, .most = int64_t{1} << 40, .group = kTensorMapNumbers}),
        Optional("parameter_bytes", &ImageAttributes::parameter_bytes,
                 "the size of each parameter. Compared with the image when it is loaded",
                 {.least = 0, .most = kMostOfImages}),
        Optional("parameter_block", &ImageAttributes::parameter_block,
                 "the parameters' bytes, one after another, without padding"),
        Optional("pointers", &ImageAttributes::pointers,
                 "pairs of a byte position in `parameter_block` and an operand, whose address goes there; operands "
                 "count arguments, then results",
                 {.least = 0, .most = kMostOfImages, .group = 2}),
        Optional("aliases", &ImageAttributes::aliases,
                 "as above; a result that does not lie in its operand's place is filled by a copy on the device",
                 {.group = 2}),
        Optional("faults", &ImageAttributes::faults,
                 "of callout.v1.image_sync: for kernels that say themselves what went wrong. A key that is a decimal "
                 "number is a value of `symbol`, and its text the error's")),
    kAttributeRows<LaneAttributes>);

}  // namespace callout::internal
