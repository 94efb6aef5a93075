// SPDX-License-Identifier: Apache-2.0
//
// The attributes of taps, calls, reads and images in programs: one struct with its rows for each.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "callout/queue_policy.h"
#include "core/attributes/attribute_rows.h"
#include "core/frame/xla_scope.h"

namespace callout::internal {

// Attributes of the targets that call a callback: callout.v1.call, callout.v1.buffer, callout.v1.buffer_capturable, and
// callout.v1.check, which reports the failure of a callback.

/// The dictionary `library`, whose entries are strings.
struct LibraryAttributes {
  std::string_view bytes;
  std::string_view digest;
  std::string_view platform;
  std::string_view symbol;
};

template <>
inline constexpr auto kAttributeRows<LibraryAttributes> = std::tuple(
    Required("bytes", &LibraryAttributes::bytes, "an ELF shared library"),
    Required("digest", &LibraryAttributes::digest, "its SHA-256 in lowercase hexadecimal"),
    Required("platform", &LibraryAttributes::platform, "`linux-x86_64`: lowercase `uname -s` and `uname -m`"),
    Required("symbol", &LibraryAttributes::symbol,
             "the library exports `symbol_callout_record` or, as a plain function, `symbol`"));

/// Attributes of both calls and taps.
struct SiteAttributes {
  std::string_view callback;
  std::string_view names;
  bool deferred = false;
  bool threaded = false;
};

template <>
inline constexpr auto kAttributeRows<SiteAttributes> = std::tuple(
    Required(kCallbackAttribute, &SiteAttributes::callback, "the name to look up"),
    Optional("names", &SiteAttributes::names,
             "all names that the program needs, separated by newlines, for the error where one is not bound. "
             "`callout.export` writes it"),
    Optional("deferred", &SiteAttributes::deferred,
             "1: one more result at the end, s32[]: 0, or the number of the failure. The call itself then never fails; "
             "on failure its other results are zeros"),
    Optional("threaded", &SiteAttributes::threaded, "1: a token is the first operand and the first result, see below"));

inline constexpr std::array<std::string_view, 2> kShardings = {"gather", "local"};

/// Attributes of calls and taps in a program for several devices.
inline constexpr auto kPlacementRows =
    std::tuple(Unbound("sharding", std::string_view(),
                       "for the partitioner, see below: who calls. Not there: nothing is to be partitioned",
                       {.choices = kShardings}),
               Unbound("device_index", int64_t{0}, "for the partitioner: the device that calls with gathered values",
                       {.least = 0}),
               Unbound("num_devices", int64_t{0}, "for the partitioner: how many devices the program was traced for",
                       {.least = 0}));

/// Attributes of a call or a tap that is made once for several devices, which meet in a rendezvous.
struct RendezvousAttributes {
  int64_t devices = 1;
  int64_t caller = 0;
  std::span<const int64_t> shards;
};

template <>
inline constexpr auto kAttributeRows<RendezvousAttributes> = std::tuple(
    Required("devices", &RendezvousAttributes::devices, "how many devices come together",
             {.least = 1, .most = 1 << 16}),
    Optional("caller", &RendezvousAttributes::caller, "the device that is said to make the call", {.least = 0}),
    Optional("shards", &RendezvousAttributes::shards,
             "for each device in turn, where in the whole value its operand begins, for all dimensions of all operands "
             "in turn (not the token, not the device's own place). Not there: each device has all of them whole",
             {.least = 0}));

/// Attributes of a batch: its extents, and which operands have them.
struct LaneAttributes {
  std::span<const int64_t> lane_dims;
  std::span<const int64_t> lane_masks;
};

template <>
inline constexpr auto kAttributeRows<LaneAttributes> = std::tuple(
    Optional("lane_dims", &LaneAttributes::lane_dims,
             "the call is a batch with these extents, outermost first, and the callback is called once a lane, on "
             "several threads"),
    Optional("lane_masks", &LaneAttributes::lane_masks,
             "for each operand, which extents of the batch come first in its shape: bit i for the i-th. Results have "
             "all. Required with `lane_dims`"));

struct CallAttributes : SiteAttributes, LaneAttributes {
  const XLA_FFI_Attrs* attributes = nullptr;
  std::span<const int64_t> aliases;
  std::optional<LibraryAttributes> library;
  bool ordered = false;
};

/// Attributes of a call on any platform.
inline constexpr auto kCallRows = std::tuple_cat(
    kAttributeRows<SiteAttributes>, kAttributeRows<LaneAttributes>,
    std::tuple(
        Optional("attributes", &CallAttributes::attributes,
                 "constants that the callback gets by name: numbers, arrays, strings"),
        Optional("aliases", &CallAttributes::aliases,
                 "pairs of operand and result of one size: the result holds the operand's value when the callback is "
                 "called (in a batch: a lane's)",
                 {.group = 2}),
        Optional(kLibraryAttribute, &CallAttributes::library,
                 "the program carries the function; `callback` is what it is called in errors and statistics"),
        Unbound(kXlaScopeAttribute, false,
                "1: the program carries Callout's host callback, which JAX adds when it compiles"),
        Optional("ordered", &CallAttributes::ordered, "1: wait for the delivery of the device's earlier taps")));

template <>
inline constexpr auto kAttributeRows<CallAttributes> = std::tuple_cat(kCallRows, kPlacementRows);

struct GatheredCallAttributes : CallAttributes, RendezvousAttributes {};

template <>
inline constexpr auto kAttributeRows<GatheredCallAttributes> =
    std::tuple_cat(kCallRows, kAttributeRows<RendezvousAttributes>);

struct BufferAttributes : CallAttributes {
  bool graph = false;
};

template <>
inline constexpr auto kAttributeRows<BufferAttributes> = std::tuple_cat(
    kAttributeRows<CallAttributes>,
    std::tuple(Optional("graph", &BufferAttributes::graph,
                        "1: what the callback queues is recorded once for each set of buffers, and launched from then "
                        "on without the callback. The first call on a device is not recorded")));

struct CheckAttributes {
  std::string_view callback;
};

template <>
inline constexpr auto kAttributeRows<CheckAttributes> = std::tuple(
    Required(kCallbackAttribute, &CheckAttributes::callback, "the name that failed, for a failure in another process"));

// Attributes of callout.v1.read.

/// The kinds of objects that a handle may stand for. Programs read the first kReadableKinds of them.
enum class HandleKind : int64_t { kStopFlag, kHostValue, kSink, kFunction };
inline constexpr std::array<std::string_view, 4> kHandleKindNames = {"StopFlag", "HostValue", "sink", "Function"};
inline constexpr std::array<std::string_view, 2> kReadableKinds = {kHandleKindNames[0], kHandleKindNames[1]};

template <>
inline constexpr auto kChoices<HandleKind> = kReadableKinds;

struct ReadAttributes {
  HandleKind kind = HandleKind::kStopFlag;
  int64_t devices = 1;
};

template <>
inline constexpr auto kAttributeRows<ReadAttributes> = std::tuple_cat(
    std::tuple(Required("kind", &ReadAttributes::kind, "what the handle stands for"),
               Optional("devices", &ReadAttributes::devices,
                        "how many devices read in each run. More than 1: the n-th reading of one device gives what the "
                        "n-th readings of the others give",
                        {.least = 1})),
    kPlacementRows);

// Attributes of callout.v1.tap.

template <>
inline constexpr auto kChoices<OverflowPolicy> = kOverflowPolicyNames;

inline constexpr int64_t kAllPpb = 1'000'000'000;  // parts in a billion
inline constexpr size_t kMaxTapTextBytes = 1 << 16;

struct TapAttributes : SiteAttributes {
  std::string_view label;
  std::string_view leaves;
  int64_t every = 1;
  int64_t min_interval_ns = 0;
  OverflowPolicy on_full = OverflowPolicy::kBlock;
  bool step = false;
  bool rows = false;
  bool turns = false;
  int64_t hand_over = 0;
  int64_t following = 0;
  int64_t sample_ppb = kAllPpb;
  int64_t only_device = -1;
  int64_t only_process = -1;
  bool offsets = false;
  std::span<const int64_t> returned;
};

/// Attributes of a tap on any platform.
inline constexpr auto kTapRows = std::tuple_cat(
    kAttributeRows<SiteAttributes>,
    std::tuple(
        Optional("label", &TapAttributes::label, "the tap's name, for sinks",
                 {.most_bytes = kMaxTapTextBytes, .absent = "the callback's"}),
        Optional("leaves", &TapAttributes::leaves,
                 "names of the operands, separated by newlines, as many as operands; the default also for none",
                 {.absent = "one empty name"}),
        Optional("every", &TapAttributes::every, "send the 1st, (every+1)th, ... time", {.least = 1}),
        Optional("min_interval_ns", &TapAttributes::min_interval_ns, "nanoseconds between records", {.least = 0}),
        Optional("on_full", &TapAttributes::on_full, "what happens to a record when the queue is full"),
        Optional("step", &TapAttributes::step,
                 "1: one more operand behind the leaves, an integer: the record's step. `every` then means steps that "
                 "it divides"),
        Optional(
            "rows", &TapAttributes::rows,
            "1: each row of the operands and of the step, along their first dimension, is a record; behind the step "
            "comes one more operand, u32[]: how many rows to send"),
        Optional("turns", &TapAttributes::turns,
                 "1: behind the number of rows comes one more operand, u32[rows]: for each row a number that grows "
                 "along the program, by which rows of several taps are merged; by default the rows' indices"),
        Optional("hand_over", &TapAttributes::hand_over,
                 "taps with rows that have the same number, not 0, run one after the other, and send their rows "
                 "together, merged by their turns",
                 {.least = 0}),
        Optional("following", &TapAttributes::following,
                 "how many taps of the same `hand_over` follow; the last one sends the rows of all", {.least = 0}),
        Optional("sample_ppb", &TapAttributes::sample_ppb, "send with this probability, in parts in a billion",
                 {.least = 1, .most = kAllPpb}),
        Optional("only_device", &TapAttributes::only_device,
                 "send from the device with this ordinal alone; -1: from all"),
        Optional("only_process", &TapAttributes::only_process, "send from the process with this index alone"),
        Unbound("can_fail", false, "for the partitioner: 1: the callback may fail the program"),
        Optional("offsets", &TapAttributes::offsets,
                 "1: one more operand at the end, s64[n]: where in the whole value this shard begins, for all "
                 "dimensions of all operands in turn"),
        Optional("returned", &TapAttributes::returned,
                 "operands that the tap returns: the i-th result is the operand `returned[i]`", {.least = 0})));

template <>
inline constexpr auto kAttributeRows<TapAttributes> = std::tuple_cat(kTapRows, kPlacementRows);

struct GatheredTapAttributes : TapAttributes, RendezvousAttributes {};

template <>
inline constexpr auto kAttributeRows<GatheredTapAttributes> =
    std::tuple_cat(kTapRows, kAttributeRows<RendezvousAttributes>);

// Attributes of callout.v1.image and callout.v1.image_sync.

inline constexpr int64_t kMostOfImages = (int64_t{1} << 31) - 1;  // bounds sizes, extents and positions

/// The dictionary `image`, whose entries are strings.
struct ImageSource {
  std::string_view bytes;
  std::string_view symbol;
};

template <>
inline constexpr auto kAttributeRows<ImageSource> =
    std::tuple(Required("bytes", &ImageSource::bytes, "a cubin, a fat binary or PTX"),
               Required("symbol", &ImageSource::symbol, "the kernel's name in it"));

inline constexpr int64_t kTensorMapNumbers = 28;  // numbers of one map

/// The dictionary `faults`, whose entries are strings.
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
