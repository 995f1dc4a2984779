// The backend "cpu": work items of CPU streams.
#include "device/cpu_stream.h"
#include "symmetric/cpu_symmetric.h"
#include "symmetric/one_sided.h"

namespace amdahl {
namespace {

/// State used by queued work items, which share its ownership.
struct CpuTeam {
  explicit CpuTeam(const SymmetricMemory& symmetric) : memory(symmetric), view(memory.view(&report)) {}

  SymmetricMemory memory;
  WaitReport report{};
  TeamView view;

  char* at(size_t offset) const { return view.base[view.rank] + offset; }
  Signal* signal_at(size_t offset) const { return reinterpret_cast<Signal*>(at(offset)); }
  /// The error for an abandoned wait for `what`.
  [[noreturn]] void fail(const char* what) {
    const unsigned missing = std::atomic_ref(report.missing_rank).load(std::memory_order_acquire);
    if (missing == 0)
      throw Error(Cause::interrupted, std::string("a wait for ") + what + " was ended by this process",
                  "look for the first error of the job");
    throw late_rank_error(memory.team, static_cast<int>(missing) - 1, what, memory.timeout_seconds);
  }
};

class CpuOneSided final : public OneSided {
 public:
  explicit CpuOneSided(const SymmetricMemory& memory) : team_(std::make_shared<CpuTeam>(memory)) {}
  std::string_view name() const override { return "cpu"; }

  void put(Stream& stream, size_t offset, const void* local, size_t bytes, int rank) override {
    as_cpu(stream).enqueue([=, team = team_] { symmetric_cpu::put(team->view, team->at(offset), local, bytes, rank); });
  }
  void get(Stream& stream, void* local, size_t offset, size_t bytes, int rank) override {
    as_cpu(stream).enqueue([=, team = team_] { symmetric_cpu::get(team->view, local, team->at(offset), bytes, rank); });
  }
  void signal(Stream& stream, size_t offset, uint64_t value, int rank) override {
    as_cpu(stream).enqueue([=, team = team_] {
      symmetric_cpu::store_release(symmetric_cpu::peer(team->view, team->signal_at(offset), rank), value);
    });
  }
  void signal_wait(Stream& stream, size_t offset, uint64_t value, int from) override {
    as_cpu(stream).enqueue([=, team = team_] {
      if (!symmetric_cpu::wait_until(team->view, team->signal_at(offset), value, from)) team->fail("a signal");
    });
  }
  void fetch_add(Stream& stream, size_t offset, uint64_t value, int rank, uint64_t* old) override {
    as_cpu(stream).enqueue([=, team = team_] {
      auto* to = reinterpret_cast<uint64_t*>(team->at(offset));
      const uint64_t before = symmetric_cpu::fetch_add(team->view, to, value, rank);
      if (old) *old = before;
    });
  }
  void fence(Stream& stream) override {
    as_cpu(stream).enqueue([] { symmetric_cpu::fence(); });
  }
  void quiet(Stream& stream) override {
    as_cpu(stream).enqueue([] { symmetric_cpu::quiet(); });
  }
  void barrier(Stream& stream) override {
    as_cpu(stream).enqueue([team = team_] {
      if (!symmetric_cpu::barrier(team->view)) team->fail("a barrier");
    });
  }
  void abort() noexcept override { std::atomic_ref(team_->report.give_up).store(1, std::memory_order_release); }

 private:
  std::shared_ptr<CpuTeam> team_;
};

}  // namespace

std::unique_ptr<OneSided> make_cpu_one_sided(const SymmetricMemory& memory) {
  return std::make_unique<CpuOneSided>(memory);
}

std::unique_ptr<OneSided> make_one_sided(Device& device, const SymmetricMemory& memory) {
  if (device.backend() == BackendKind::cpu) return make_cpu_one_sided(memory);
  return make_cuda_p2p_one_sided(device, memory);
}

}  // namespace amdahl
