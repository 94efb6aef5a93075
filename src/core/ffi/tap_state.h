// SPDX-License-Identifier: Apache-2.0
//
// The state of a tap of an executable on every platform: its site, and how its operands are read. tap_state.cc has the
// handlers of taps on CPUs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/attributes/site_attributes.h"
#include "core/base/hazard.h"
#include "core/base/small_buffer.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "core/ffi/aliases.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal {

/// Makes a site for records of `callback`. InvalidArgument for values that the callback does not accept.
Result<std::unique_ptr<TapSite>> MakeCheckedTapSite(std::shared_ptr<Callback> callback,
                                                    const TapAttributes& attributes);

class TapState : public SiteState {
 public:
  /// Makes the state. `name`: null, or the name whose callback gets the records of `site`; the name may be bound to
  /// another callback during the life of the program.
  TapState(std::unique_ptr<TapSite> site, std::shared_ptr<const RegisteredName> name, const TapAttributes& attributes)
      : site_(site.release()),
        name_(std::move(name)),
        label_(site_.load(std::memory_order_relaxed)->info.label),
        attributes_(name_ == nullptr ? nullptr : std::make_unique<OwnedAttributes>(attributes)),
        returned_(Aliases::InTurn(attributes.returned)),
        num_returned_(attributes.returned.size()),
        deferred_(attributes.deferred),
        threaded_(attributes.threaded),
        device_(BindingScope::Device()) {}
  ~TapState() override;

  /// Calls `use(site)`, which returns a Status, with the site of the name's current callback. The site lives during the
  /// call.
  template <typename Use>
  Status WithSite(Use&& use) const {
    if (name_ == nullptr) [[likely]]
      return use(*site_.load(std::memory_order_relaxed));
    for (;;) {
      {
        TapSite* site = nullptr;
        const Hazard hazard = Hazard::Of(site_, site);
        if (name_->IsOf(*site->callback)) [[likely]]
          return use(*site);
      }
      CALLOUT_RETURN_IF_ERROR(Turn());
    }
  }
  /// Returns the tap's name in errors.
  const std::string& label() const { return label_; }
  bool deferred() const { return deferred_; }
  bool threaded() const { return threaded_; }
  /// Returns the pairs of results that are operands. These results come after the token, and before the status of
  /// `deferred`.
  const Aliases& returned() const { return returned_; }
  size_t num_results() const { return num_returned_ + (threaded_ ? 1U : 0U) + (deferred_ ? 1U : 0U); }
  int32_t device(XLA_FFI_CallFrame* frame) const { return device_ >= 0 ? device_ : DeviceOrdinal(frame); }

 private:
  // A copy of the tap's attributes, for the sites of later callbacks of the name.
  struct OwnedAttributes {
    explicit OwnedAttributes(const TapAttributes& attributes);
    const std::string label, leaves;
    TapAttributes view;
  };

  /// Makes a site for the current callback of the name. InvalidArgument if the callback does not accept the tap.
  Status Turn() const;

  mutable std::atomic<TapSite*> site_;  // owned
  const std::shared_ptr<const RegisteredName> name_;
  const std::string label_;
  const std::unique_ptr<const OwnedAttributes> attributes_;  // null without a name
  mutable Mutex turning_;
  mutable std::vector<std::unique_ptr<TapSite>> left_ CALLOUT_GUARDED_BY(turning_);  // may still be read
  const Aliases returned_;
  const size_t num_returned_;
  const bool deferred_;
  const bool threaded_;
  const int32_t device_;  // -1: the runtime's
};

/// Makes the state of a tap, a TapState or a class derived from it. Errors: those of finding the callback by its name,
/// and InvalidArgument for values that the callback does not accept.
template <typename State>
Result<std::unique_ptr<State>> MakeTapState(const TapAttributes& attributes) {
  CALLOUT_ASSIGN_OR_RETURN(BoundCallback bound, Registry::Get().FindBound(attributes.callback, attributes.names));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<TapSite> site, MakeCheckedTapSite(std::move(bound.callback), attributes));
  return std::make_unique<State>(std::move(site), std::move(bound.name), attributes);
}

/// Copies the results that are operands, and sends the value, from buffers without a token. `device_ordinal` is the
/// device of the record.
Status RunTap(XLA_FFI_CallFrame* frame, const TapState& state, std::span<const callout_buffer> args,
              std::span<const callout_buffer> results, int32_t device_ordinal);

/// Returns InvalidArgument if a tap has another number of results than its attributes declare: nobody would write the
/// others.
Status CheckTapResults(size_t count, const TapState& state);

/// Returns a call for `Aliases`, which only read the buffers. Borrowed: valid as long as the buffers.
callout_call BuffersOnly(std::span<const callout_buffer> args, std::span<const callout_buffer> results);

/// The operands of a tap, without its token. Borrowed: valid as long as the operands. Must not be copied.
class TapOperands {
 public:
  /// Makes room for `count` operands.
  TapOperands(const TapSite& site, size_t count) : without_step_(site.info.has_step ? count : 0) {}

  /// Splits the operands. InvalidArgument if they do not fit the site.
  Status Split(const TapSite& site, std::span<const callout_buffer> args);

  /// Returns the value, and its offsets if the site has them.
  std::span<const callout_buffer> value() const { return value_; }
  /// Returns the step, an array of integers that is no part of the value; null if the site has none. Under vmap, the
  /// first integer is the step.
  const callout_buffer* step() const { return step_; }

 private:
  std::span<const callout_buffer> value_;
  const callout_buffer* step_ = nullptr;
  SmallBuffer<callout_buffer, 16> without_step_;  // in an optional, GCC would clear all of it in each tap
};

}  // namespace callout::internal
