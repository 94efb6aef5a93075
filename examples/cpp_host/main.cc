// SPDX-License-Identifier: Apache-2.0
//
// Runs a program that was exported from JAX, without Python: cpp_host PROGRAM [PLUGIN].
#include <callout/pjrt/executable.h>

#include <cmath>
#include <cstdio>
#include <string>

using callout::Call;
using callout::Result;
using callout::Status;
namespace pjrt = callout::pjrt;

// A call: the program waits for its result. Steps get smaller as the training goes on.
Status LearningRate(const Call& call) {
  const int32_t step = call.arg<int32_t>(0)[0];
  call.result<float>(0)[0] = step < 10 ? 0.8F : 0.4F;
  return callout::OkStatus();
}

// A tap: the program goes on, and this function gets the values in order on a delivery thread.
Status ShowLoss(const Call& call) {
  std::printf("loss %.6f\n", static_cast<double>(call.arg<float>(0)[0]));
  return callout::OkStatus();
}

Status Run(const std::string& path, const std::string& plugin_path) {
  CALLOUT_ASSIGN_OR_RETURN(const auto plugin, pjrt::Plugin::Load(plugin_path));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, pjrt::Client::Create(plugin));
  const pjrt::Compiler compiler(client);
  pjrt::CompileOptions options;
  for (const pjrt::FunctionCallback& args :
       {pjrt::FunctionCallback("learning_rate", &LearningRate), pjrt::FunctionCallback("loss", &ShowLoss)}) {
    CALLOUT_ASSIGN_OR_RETURN(auto callback, compiler.MakeLoadedHostCallback(args));
    options.loaded_host_callbacks.push_back(std::move(callback));
  }
  CALLOUT_ASSIGN_OR_RETURN(const auto program, pjrt::Program::FromFile(path));
  CALLOUT_ASSIGN_OR_RETURN(const auto train, compiler.Compile(program, options));

  const std::vector<int64_t> dims = {4};
  CALLOUT_ASSIGN_OR_RETURN(const auto start,
                           pjrt::Buffer::FromHost(client, client->devices()[0], dims, std::vector<float>(4)));
  CALLOUT_ASSIGN_OR_RETURN(const auto outputs, train.Run({&start}));
  CALLOUT_RETURN_IF_ERROR(pjrt::BarrierWait());
  CALLOUT_ASSIGN_OR_RETURN(const auto weights, outputs[0].ToVector<float>());
  std::printf("weights %.3f %.3f %.3f %.3f\n", weights[0], weights[1], weights[2], weights[3]);
  return std::abs(weights[3] - 4) < 0.05F ? callout::OkStatus()
                                          : callout::InternalError("the training did not converge");
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s PROGRAM [PLUGIN]\n", argv[0]), 2;
  const Status status = Run(argv[1], argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.c_message());
  return status.ok() ? 0 : 1;
}
