// Layer normalisation with its all-reduce on the CPU: every rank reads the others' results where they are, a few rows
// at a time, so that their sums stay in the cache.
#include <algorithm>
#include <vector>

#include "device/cpu_stream.h"
#include "ops/cpu_ops.h"
#include "ops/sequence/peer_norm.h"
#include "symmetric/cpu_team.h"

namespace amdahl {
namespace {

/// A rank's copy of its results lives until every rank has come to the next call: slots alternate between two sets, and
/// a rank writes that of call e + 2 after it has heard of call e + 1 from all.
class CpuPeerNorm final : public PeerNorm {
 public:
  CpuPeerNorm(SymmetricHeap& heap, const PeerNormSize& size)
      : PeerNorm(heap, size), team_(std::make_shared<CpuTeam>(heap.memory())) {
    require_f32(size.type, "layer normalisation");
  }

 protected:
  void enqueue(Stream& stream, const LayerNormForward& a) override {
    require_f32(a.y_type, "layer normalisation");
    const size_t sets[2] = {slot(0, 0), slot(1, 0)};
    as_cpu(stream).enqueue([this, a, team = team_, counters = counters_.range.offset, even = sets[0], odd = sets[1]] {
      run(*team, a, team->signal_at(counters), even, odd);
    });
  }

 private:
  void run(CpuTeam& team, const LayerNormForward& a, Signal* signals, size_t even, size_t odd) const {
    const TeamView& view = team.view;
    const uint64_t call = ++signals[kMaxTeamRanks].value;  // of this rank alone
    const size_t offset = call % 2 == 0 ? even : odd;
    std::copy_n(static_cast<const float*>(a.delta), a.rows * a.width, reinterpret_cast<float*>(team.at(offset)));
    for (int step = 1; step < view.size; ++step)
      symmetric_cpu::store_release(symmetric_cpu::peer(view, signals + view.rank, (view.rank + step) % view.size),
                                   call);
    for (int from = 0; from < view.size; ++from)
      if (from != view.rank && !symmetric_cpu::wait_until(view, signals + from, call, from))
        team.fail("an all-reduce with normalisation");
    constexpr int64_t kBlockFloats = 4096;
    const int64_t most = std::max<int64_t>(1, kBlockFloats / a.width);
    std::vector<float> sums(static_cast<size_t>(most * a.width));
    for (int64_t row = 0; row < a.rows; row += most) {
      const int64_t count = std::min(most, a.rows - row) * a.width, at = row * a.width;
      for (int rank = 0; rank < view.size; ++rank) {
        const float* part = reinterpret_cast<const float*>(view.base[rank] + offset) + at;
        if (rank == 0)
          std::copy_n(part, count, sums.begin());
        else
          for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += part[i];
      }
      LayerNormForward block = a;
      block.rows = count / a.width, block.delta = sums.data();
      block.x += at, block.rstd += row;
      if (block.mean) block.mean += row;
      if (block.sum) block.sum += at;
      if (block.y) block.y = static_cast<float*>(block.y) + at;
      kernels_.layer_norm_forward(block);
    }
  }

  const std::shared_ptr<CpuTeam> team_;
  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<PeerNorm> make_cpu_peer_norm(SymmetricHeap& heap, const PeerNormSize& size) {
  return std::make_unique<CpuPeerNorm>(heap, size);
}

}  // namespace amdahl
