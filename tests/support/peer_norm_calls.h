// All-reduces with normalisation (ops/sequence/peer_norm.h) on one rank, against the sum of the ranks' results on the
// host and the backend's own normalisation. Every bit must agree.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "ops/gemm/matmul_ops.h"
#include "ops/ops.h"
#include "ops/sequence/peer_norm.h"

namespace amdahl::test {

struct PeerNormRank {
  Device& device;
  Ops& ops;
  Communicator& communicator;
  SymmetricHeap& heap;
  Stream& stream;
};

/// Calls of several sizes, without a wait between them; with `graph`, captured once and replayed `replays` times.
class PeerNormCalls {
 public:
  PeerNormCalls(const PeerNormRank& r, const PeerNormSize& size, DType y_type)
      : r_(r), size_(size), y_type_(y_type), norm_(make_peer_norm(r.device, r.heap, size)) {
    gamma_ = upload(values(90, size.width)), beta_ = upload(values(91, size.width));
    for (const int64_t rows : {size.rows, int64_t{1}, (size.rows + 1) / 2, size.rows})
      for (const bool in_place : {false, true}) add_call(rows, in_place);
  }

  void enqueue() {
    for (Call& call : calls_) {
      if (call.args.sum == call.x->data())  // in place: as before the last time
        r_.device.copy_within(r_.stream, call.x->data(), call.kept->data(), call.kept->bytes());
      norm_->forward(r_.stream, call.args);
    }
  }
  /// Memory may be freed afterwards: no rank computes any more.
  void expect_exact() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      Call& call = calls_[i];
      const int64_t count = call.args.rows * size_.width;
      const auto wanted_sum = zeros(count, DType::f32), wanted_y = zeros(count, y_type_);
      const auto mean = zeros(call.args.rows, DType::f32), rstd = zeros(call.args.rows, DType::f32);
      LayerNormForward reference = call.args;
      reference.x = call.kept->as<float>(), reference.delta = call.total->data();
      reference.sum = wanted_sum->as<float>(), reference.y = wanted_y->data();
      reference.mean = mean->as<float>(), reference.rstd = rstd->as<float>();
      r_.ops.norm().layer_norm_forward(r_.stream, reference);
      const std::string what = std::to_string(call.args.rows) + " rows of " + std::to_string(size_.width) + " " +
                               std::string(to_string(size_.type)) + ", call " + std::to_string(i) + ", rank " +
                               std::to_string(r_.communicator.rank());
      EXPECT_TRUE(bytes(call.args.sum, *wanted_sum) == bytes(wanted_sum->data(), *wanted_sum)) << "sum: " << what;
      EXPECT_TRUE(bytes(call.args.y, *wanted_y) == bytes(wanted_y->data(), *wanted_y)) << "y: " << what;
      EXPECT_TRUE(bytes(call.args.mean, *mean) == bytes(mean->data(), *mean)) << "mean: " << what;
      EXPECT_TRUE(bytes(call.args.rstd, *rstd) == bytes(rstd->data(), *rstd)) << "rstd: " << what;
    }
    r_.communicator.barrier(deadline());
  }

 private:
  struct Call {
    LayerNormForward args;
    std::unique_ptr<Buffer> x, kept, delta, total, sum, y, mean, rstd;
  };

  static Deadline deadline() { return Deadline::after_seconds(60); }
  /// Multiples of 1/8 that every type holds exactly; sums of several ranks need rounding in 16 bits.
  static std::vector<float> values(unsigned seed, int64_t count) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> integers(-255, 255);
    std::vector<float> all(static_cast<size_t>(count));
    for (float& value : all) value = static_cast<float>(integers(random)) / 8;
    return all;
  }
  std::unique_ptr<Buffer> zeros(int64_t count, DType type) const {
    auto buffer = r_.device.allocate(static_cast<size_t>(count) * size_of(type));
    r_.device.fill_zero(r_.stream, buffer->data(), buffer->bytes());
    return buffer;
  }
  std::unique_ptr<Buffer> upload(const std::vector<float>& host, DType type = DType::f32) const {
    const auto count = static_cast<int64_t>(host.size());
    auto floats = r_.device.allocate(host.size() * sizeof(float));
    r_.device.copy_in(r_.stream, floats->data(), host.data(), floats->bytes());
    if (type == DType::f32) {
      r_.stream.synchronize(deadline());
      return floats;
    }
    auto typed = r_.device.allocate(host.size() * size_of(type));
    r_.ops.matmul().convert(r_.stream, floats->as<float>(), typed->data(), type, count);
    r_.stream.synchronize(deadline());
    return typed;
  }
  std::vector<char> bytes(const void* data, const Buffer& like) const {
    std::vector<char> host(like.bytes());
    r_.device.copy_out(r_.stream, host.data(), data, host.size());
    r_.stream.synchronize(deadline());
    return host;
  }

  void add_call(int64_t rows, bool in_place) {
    const int64_t count = rows * size_.width;
    const auto seed = static_cast<unsigned>(calls_.size() * 100);
    Call call;
    call.x = upload(values(seed + 50, count)), call.kept = upload(values(seed + 50, count));
    std::vector<float> total(static_cast<size_t>(count), 0.0f);
    for (int rank = 0; rank < r_.communicator.world_size(); ++rank) {
      const std::vector<float> part = values(seed + static_cast<unsigned>(rank), count);
      for (size_t i = 0; i < part.size(); ++i) total[i] += part[i];
      if (rank == r_.communicator.rank()) call.delta = upload(part, size_.type);
    }
    call.total = upload(total, size_.type);
    call.sum = zeros(count, DType::f32), call.y = zeros(count, y_type_);
    call.mean = zeros(rows, DType::f32), call.rstd = zeros(rows, DType::f32);
    call.args.x = call.x->as<float>(), call.args.delta = call.delta->data();
    call.args.sum = in_place ? call.x->as<float>() : call.sum->as<float>();
    call.args.gamma = gamma_->as<float>(), call.args.beta = beta_->as<float>();
    call.args.y = call.y->data(), call.args.mean = call.mean->as<float>(), call.args.rstd = call.rstd->as<float>();
    call.args.rows = rows, call.args.width = size_.width;
    call.args.type = size_.type, call.args.y_type = y_type_;
    calls_.push_back(std::move(call));
  }

  const PeerNormRank r_;
  const PeerNormSize size_;
  const DType y_type_;
  std::unique_ptr<PeerNorm> norm_;
  std::unique_ptr<Buffer> gamma_, beta_;
  std::vector<Call> calls_;
};

}  // namespace amdahl::test
