// SPDX-License-Identifier: Apache-2.0
//
// Taps outside of a compiled program. They have sites as taps in programs do, and their records take the same way.
#include "eager_tap.h"

#include <nanobind/stl/optional.h>

#include <utility>

#include "array_buffers.h"
#include "attribute_values.h"
#include "core/callbacks/invoke.h"
#include "core/delivery/tap_rows.h"
#include "errors.h"
#include "gil.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Up to this size, copying a record with the GIL held is faster than releasing and retaking a GIL that a delivery
// thread wants.
constexpr uint64_t kMostWithGil = 16 << 10;

}  // namespace

EagerTap::EagerTap(const CallbackHandle& like, const nb::dict& encoded)
    : callback_(std::make_shared<BorrowedCallback>(*like.callback)),
      site_(std::make_unique<internal::TapSite>(callback_, AttributesFrom<internal::TapAttributes>(encoded))) {}

// Records of this site may still be queued, so the queue destroys the site after them.
EagerTap::~EagerTap() { internal::Delivery::Get().Retire(std::move(site_)); }

bool EagerTap::Admit(int32_t device_ordinal, std::optional<int64_t> step) {
  LetBatchIn();
  return internal::Delivery::Admit(*site_, device_ordinal, step);
}

void EagerTap::Send(const CallbackHandle& callback, std::span<const callout_buffer> buffers, int32_t device_ordinal,
                    std::optional<int64_t> step) {
  using internal::Patience;
  // An exported program may send any number of arrays through JAX's callbacks.
  ThrowIfError(internal::CheckBufferCount(site_->info, *callback.callback, buffers.size()));
  internal::Delivery& delivery = internal::Delivery::Get();
  internal::Sending sending = {.buffers = buffers, .device_ordinal = device_ordinal, .run_id = 0, .step = step};
  // kUnavailable stands for a queue that has no room or is closed.
  Status status = Unavailable("");
  if (site_->inspector == nullptr && !delivery.has_upstream() && internal::TotalBytes(buffers) <= kMostWithGil) {
    sending.patience = Patience::kComesAgain;
    status = Push(sending, callback.callback);
  }
  if (status.code() == StatusCode::kUnavailable) {
    const GilRelease release;  // a full queue may wait for the Python worker
    sending.patience = Patience::kWaits;
    delivery.AwaitUpstream(*callback.callback, device_ordinal, sending.run_id);
    status = Push(sending, callback.callback);
  }
  ThrowIfError(status);
}

void EagerTap::SendRows(const CallbackHandle& callback, std::span<const callout_buffer> operands,
                        int32_t device_ordinal) {
  const auto split = internal::SplitRows(*site_, operands);
  ThrowIfError(split.status());
  const internal::TapRows& rows = *split;
  std::vector<int64_t> begin = internal::OffsetsOfRows(rows);
  const auto count = static_cast<int64_t>(begin.size());
  std::vector<callout_buffer> record(rows.leaves.size());
  if (rows.offsets != nullptr) {
    record.push_back(*rows.offsets);
    record.back().data = begin.data();
    record.back().dims = &count;
    record.back().size_bytes = begin.size() * sizeof(int64_t);
  }
  for (uint32_t row = 0; row < rows.count; ++row) {
    const std::optional<int64_t> step = rows.StepOf(row);
    if (!Admit(device_ordinal, step)) continue;
    for (size_t i = 0; i < rows.leaves.size(); ++i) record[i] = internal::RowOf(rows.leaves[i], row);
    Send(callback, record, device_ordinal, step);
  }
}

Status EagerTap::Push(internal::Sending sending, const std::shared_ptr<internal::Callback>& callback) {
  bool queued = false;
  sending.queued = &queued;
  callback_->Acquire(callback);
  Status status = internal::Delivery::Get().PushAdmitted(*site_, sending);
  if (!queued) callback_->Release();
  return status;
}

namespace {

void SendArrays(EagerTap& self, const CallbackHandle& callback, const nb::sequence& arrays, int32_t device_ordinal,
                std::optional<int64_t> step) {
  const ArrayBuffers buffers(arrays);
  self.Send(callback, {buffers.data(), buffers.size()}, device_ordinal, step);
}

}  // namespace

void BindEagerTap(nb::module_& m) {
  nb::class_<EagerTap>(m, "EagerTap", "The site of a tap outside of programs. It keeps no callback alive.")
      .def(nb::init<const CallbackHandle&, const nb::dict&>(), nb::arg("like"), nb::arg("attributes"),
           "`attributes`: those of callout.v1.tap, encoded.")
      .def("admit", &EagerTap::Admit, nb::arg("device_ordinal"), nb::arg("step").none(),
           "Whether a record of the device is to be sent. One that is not is counted, as in programs.")
      .def(
          "send", &SendArrays, nb::arg("callback"), nb::arg("arrays"), nb::arg("device_ordinal"),
          nb::arg("step").none(),
          "Sends a record that was admitted. The last array is where the value begins in a larger one, if the site has "
          "offsets.");
}

}  // namespace callout::python
