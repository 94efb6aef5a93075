// SPDX-License-Identifier: Apache-2.0
//
// Checks the lock-free parts of src/ with Relacy (Vyukov, 2008), which executes them in every order that the memory
// model of C++ allows, within bounds. Usage: memory_model [TIMES], which multiplies the number of sampled executions by
// TIMES.
#include "delivery_models.h"
#include "protocol_models.h"
#include "queue_models.h"

int main(int argc, char** argv) {
  using namespace callout::model;  // NOLINT: the program has no other names
  std::vector<Model> models;
  AddQueueModels(models);
  AddDeliveryModels(models);
  AddProtocolModels(models);
  const unsigned more = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  int failed = 0;
  for (Model& model : models) {
    model.params.iteration_count *= more;
    failed += Check(model) ? 0 : 1;
  }
  return failed == 0 ? 0 : 1;
}
