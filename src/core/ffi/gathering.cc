// SPDX-License-Identifier: Apache-2.0
#include "core/ffi/gathering.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "callout/dtype.h"
#include "core/attributes/decode.h"
#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "core/base/status.h"
#include "core/callbacks/rendezvous.h"
#include "core/ffi/call_site.h"
#include "core/ffi/failed_run.h"
#include "core/ffi/handlers.h"
#include "core/ffi/tap_state.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"
#include "core/frame/ffi_abi.h"
#include "core/frame/handler.h"

namespace callout::internal {
namespace {

constexpr uint64_t kAlignment = 64;                 // alignment of XLA's own buffers
constexpr uint64_t kMostBytes = uint64_t{1} << 62;  // sums of a few such sizes do not overflow

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

uint64_t ElementBytes(const callout_buffer& buffer) {
  return static_cast<uint64_t>(RowOf(static_cast<DType>(buffer.dtype)).bits) / 8;
}

// Copies a part of an array to its place, `begin`, in the whole. `whole` and `part` have elements of the same size.
void CopyPart(std::byte* whole, std::span<const int64_t> whole_dims, const std::byte* part,
              std::span<const int64_t> part_dims, const int64_t* begin, uint64_t element_bytes) {
  uint64_t run = element_bytes;  // bytes that are contiguous in both
  size_t rank = part_dims.size();
  while (rank > 0 && part_dims[rank - 1] == whole_dims[rank - 1]) run *= static_cast<uint64_t>(part_dims[--rank]);
  if (rank == 0) {
    std::memcpy(whole, part, run);
    return;
  }
  const uint64_t row = run * static_cast<uint64_t>(part_dims[rank - 1]);
  std::vector<int64_t> index(rank - 1, 0);
  for (;; part += row) {
    uint64_t place = 0;
    for (size_t i = 0; i < rank; ++i) {
      place = place * static_cast<uint64_t>(whole_dims[i]) +
              static_cast<uint64_t>(begin[i] + (i + 1 < rank ? index[i] : 0));
    }
    std::memcpy(whole + place * run, part, row);
    size_t axis = rank - 1;
    while (axis > 0 && ++index[axis - 1] == part_dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

Result<int32_t> TakePlace(std::span<const callout_buffer>* args) {
  if (args->empty() || args->back().dtype != static_cast<uint32_t>(DType::kUint32) || args->back().rank != 0) {
    return InvalidArgument("callout: a gathered call's last operand must be its device's place, u32[], got " +
                           (args->empty() ? std::string("nothing") : ShapeString(args->back())));
  }
  uint32_t place = 0;
  std::memcpy(&place, args->back().data, sizeof(place));
  *args = args->first(args->size() - 1);
  return static_cast<int32_t>(std::min<uint32_t>(place, INT32_MAX));
}

Status NoPlan(const std::string& name, const std::string& why) {
  return InvalidArgument("callout: callback '" + name + "': attribute `shards` " + why);
}

// Returns the devices with different parts: devices whose parts begin at the same place have the same part. `begin_of`
// returns where a device's part begins.
template <typename BeginOf>
std::vector<std::pair<size_t, const int64_t*>> FindParts(size_t num_devices, size_t rank, const BeginOf& begin_of) {
  std::vector<std::pair<size_t, const int64_t*>> parts;
  parts.reserve(num_devices);
  for (size_t device = 0; device < num_devices; ++device) parts.emplace_back(device, begin_of(device));
  std::stable_sort(parts.begin(), parts.end(), [rank](const auto& one, const auto& other) {
    return std::lexicographical_compare(one.second, one.second + rank, other.second, other.second + rank);
  });
  const auto same = [rank](const auto& one, const auto& other) {
    return std::equal(one.second, one.second + rank, other.second);
  };
  parts.erase(std::unique(parts.begin(), parts.end(), same), parts.end());
  return parts;
}

// Returns whether parts of these extents, all at different places, fill a whole of `dims` without gaps or overlaps.
bool FillWhole(std::span<const std::pair<size_t, const int64_t*>> parts, std::span<const int64_t> extents,
               std::span<const int64_t> dims) {
  uint64_t places = 1;  // number of places; it stays below parts.size(), so products of extents do not overflow
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0 ? dims[i] != 0 : dims[i] % extents[i] != 0) return false;
    for (const auto& [device, begin] : parts) {
      if (extents[i] != 0 && begin[i] % extents[i] != 0) return false;
    }
    const uint64_t along = extents[i] == 0 ? 1 : static_cast<uint64_t>(dims[i] / extents[i]);
    if (__builtin_mul_overflow(places, along, &places) || places > parts.size()) return false;
  }
  return places == parts.size();
}

}  // namespace

std::byte* Gathering::Memory::begin() const {
  const auto address = reinterpret_cast<uintptr_t>(bytes.get());
  return bytes.get() + (Aligned(address) - address);
}

Status Gathering::Decode(const RendezvousAttributes& attributes, std::string name) {
  if (attributes.caller >= attributes.devices) {
    return InvalidArgument(Cat("callout: callback '", name, "': attribute `caller` is ", attributes.caller,
                               ", and there are ", attributes.devices, " devices"));
  }
  caller_ = static_cast<size_t>(attributes.caller);
  shards_.assign(attributes.shards.begin(), attributes.shards.end());
  place_ = std::make_shared<RendezvousSite>(std::move(name), static_cast<size_t>(attributes.devices));
  return OkStatus();
}

Status Gathering::PlanOperand(size_t operand, const callout_buffer& arg, size_t column, size_t width) const {
  const std::string& name = place_->name();
  const std::span<const int64_t> extents(arg.dims, arg.rank);
  Spread spread = {operand, {extents.begin(), extents.end()}, total_bytes_, ElementBytes(arg), {}};
  spread.parts = FindParts(place_->num_devices(), arg.rank,
                           [&](size_t device) { return shards_.data() + device * width + column; });
  for (const auto& [device, begin] : spread.parts) {
    for (size_t i = 0; i < arg.rank; ++i) {
      int64_t end = 0;
      if (begin[i] < 0 || __builtin_add_overflow(begin[i], extents[i], &end)) {
        return NoPlan(name, Cat("has a place of operand ", operand, " that there is not"));
      }
      spread.dims[i] = std::max(spread.dims[i], end);
    }
  }
  const bool all_have_it = spread.parts.size() == 1;
  if (!all_have_it && spread.size_bytes == 0)
    return NoPlan(name, "spreads " + ShapeString(arg) + ", elements of less than a byte");
  for (const int64_t extent : spread.dims) {
    if (__builtin_mul_overflow(spread.size_bytes, static_cast<uint64_t>(extent), &spread.size_bytes) ||
        spread.size_bytes > kMostBytes) {
      return NoPlan(name, Cat("makes operand ", operand, " too large"));
    }
  }
  if (!FillWhole(spread.parts, extents, spread.dims)) {
    return NoPlan(name, Cat("leaves gaps in operand ", operand, ", or its parts overlap"));
  }
  if (all_have_it) return OkStatus();
  total_bytes_ += Aligned(spread.size_bytes);  // both terms are at most kMostBytes
  if (total_bytes_ > kMostBytes) return NoPlan(name, "makes the operands too large");
  spread_.push_back(std::move(spread));
  return OkStatus();
}

Status Gathering::Plan(std::span<const callout_buffer> args) const {
  spread_.clear();  // not empty if memory ran out in an earlier Plan
  total_bytes_ = 0;
  if (shards_.empty()) return OkStatus();
  size_t width = 0;
  for (const callout_buffer& arg : args) width += arg.rank;
  if (shards_.size() != width * place_->num_devices()) {
    return NoPlan(place_->name(), Cat("has ", shards_.size(), " numbers; the operands have ", width, " dimensions, on ",
                                      place_->num_devices(), " devices"));
  }
  size_t column = 0;
  for (size_t i = 0; i < args.size(); column += args[i++].rank) {
    CALLOUT_RETURN_IF_ERROR(PlanOperand(i, args[i], column, width));
  }
  return OkStatus();
}

std::unique_ptr<Gathering::Memory> Gathering::TakeMemory() const {
  // The exchange pairs with the one in Make.
  std::unique_ptr<Memory> memory(memory_.exchange(nullptr, std::memory_order_acq_rel));
  if (memory == nullptr) {
    memory = std::make_unique<Memory>(Memory{std::make_unique_for_overwrite<std::byte[]>(total_bytes_ + kAlignment)});
  }
  return memory;
}

Status Gathering::PutTogether(const Rendezvous& rendezvous, const Memory& memory,
                              std::span<callout_buffer> args) const {
  for (const Spread& spread : spread_) {
    callout_buffer& arg = args[spread.operand];
    std::byte* const whole = memory.begin() + spread.begin;
    if (spread.size_bytes > 0 && arg.size_bytes > 0) {
      for (const auto& [device, begin] : spread.parts) {
        CopyPart(whole, spread.dims,
                 static_cast<const std::byte*>(rendezvous.participants()[device].args[spread.operand]),
                 {arg.dims, arg.rank}, begin, ElementBytes(arg));
      }
    }
    arg.data = whole;
    arg.dims = spread.dims.data();
    arg.size_bytes = spread.size_bytes;
  }
  return OkStatus();
}

Status Gathering::Make(const Rendezvous& rendezvous, std::span<const callout_buffer> args,
                       std::span<const callout_buffer> results,
                       const std::function<Status(const Gathered&)>& make) const {
  std::call_once(planned_, [&] { unplanned_ = Plan(args); });
  if (!unplanned_.ok()) return unplanned_;
  SmallBuffer<callout_buffer, 16> whole(args.size());
  std::copy(args.begin(), args.end(), whole.data());
  std::unique_ptr<Memory> memory;
  if (!spread_.empty()) {
    memory = TakeMemory();
    CALLOUT_RETURN_IF_ERROR(PutTogether(rendezvous, *memory, {whole.data(), whole.size()}));
  }
  Status status = make({{whole.data(), whole.size()}, results, rendezvous.participants()[caller_].device_ordinal});
  if (memory != nullptr) delete memory_.exchange(memory.release(), std::memory_order_acq_rel);
  if (!status.ok()) return status;
  for (const Rendezvous::ParticipantBuffers& buffers : rendezvous.participants()) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (buffers.results[i] == results[i].data || results[i].size_bytes == 0) continue;
      std::memcpy(buffers.results[i], results[i].data, results[i].size_bytes);
    }
  }
  return OkStatus();
}

Status Gathering::Meet(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> args,
                       std::span<const callout_buffer> results,
                       const std::function<Status(const Gathered&)>& make) const {
  CALLOUT_ASSIGN_OR_RETURN(const int32_t index, TakePlace(&args));
  CALLOUT_ASSIGN_OR_RETURN(const RendezvousSite::Joined joined,
                           place_->Join({index, DeviceOrdinal(frame), RunId(frame), args, results}));
  const std::shared_ptr<Rendezvous>& rendezvous = joined.rendezvous;
  if (joined.is_last) {
    rendezvous->End(Guarded([&] { return Make(*rendezvous, args, results, make); }));
    return rendezvous->outcome();
  }
  if (rendezvous->WaitBriefly()) return rendezvous->outcome();
  Result<Future> future = Future::Promise(frame);
  if (!future.ok()) {  // without a future nobody could report the outcome to this device
    return rendezvous->GiveUp(future.status()) ? future.status() : rendezvous->AwaitOutcome();
  }
  // The frame has its future, so from here on only the future may report an error.
  bool will_be_called = false;
  try {
    will_be_called = rendezvous->CallLater([end = *future](const Status& outcome) { end.End(outcome); });
  } catch (...) {
    (void)rendezvous->GiveUp(CaughtStatus());
    (void)rendezvous->AwaitOutcome();
  }
  if (!will_be_called) future->End(rendezvous->outcome());
  return OkStatus();
}

namespace {

struct GatheredCallState final : SiteState {
  CallSite site;
  Gathering gathering;
};

struct GatheredTapState final : TapState {
  using TapState::TapState;
  Gathering gathering;
};

Status InstantiateGatheredCall(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto attributes, DecodeAttributes<GatheredCallAttributes>(frame->attrs));
  auto state = std::make_unique<GatheredCallState>();
  CALLOUT_RETURN_IF_ERROR(state->site.Decode(attributes));
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(attributes, state->site.label()));
  return KeepState(frame, std::move(state));
}

Status InstantiateGatheredTap(XLA_FFI_CallFrame* frame) {
  CALLOUT_ASSIGN_OR_RETURN(const auto attributes, DecodeAttributes<GatheredTapAttributes>(frame->attrs));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<GatheredTapState> state, MakeTapState<GatheredTapState>(attributes));
  CALLOUT_RETURN_IF_ERROR(state->gathering.Decode(attributes, state->label()));
  return KeepState(frame, std::move(state));
}

Status ExecuteGatheredCall(XLA_FFI_CallFrame* frame, const GatheredCallState& state) {
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.DecodeOnHost(frame, state.site.threaded()));
  return state.gathering.Meet(frame, operands.args(), operands.results(), [&](const Gathered& whole) {
    return state.site.Run(frame, whole.args, whole.results, whole.device_ordinal);
  });
}

Status ExecuteGatheredTap(XLA_FFI_CallFrame* frame, const GatheredTapState& state) {
  CallOperands operands(frame);
  CALLOUT_RETURN_IF_ERROR(operands.DecodeOnHost(frame, state.threaded()));
  return state.gathering.Meet(frame, operands.args(), operands.results(), [&](const Gathered& whole) {
    CALLOUT_RETURN_IF_ERROR(CheckTapResults(whole.results.size() + (state.threaded() ? 1U : 0U), state));
    const Status status = RunTap(frame, state, whole.args, whole.results, whole.device_ordinal);
    return state.deferred() ? Defer(status, whole.results) : status;
  });
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // the handlers are C symbols

XLA_FFI_Error* callout_v1_gathered_call_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateGatheredCall);
}

XLA_FFI_Error* callout_v1_gathered_call_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<GatheredCallState>(frame, ExecuteGatheredCall);
}

XLA_FFI_Error* callout_v1_gathered_tap_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateGatheredTap);
}

XLA_FFI_Error* callout_v1_gathered_tap_execute(XLA_FFI_CallFrame* frame) noexcept {
  return RunWithState<GatheredTapState>(frame, ExecuteGatheredTap);
}
