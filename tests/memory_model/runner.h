// SPDX-License-Identifier: Apache-2.0
//
// Runs a model: all executions with few switches between threads, or a sample of executions with many. A model that
// names orders is also run with weaker orders than in the source, and must then fail.
#pragma once

#include <cstdint>

#include "standard.h"

namespace callout::model {

struct Model {
  const char* name;
  bool (*run)(rl::test_params& params);
  rl::test_params params;
  Weakened notices;  ///< The least weakening that the model must detect; kNothing: not tested.
};

template <typename Suite>
Model MakeModel(const char* name, Weakened notices) {
  Model model = {name, [](rl::test_params& params) { return rl::simulate<Suite>(params); }, {}, notices};
  model.params.execution_depth_limit = 5000;
  model.params.progress_output_period = 1000000;
  return model;
}

/// Runs all executions with at most `switches` forced switches between threads.
template <typename Suite>
Model Searched(const char* name, unsigned switches, Weakened notices) {
  Model model = MakeModel<Suite>(name, notices);
  model.params.search_type = rl::fair_context_bound_scheduler_type;
  model.params.context_bound = switches;
  return model;
}

/// Runs a sample of `executions` executions, by a fixed seed.
template <typename Suite>
Model Sampled(const char* name, unsigned executions, Weakened notices = Weakened::kNothing) {
  Model model = MakeModel<Suite>(name, notices);
  model.params.search_type = rl::random_scheduler_type;
  model.params.iteration_count = executions;
  return model;
}

/// A stream that drops its input without allocating, because Relacy must not see allocations by its own output.
inline std::ostream& Nowhere() {
  static struct : std::streambuf {
    int overflow(int character) override { return character; }
  } buffer;
  static std::ostream stream(&buffer);
  return stream;
}

inline bool Run(const Model& model, Weakened weakened, std::ostream& output, uint64_t& executions) {
  rl::test_params params = model.params;
  params.output_stream = &output;
  params.progress_stream = &Nowhere();
  g_weakened = weakened;
  const bool holds = model.run(params);
  executions = params.stop_iteration;
  return holds;
}

/// Returns true if the model holds and fails when weakened. Prints one line, and the execution that failed.
inline bool Check(const Model& model) {
  uint64_t executions = 0;
  if (!Run(model, Weakened::kNothing, Nowhere(), executions)) {
    std::cout << model.name << ": FAILED" << std::endl;
    (void)Run(model, Weakened::kNothing, std::cout, executions);
    return false;
  }
  std::cout << model.name << ": holds in " << executions << " executions" << std::flush;
  if (model.notices == Weakened::kNothing) return std::cout << std::endl, true;
  const bool holds = Run(model, model.notices, Nowhere(), executions);
  std::cout << (holds ? "; FAILED to notice weaker orders" : "; notices weaker orders") << std::endl;
  return !holds;
}

}  // namespace callout::model
