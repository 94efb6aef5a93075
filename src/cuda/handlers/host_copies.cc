// SPDX-License-Identifier: Apache-2.0
#include "cuda/handlers/host_copies.h"

#include <utility>

#include "cuda/driver/resources.h"

namespace callout::internal {
namespace {

constexpr size_t kAlignment = 256;

size_t RoomFor(std::span<const callout_buffer> buffers) {
  size_t bytes = 0;
  for (const callout_buffer& buffer : buffers) bytes += (buffer.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  return bytes;
}

// Copies the descriptions of buffers, with memory from `at` on.
char* LayOut(std::span<const callout_buffer> buffers, char* at, callout_buffer* out) {
  for (const callout_buffer& buffer : buffers) {
    *out = buffer;
    out++->data = at;
    at += RoomFor({&buffer, 1});
  }
  return at;
}

}  // namespace

size_t HostCopies::Bytes(std::span<const callout_buffer> args, std::span<const callout_buffer> results) {
  return RoomFor(args) + RoomFor(results);
}

HostCopies::HostCopies(cuda::PinnedPool& pool, cuda::CUstream stream, std::string_view subject,
                       std::span<const callout_buffer> args, std::span<const callout_buffer> results)
    : pool_(pool),
      stream_(stream),
      subject_(subject),
      args_(args),
      results_(results),
      host_args_(args.size()),
      host_results_(results.size()) {}

Status HostCopies::In() {
  cuda::ContextScope current(pool_.device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  CALLOUT_ASSIGN_OR_RETURN(cuda::Staging staging,
                           cuda::Staging::Begin(pool_, stream_, Bytes(args_, results_), subject_));
  LayOut(results_, LayOut(args_, staging.data(), host_args_.data()), host_results_.data());
  staging_.emplace(std::move(staging));
  for (size_t i = 0; i < args_.size(); ++i) {
    CALLOUT_RETURN_IF_ERROR(staging_->ToHost(host_args_[i].data, cuda::AddressOf(args_[i].data), args_[i].size_bytes));
  }
  return staging_->Wait();
}

Status HostCopies::Out() {
  // The callback may have made another context current.
  cuda::ContextScope current(pool_.device());
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  for (size_t i = 0; i < results_.size(); ++i) {
    CALLOUT_RETURN_IF_ERROR(
        staging_->ToDevice(cuda::AddressOf(results_[i].data), host_results_[i].data, results_[i].size_bytes));
  }
  staging_.reset();
  return OkStatus();
}

}  // namespace callout::internal
