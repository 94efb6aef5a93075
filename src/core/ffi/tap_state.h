// SPDX-License-Identifier: Apache-2.0
//
// What a tap of an executable is, on every platform: its site, and how its operands are to be read.
// tap_state.cc has the handlers of taps on CPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/attributes/site_attributes.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/binding_scope.h"
#include "core/delivery/delivery.h"
#include "core/ffi/aliases.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

class TapState : public SiteState {
 public:
  TapState(std::unique_ptr<TapSite> site, const TapAttributes& said)
      : site_(std::move(site)),
        returned_(Aliases::InTurn(said.returned)),
        num_returned_(said.returned.size()),
        deferred_(said.deferred),
        threaded_(said.threaded),
        device_(BindingScope::Device()) {}
  // Records of this site may still be queued: it follows them out.
  ~TapState() override { Delivery::Get().Retire(std::move(site_)); }
  TapSite& site() const { return *site_; }
  bool deferred() const { return deferred_; }
  bool threaded() const { return threaded_; }
  /// Results that are operands. They come after the token, and before what `deferred` adds.
  const Aliases& returned() const { return returned_; }
  size_t num_results() const { return num_returned_ + (threaded_ ? 1U : 0U) + (deferred_ ? 1U : 0U); }
  int32_t device(XLA_FFI_CallFrame* frame) const { return device_ >= 0 ? device_ : DeviceOrdinal(frame); }

 private:
  std::unique_ptr<TapSite> site_;
  const Aliases returned_;
  const size_t num_returned_;
  const bool deferred_;
  const bool threaded_;
  const int32_t device_;  // -1: what the runtime tells
};

/// The site of a tap. Errors: those of its callback's name, and InvalidArgument for what the callback does not take.
Result<std::unique_ptr<TapSite>> MakeCheckedTapSite(const TapAttributes& said);

/// Makes the results that are operands, and sends the value, of buffers without a token. `device_ordinal`: the device
/// that is said to send it.
Status RunTap(XLA_FFI_CallFrame* frame, const TapState& state, std::span<const callout_buffer> args,
              std::span<const callout_buffer> results, int32_t device_ordinal);

/// InvalidArgument if a tap has another number of results than what its attributes say: nobody would write them.
Status CheckTapResults(size_t count, const TapState& state);

/// A call of which `Aliases` look at the buffers. Borrowed: valid as long as they are.
callout_call BuffersOnly(std::span<const callout_buffer> args, std::span<const callout_buffer> results);

/// The operands of a tap, without its token. Borrowed: valid as long as the operands, and not to be copied.
class TapOperands {
 public:
  /// `count`: how many operands there are.
  TapOperands(const TapSite& site, size_t count) : without_step_(site.info.has_step ? count : 0) {}

  /// InvalidArgument if they are not what the site has.
  Status Split(const TapSite& site, std::span<const callout_buffer> args);

  /// The value, and its offsets if it has some.
  std::span<const callout_buffer> value() const { return value_; }
  /// An array of integers that is no part of the value; null if the site has none. Under vmap the first one counts.
  const callout_buffer* step() const { return step_; }

 private:
  std::span<const callout_buffer> value_;
  const callout_buffer* step_ = nullptr;
  SmallBuffer<callout_buffer, 16> without_step_;  // in an optional, GCC would clear all of it in each tap
};

}  // namespace callout::internal
