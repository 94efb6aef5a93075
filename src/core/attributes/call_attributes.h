// SPDX-License-Identifier: Apache-2.0
//
// What programs say of the targets that call a callback: callout.v1.call, callout.v1.buffer,
// callout.v1.buffer_capturable, and callout.v1.check for the failure of one.
#pragma once

#include <cstdint>

#include "core/attributes/attribute_rows.h"
#include "core/frame/xla_scope.h"

namespace callout::internal {

/// Attribute `library`: strings.
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

/// What calls and taps have in common.
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

/// What is said of calls and taps in a program for several devices.
inline constexpr auto kPlacementRows =
    std::tuple(Unbound("sharding", std::string_view(),
                       "for the partitioner, see below: who calls. Not there: nothing is to be partitioned",
                       {.choices = kShardings}),
               Unbound("device_index", int64_t{0}, "for the partitioner: the device that calls with gathered values",
                       {.least = 0}),
               Unbound("num_devices", int64_t{0}, "for the partitioner: how many devices the program was traced for",
                       {.least = 0}));

/// What is said of a call or a tap that is made once for several devices, which come together for it.
struct MeetingAttributes {
  int64_t devices = 1;
  int64_t caller = 0;
  std::span<const int64_t> shards;
};

template <>
inline constexpr auto kAttributeRows<MeetingAttributes> = std::tuple(
    Required("devices", &MeetingAttributes::devices, "how many devices come together", {.least = 1, .most = 1 << 16}),
    Optional("caller", &MeetingAttributes::caller, "the device that is said to make the call", {.least = 0}),
    Optional("shards", &MeetingAttributes::shards,
             "for each device in turn, where in the whole value its operand begins, for all dimensions of all operands "
             "in turn (not the token, not the device's own place). Not there: each device has all of them whole",
             {.least = 0}));

/// The extents of a batch.
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

/// What a call says of itself, wherever it is made.
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

struct GatheredCallAttributes : CallAttributes, MeetingAttributes {};

template <>
inline constexpr auto kAttributeRows<GatheredCallAttributes> =
    std::tuple_cat(kCallRows, kAttributeRows<MeetingAttributes>);

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

}  // namespace callout::internal
