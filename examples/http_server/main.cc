// SPDX-License-Identifier: Apache-2.0
//
// Serves a model from JAX over HTTP, without Python: http_server PROGRAM [PLUGIN]. It prints its port, and ends when
// its standard input does.
//   POST /score    "USER X1 ... X8" -> the score
//   GET  /metrics  text for Prometheus: what Callout counts, and the scores that the program's tap saw
#include <callout/pjrt/executable.h>
#include <httplib.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>

#include "batcher.h"

using callout::Call;
using callout::Status;
namespace pjrt = callout::pjrt;

// A histogram in Prometheus' format.
class Scores {
 public:
  // A tap: the program goes on, and this function gets the values on a delivery thread.
  Status See(const Call& call) {
    for (const float score : call.arg<float>(0)) {
      for (size_t i = 0; i < std::size(kLimits); ++i) below_[i] += score <= kLimits[i] ? 1 : 0;
      ++count_;
    }
    return callout::OkStatus();
  }
  std::string Text() const {
    std::ostringstream text;
    text << "# TYPE score histogram\n";
    for (size_t i = 0; i < std::size(kLimits); ++i)
      text << "score_bucket{le=\"" << kLimits[i] << "\"} " << below_[i] << "\n";
    text << "score_bucket{le=\"+Inf\"} " << count_ << "\nscore_count " << count_ << "\n";
    return text.str();
  }

 private:
  static constexpr float kLimits[] = {1, 2, 4, 8};
  std::atomic<int64_t> below_[std::size(kLimits)] = {};
  std::atomic<int64_t> count_{0};
};

// A call: returns data that the program does not have. A real server would ask a database here.
Status VarianceOf(const Call& call) {
  const auto users = call.arg<int32_t>(0);
  const auto variances = call.result<float>(0);
  for (int64_t i = 0; i < users.size(); ++i) variances[i] = 1.0F + 0.1F * static_cast<float>(users[i] % 10);
  return callout::OkStatus();
}

Status Serve(Batcher& batcher, const Scores& scores) {
  httplib::Server server;
  server.Post("/score", [&](const httplib::Request& request, httplib::Response& response) {
    std::istringstream text(request.body);
    Query query{};
    text >> query.user;
    for (float& value : query.vector) text >> value;
    if (!text) {
      response.status = 400;
      response.set_content("expected 'USER X1 ... X8'\n", "text/plain");
      return;
    }
    const callout::Result<float> score = batcher.Ask(query);
    if (!score.ok()) response.status = 500;
    response.set_content(score.ok() ? std::to_string(*score) : score.status().ToString(), "text/plain");
  });
  server.Get("/metrics", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(pjrt::PrometheusText() + scores.Text(), "text/plain; version=0.0.4");
  });
  server.set_tcp_nodelay(true);
  const int port = server.bind_to_any_port("127.0.0.1");
  if (port < 0) return callout::InternalError("cannot listen on 127.0.0.1");
  std::printf("port %d\n", port);
  std::fflush(stdout);
  std::atomic<bool> has_ended{false};
  std::thread until_input_ends([&server, &has_ended] {
    while (std::getchar() != EOF) {
    }
    while (!server.is_running() && !has_ended) std::this_thread::yield();  // before it runs, stop does nothing
    server.stop();
  });
  const bool has_listened = server.listen_after_bind();
  has_ended = true;
  until_input_ends.join();
  return has_listened ? callout::OkStatus() : callout::InternalError("cannot listen any more");
}

Status Run(const std::string& path, const std::string& plugin_path) {
  const auto scores = std::make_shared<Scores>();
  CALLOUT_ASSIGN_OR_RETURN(const auto plugin, pjrt::Plugin::Load(plugin_path));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, pjrt::Client::Create(plugin));
  const pjrt::Compiler compiler(client);
  pjrt::CompileOptions options;
  for (const pjrt::FunctionCallback& args :
       {pjrt::FunctionCallback("variance", &VarianceOf),
        pjrt::FunctionCallback("scores", [scores](const Call& call) { return scores->See(call); })}) {
    CALLOUT_ASSIGN_OR_RETURN(auto callback, compiler.MakeLoadedHostCallback(args));
    options.loaded_host_callbacks.push_back(std::move(callback));
  }
  CALLOUT_ASSIGN_OR_RETURN(const auto program, pjrt::Program::FromFile(path));
  CALLOUT_ASSIGN_OR_RETURN(auto executable, compiler.Compile(program, options));
  CALLOUT_ASSIGN_OR_RETURN(const auto batcher, Batcher::Make(client, std::move(executable)));
  CALLOUT_RETURN_IF_ERROR(Serve(*batcher, *scores));
  return pjrt::BarrierWait();
}

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s PROGRAM [PLUGIN]\n", argv[0]), 2;
  const Status status = Run(argv[1], argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.c_message());
  return status.ok() ? 0 : 1;
}
