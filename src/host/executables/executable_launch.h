// SPDX-License-Identifier: Apache-2.0
//
// The arguments of one execution in the form that the plugin takes, and its outputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "callout/pjrt/executable.h"
#include "core/base/small_buffer.h"
#include "core/callbacks/run_context.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/runners.h"
#include "host/transfers/transfer_streams.h"

namespace callout::pjrt {

struct LoadedExecutable::Launch {
  Launch(const Handle<PJRT_LoadedExecutable>& on_devices, size_t num_devices, size_t num_args, size_t num_outputs)
      : executable(&on_devices),
        inputs(num_devices * num_args),
        outputs(num_devices * num_outputs),
        input_lists(num_devices),
        output_lists(num_devices),
        events(num_devices),
        kept(num_args) {
    std::fill_n(outputs.data(), outputs.size(), nullptr);
    std::fill_n(events.data(), events.size(), nullptr);
    for (size_t i = 0; i < num_devices; ++i) {
      input_lists[i] = inputs.data() + i * num_args;
      output_lists[i] = outputs.data() + i * num_outputs;
    }
  }

  /// The client that owns the outputs.
  const std::shared_ptr<const Client>& client() const { return executable->get_deleter().client; }

  const Handle<PJRT_LoadedExecutable>* executable;  // another one if on another client of the runners; never null
  internal::SmallBuffer<PJRT_Buffer*, 16> inputs, outputs;  // of all devices
  internal::SmallBuffer<PJRT_Buffer* const*, 8> input_lists;
  internal::SmallBuffer<PJRT_Buffer**, 8> output_lists;
  internal::SmallBuffer<PJRT_Event*, 8> events;
  internal::SmallBuffer<int64_t, 16> kept;  // indices of inputs that are not donated
  std::shared_ptr<internal::HostTransferRun> transfers;
  std::shared_ptr<internal::RunContext> context;  // null: none
  internal::Runners::Run runner;
  std::vector<Buffer> borrowed;  // stand for arguments on other devices
};

}  // namespace callout::pjrt
