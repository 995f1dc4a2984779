// The backend "cpu": work items of CPU streams.
#include "device/cpu_stream.h"
#include "symmetric/cpu_team.h"
#include "symmetric/one_sided.h"

namespace amdahl {
namespace {

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
  void abort() noexcept override { team_->end_waits(); }

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
