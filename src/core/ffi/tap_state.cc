// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/tap_state.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>

#include "callout/dtype.h"
#include "core/attributes/decode.h"
#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/run_context.h"
#include "core/delivery/delivery.h"
#include "core/ffi/call_site.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"

namespace callout::internal {
namespace {

Status CheckLeaf(const std::string& name) {
  if (name.size() <= kMaxTapTextBytes) return OkStatus();
  return InvalidArgument(Cat("callout: each name of a tap's `leaves` must have at most ", kMaxTapTextBytes,
                             " characters, got ", name.size()));
}

Status CheckSite(const TapSite& site) {
  for (const std::string& name : site.info.leaf_names) CALLOUT_RETURN_IF_ERROR(CheckLeaf(name));
  Status taken =
      CheckBufferCount(site.info, *site.callback, site.info.leaf_names.size() + (site.info.has_offsets ? 1 : 0));
  if (taken.ok() || CheckBufferCount(site.info, *site.callback, 0).ok()) return OkStatus();
  return taken;
}

// Checks the offsets, which are the begin of a shard in the whole value: one for each dimension of the leaves, and of a
// batched step.
Status CheckOffsets(const TapSite& site, std::span<const callout_buffer> value, const callout_buffer* step) {
  const callout_buffer& offsets = value.back();
  int64_t rank = 0;
  for (const callout_buffer& leaf : value.first(value.size() - 1)) rank += leaf.rank;
  const int64_t with_step = rank + (step == nullptr ? 0 : step->rank);
  const bool is_list = offsets.dtype == static_cast<uint32_t>(DType::kInt64) && offsets.rank == 1;
  if (is_list && (offsets.dims[0] == rank || offsets.dims[0] == with_step)) [[likely]]
    return OkStatus();
  return InvalidArgument(Cat("callout: tap '", site.info.label, "': expected its offsets, s64[", rank,
                             "], as the last operand (attribute `offsets`), got ", ShapeString(offsets)));
}

Status InstantiateTap(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const TapAttributes attributes, DecodeAttributes<TapAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapState> state, MakeTapState<TapState>(attributes));
  return KeepState(frame, std::move(state));
}

}  // namespace

Result<std::unique_ptr<TapSite>> MakeCheckedTapSite(std::shared_ptr<Callback> callback,
                                                    const TapAttributes& attributes) {
  auto site = std::make_unique<TapSite>(std::move(callback), attributes);
  CALLOUT_RETURN_IF_ERROR(CheckSite(*site));
  if (site->has_rows && site->inspector != nullptr) {
    return InvalidArgument("callout: tap '" + site->info.label +
                           "': its callback looks at values in the program, so it takes no rows (attribute `rows`)");
  }
  return site;
}

TapState::OwnedAttributes::OwnedAttributes(const TapAttributes& attributes)
    : label(attributes.label), leaves(attributes.leaves), view(attributes) {
  view.label = label;
  view.leaves = leaves;
}

// Records of the sites may still be queued, so Retire destroys each site after them.
TapState::~TapState() {
  Delivery::Get().Retire(std::unique_ptr<TapSite>(site_.load(std::memory_order_relaxed)));
  for (std::unique_ptr<TapSite>& site : left_) Delivery::Get().Retire(std::move(site));
}

Status TapState::Turn() const {
  std::shared_ptr<Callback> callback = name_->callback();
  // Sites are retired after the lock is released, because a callback's destructor must not run under it.
  std::vector<std::unique_ptr<TapSite>> unread;
  {
    const MutexLock lock(turning_);
    if (site_.load(std::memory_order_relaxed)->callback == callback) return OkStatus();  // another thread was faster
    CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapSite> next, MakeCheckedTapSite(std::move(callback), attributes_->view));
    left_.emplace_back(site_.exchange(next.release(), std::memory_order_seq_cst));  // pairs with Hazard::Of
    const auto read =
        std::partition(left_.begin(), left_.end(), [](const auto& site) { return Hazard::IsRead(site.get()); });
    unread.assign(std::move_iterator(read), std::move_iterator(left_.end()));
    left_.erase(read, left_.end());
  }
  for (std::unique_ptr<TapSite>& site : unread) Delivery::Get().Retire(std::move(site));
  return OkStatus();
}

Status CheckTapResults(size_t count, const TapState& state) {
  if (count == state.num_results()) [[likely]]
    return OkStatus();
  return InvalidArgument(Cat("callout: tap '", state.label(), "': expected ", state.num_results(),
                             " results (attributes `threaded`, `returned`, `deferred`), got ", count));
}

callout_call BuffersOnly(std::span<const callout_buffer> args, std::span<const callout_buffer> results) {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.args = args.data();
  call.num_args = static_cast<uint32_t>(args.size());
  call.results = results.data();
  call.num_results = static_cast<uint32_t>(results.size());
  return call;
}

Status TapOperands::Split(const TapSite& site, std::span<const callout_buffer> args) {
  value_ = args;
  if (site.has_rows) return OkStatus();  // Delivery splits the rows when their number is on the host.
  if (site.info.has_step) [[unlikely]] {
    // The step comes after the leaves.
    const size_t place = site.info.leaf_names.size();
    if (place >= args.size() || !HasIntegers(args[place])) {
      return InvalidArgument("callout: tap '" + site.info.label +
                             "': expected its step, an integer, behind its leaves (attribute `step`), got " +
                             (place < args.size() ? ShapeString(args[place]) : "no operand"));
    }
    step_ = &args[place];
    std::copy(args.begin() + static_cast<ptrdiff_t>(place) + 1, args.end(),
              std::copy_n(args.begin(), place, without_step_.data()));
    value_ = {without_step_.data(), args.size() - 1};
  }
  const size_t expected = site.info.leaf_names.size() + (site.info.has_offsets ? 1 : 0);
  if (value_.size() == expected) [[likely]]
    return site.info.has_offsets ? CheckOffsets(site, value_, step_) : OkStatus();
  return CheckBufferCount(site.info, *site.callback, value_.size());
}

namespace {

// Pushes a record. `device` returns the ordinal; the runtime is asked for the ordinal and the run only if the value is
// sent.
template <typename Device>
Status Push(XLA_FFI_CallFrame* frame, TapSite& site, std::span<const callout_buffer> args, Device device) {
  TapOperands operands(site, args.size());
  CALLOUT_RETURN_IF_ERROR(operands.Split(site, args));
  if (site.inspector != nullptr && Delivery::Passes(site, operands.value())) return OkStatus();
  const int32_t device_ordinal = device();
  const Status status =
      Delivery::Get().Push(site, {.buffers = operands.value(),
                                  .device_ordinal = device_ordinal,
                                  .run_id = FindRun(RunId(frame)).id,
                                  .step = operands.step() ? FirstInteger(*operands.step()) : std::nullopt});
  if (status.ok()) [[likely]]
    return OkStatus();
  return status.WithMessage(DescribeFailure(*site.callback, device_ordinal, status));
}

Status ExecuteTap(XLA_FFI_CallFrame* frame, const TapState& state) {
  SmallBuffer<callout_buffer, 16> arg_buffers(static_cast<size_t>(frame->args.size));
  std::span<const callout_buffer> args;
  CALLOUT_RETURN_IF_ERROR(DecodeArgs(frame->args, arg_buffers.data(), args));
  if (frame->rets.size == 0 && state.num_results() == 0) [[likely]]
    return state.WithSite([&](TapSite& site) { return Push(frame, site, args, [&] { return state.device(frame); }); });
  SmallBuffer<callout_buffer, 8> result_buffers(static_cast<size_t>(frame->rets.size));
  std::span<const callout_buffer> results;
  CALLOUT_RETURN_IF_ERROR(DecodeRets(frame->rets, result_buffers.data(), results));
  if (!results.empty()) CALLOUT_RETURN_IF_ERROR(CheckTapResults(results.size(), state));
  if (state.threaded()) CALLOUT_RETURN_IF_ERROR(PassToken(&args, &results));
  Status status = RunTap(frame, state, args, results, state.device(frame));
  if (state.deferred()) return Defer(status, results);
  return status;
}

}  // namespace

Status RunTap(XLA_FFI_CallFrame* frame, const TapState& state, std::span<const callout_buffer> args,
              std::span<const callout_buffer> results, int32_t device_ordinal) {
  if (!state.returned().empty()) {
    const callout_call call = BuffersOnly(args, results);
    CALLOUT_RETURN_IF_ERROR(state.returned().Check(call));
    state.returned().Apply(call);
  }
  return state.WithSite([&](TapSite& site) { return Push(frame, site, args, [=] { return device_ordinal; }); });
}

}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateTap);
}

XLA_FFI_Error* callout_v1_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<TapState>(frame, ExecuteTap);
}
