// Loops of one-sided operations as work items of CPU streams.
#include <algorithm>
#include "device/cpu_stream.h"

#include "symmetric/cpu_team.h"
#include "symmetric/one_sided_loops.h"

namespace amdahl {
namespace {

namespace sym = symmetric_cpu;

/// Ranks 0 and 1 in turn; each waits for the other's signal.
void ping_pong(CpuTeam& team, const LoopCall& call, size_t bytes) {
  const TeamView& view = team.view;
  if (view.rank > 1) return;
  const int other = 1 - view.rank;
  Signal* signals = team.signal_at(call.signals);
  Signal* mine = signals + view.rank;
  for (int64_t i = 1; i <= call.times; ++i) {
    const uint64_t value = call.first_signal + static_cast<uint64_t>(i);
    if (view.rank == 1 && !sym::wait_until(view, mine, value, other)) team.fail("a signal");
    sym::put_signal(view, team.at(call.inbox), team.at(call.outbox), bytes, signals + other, value, other);
    if (view.rank == 0 && !sym::wait_until(view, mine, value, other)) team.fail("a signal");
  }
}

void from_rank_zero(CpuTeam& team, const LoopCall& call) {
  constexpr size_t kParts = 8;
  const TeamView& view = team.view;
  if (view.rank != 0) return;
  char *out = team.at(call.outbox), *in = team.at(call.inbox);
  auto* counter = reinterpret_cast<uint64_t*>(team.at(call.counter));
  const size_t part = (call.bytes + kParts - 1) / kParts;
  for (int64_t i = 0; i < call.times; ++i) switch (call.kind) {
      case LoopKind::put:
        sym::put(view, in, out, call.bytes, 1);
        sym::quiet();
        break;
      case LoopKind::get:
        sym::get(view, in, out, call.bytes, 1);
        break;
      case LoopKind::fetch_add:
        sym::fetch_add(view, counter, 1, 1);
        break;
      case LoopKind::put_fence:
        sym::put(view, in, out, call.bytes, 1);
        sym::fence();
        break;
      default:
        for (size_t done = 0; done < call.bytes; done += part)
          sym::put(view, in + done, out + done, std::min(part, call.bytes - done), 1);
        sym::quiet();
    }
}

void run_loop(CpuTeam& team, const LoopCall& call) {
  // CPUs need no packets: their stores are ordered.
  if (call.kind == LoopKind::put_signal || call.kind == LoopKind::put_packets) return ping_pong(team, call, call.bytes);
  if (call.kind == LoopKind::signal) return ping_pong(team, call, 0);
  if (call.kind == LoopKind::contended_add) {
    auto* counter = reinterpret_cast<uint64_t*>(team.at(call.counter));
    for (int64_t i = 0; i < call.times; ++i) sym::fetch_add(team.view, counter, 1, 0);
    return;
  }
  if (call.kind != LoopKind::barrier) return from_rank_zero(team, call);
  for (int64_t i = 0; i < call.times; ++i)
    if (!sym::barrier(team.view)) team.fail("a barrier");
}

class CpuOneSidedLoops final : public OneSidedLoops {
 public:
  explicit CpuOneSidedLoops(const SymmetricMemory& memory) : team_(std::make_shared<CpuTeam>(memory)) {}
  void enqueue(Stream& stream, const LoopCall& call) override {
    as_cpu(stream).enqueue([team = team_, call] { run_loop(*team, call); });
  }
  void abort() noexcept override { team_->end_waits(); }

 private:
  std::shared_ptr<CpuTeam> team_;
};

}  // namespace

std::unique_ptr<OneSidedLoops> make_one_sided_loops(Device& device, const SymmetricMemory& memory) {
  if (device.backend() == BackendKind::cpu) return std::make_unique<CpuOneSidedLoops>(memory);
  return make_cuda_one_sided_loops(device, memory);
}

}  // namespace amdahl
