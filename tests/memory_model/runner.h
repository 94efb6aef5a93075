// SPDX-License-Identifier: Apache-2.0
//
// How a model is run: all executions with few switches between threads, or a sample of those with many. A model
// that names orders is also run with weaker ones than the source has, and must notice.
#pragma once

#include <cstdint>

#include "standard.h"

namespace callout::model {

struct Model {
  const char* name;
  bool (*run)(rl::test_params& params);
  rl::test_params params;
  Weakened notices;  ///< The least that it notices; kNothing: no test of that.
};

template <typename Suite>
Model MakeModel(const char* name, Weakened notices) {
  Model model = {name, [](rl::test_params& params) { return rl::simulate<Suite>(params); }, {}, notices};
  model.params.execution_depth_limit = 5000;
  model.params.progress_output_period = 1000000;
  return model;
}

/// All executions in which threads are switched at most `switches` times where they need not be.
template <typename Suite>
Model Searched(const char* name, unsigned switches, Weakened notices) {
  Model model = MakeModel<Suite>(name, notices);
  model.params.search_type = rl::fair_context_bound_scheduler_type;
  model.params.context_bound = switches;
  return model;
}

/// `executions` of all, by a fixed seed.
template <typename Suite>
Model Sampled(const char* name, unsigned executions, Weakened notices = Weakened::kNothing) {
  Model model = MakeModel<Suite>(name, notices);
  model.params.search_type = rl::random_scheduler_type;
  model.params.iteration_count = executions;
  return model;
}

/// Swallows what it is given, without memory: Relacy's allocator must not see any.
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

/// True if the model holds and, weakened, does not. Prints one line, and the execution that failed.
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
