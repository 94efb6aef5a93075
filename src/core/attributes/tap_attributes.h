// SPDX-License-Identifier: Apache-2.0
//
// What programs say of callout.v1.tap.
#pragma once

#include <cstdint>

#include "callout/queue_policy.h"
#include "core/attributes/call_attributes.h"

namespace callout::internal {

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
  int64_t sample_ppb = kAllPpb;
  int64_t only_device = -1;
  int64_t only_process = -1;
  bool offsets = false;
  std::span<const int64_t> returned;
};

/// What a tap says of itself, wherever it is.
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

struct GatheredTapAttributes : TapAttributes, MeetingAttributes {};

template <>
inline constexpr auto kAttributeRows<GatheredTapAttributes> =
    std::tuple_cat(kTapRows, kAttributeRows<MeetingAttributes>);

}  // namespace callout::internal
