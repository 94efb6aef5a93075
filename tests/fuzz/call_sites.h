// SPDX-License-Identifier: Apache-2.0
//
// Shared by the fuzz targets for call sites: the handlers of a platform, the callbacks and operands of programs, and
// how much of a program is executed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attribute_values.h"
#include "core/attributes/attribute_rows.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "cuda/handlers/targets.h"
#include "fuzz.h"
#include "sinks/catalog/callback_kinds.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"

namespace callout::fuzz {

using internal::FakeRuntime;
using internal::FakeSite;
using internal::FrameBuilder;
using internal::TestBuffer;

/// A target on one platform, with the attributes that it takes.
struct Subject {
  std::string_view name;
  XLA_FFI_Handler* instantiate = nullptr;
  XLA_FFI_Handler* initialize = nullptr;
  XLA_FFI_Handler* execute = nullptr;
  std::span<const internal::AttributeDescription> attributes;
};

/// Returns all targets of a platform; `runtime` has queried their handlers.
inline std::vector<Subject> SubjectsOn(std::string_view platform, const FakeRuntime& runtime) {
  std::vector<Subject> subjects;
  for (const internal::Target& target : internal::Targets()) {
    if (target.platform != platform) continue;
    Subject subject = {.name = target.name, .attributes = {}};
    const auto of = [&](void* handler) {
      auto* const found = reinterpret_cast<XLA_FFI_Handler*>(handler);
      CALLOUT_CHECK(found == nullptr || runtime.QueryMetadata(found).status.ok(), "the handlers take the runtime");
      return found;
    };
    subject.instantiate = of(target.instantiate);
    subject.initialize = of(target.initialize);
    subject.execute = of(target.execute);
    for (const internal::TargetAttributes& table : internal::AllTargetAttributes()) {
      if (table.target == subject.name) subject.attributes = table.attributes;
    }
    CALLOUT_CHECK(!subject.attributes.empty(), "each target has attributes");
    subjects.push_back(subject);
  }
  return subjects;
}

/// A callback that takes taps of one array, as a function traced for one array does.
class OneArray final : public internal::FakeCallback {
 public:
  OneArray() : FakeCallback("one array") {
    on_deliver = [](const internal::Record& record) {
      CALLOUT_CHECK(record.buffers.size() == 1, "a record of another number of arrays");
      return OkStatus();
    };
  }
  Status CheckTap(size_t num_leaves) const override {
    return num_leaves == 1 ? OkStatus() : InvalidArgument("one array");
  }
};

/// Registers the callbacks of programs: "f", which fills its results, "one array", and the core's kinds.
inline void RegisterCallbacks() {
  const auto callback = std::make_shared<internal::FakeCallback>("f");
  callback->on_call = [](const callout_call& call) {
    for (uint32_t i = 0; i < call.num_results; ++i) {
      if (call.results[i].size_bytes > 0) std::memset(call.results[i].data, 1, call.results[i].size_bytes);
    }
    return call.num_args == 3 ? InternalError("three operands") : OkStatus();
  };
  CALLOUT_CHECK(internal::Registry::Get().Register("f", callback, /*replace=*/false).ok(), "the name is free");
  CALLOUT_CHECK(internal::Registry::Get().Register("one array", std::make_shared<OneArray>(), false).ok(), "free");
  internal::RegisterKinds();
  CALLOUT_CHECK(internal::Registry::Get().Find("watch:1;ni;report").ok(), "programs have the core's kinds");
}

/// Returns valid attribute values and some invalid ones, without embedded libraries, which must not run here.
inline Values::Known KnownValues() {
  return {.texts = {{"callback",
                     {"f", "f", "check:1;raise;;1;1;bad", "check:1;warn;;1;1,1e;{value} {lane}",
                      "nans:1;warn;ni;forward;0;0;0,0;0;log;1;0;f.py:3;;",
                      "nans:1;raise;n;backward;0;1;1,1,1,0;1;log;1;1;f.py:3 in f;y;net", "watch:1;ni;report",
                      "watch:1;n;stop", "id_print:1;5;1000000;tx:,d,t;(,t[,l0,b2,l1,t],)", "id_print:1;-1;1;;l0",
                      "id_print:1;1000;1000000;;tNone", "progress_clock:", "progress_bar:%5B1%5D", "one array",
                      "nobody's"}},
                    {"leaves", {"", "a\nb", "a\n", "step", "a\nb\nc"}},
                    {"platform", {"none"}}},
          .lists = {{"shards", {{0, 2}, {0, 1, 2}, {0, 0, 0, 2}, {0, 0, 2, 0}, {0, 0, 0, 0}, {2, 0}}},
                    {"lane_masks", {{0}, {1}, {1, 1}, {3, 3}, {1, 1, 1}}}}};
}

/// Returns the numbers of an attribute; none if the attribute is no array of int64.
inline std::span<const int64_t> NumbersOf(const XLA_FFI_Attrs& attrs, std::string_view name) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != name) continue;
    if (attrs.types[i] == XLA_FFI_AttrType_ARRAY) {
      const auto* array = static_cast<const XLA_FFI_Array*>(attrs.attrs[i]);
      if (array->dtype == XLA_FFI_DataType_S64) return {static_cast<const int64_t*>(array->data), array->size};
    }
    if (attrs.types[i] == XLA_FFI_AttrType_SCALAR) {
      const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
      if (scalar->dtype == XLA_FFI_DataType_S64) return {static_cast<const int64_t*>(scalar->value), 1};
    }
  }
  return {};
}

/// Returns true if these extents, of a batch or a grid, are small enough to run.
inline bool IsSmall(std::span<const int64_t> extents) {
  constexpr int64_t kMost = 1 << 10;
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent > 0 && product > kMost / extent) return false;
    product *= std::max<int64_t>(extent, 1);
  }
  return true;
}

inline TestBuffer AnyBuffer(FuzzedDataProvider& data) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kInt32,      DType::kUint32, DType::kInt64,
                              DType::kInt4,    DType::kComplex128, DType::kToken,  DType::kBool};
  const DType dtype = data.PickValueInArray(kTypes);
  std::vector<int64_t> dims(dtype == DType::kToken ? 0 : data.ConsumeIntegralInRange<size_t>(0, 3));
  for (int64_t& extent : dims) extent = data.ConsumeIntegralInRange<int64_t>(0, 4);
  TestBuffer buffer = TestBuffer::Zeros(dtype, std::move(dims));
  if (!buffer.bytes().empty()) buffer.bytes().back() = data.ConsumeBool() ? 1 : 0;
  return buffer;
}

inline void AddAttributes(const XLA_FFI_Attrs& attrs, FrameBuilder& frame) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    frame.Attr({attrs.names[i]->ptr, attrs.names[i]->len}, attrs.types[i], attrs.attrs[i]);
  }
}

/// Checks that no object of an input is alive after the input.
inline void CheckNothingIsLeft() {
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  CALLOUT_CHECK(internal::Delivery::Get().Drain(soon).empty(), "taps that are not delivered");
  (void)internal::Delivery::Get().TakeErrors();
  CALLOUT_CHECK(FakeRuntime::live_errors() == 0, "errors are left");
}

}  // namespace callout::fuzz
