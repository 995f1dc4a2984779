// Executes the calls of a communicator in symmetric memory as work items of CPU streams.
#include "device/cpu_stream.h"
#include "symmetric/cpu_channels.h"
#include "symmetric/cpu_collectives.h"
#include "symmetric/symmetric_executor.h"

namespace amdahl {
namespace {

/// State used by queued work, which may outlive the executor.
struct CpuGroup {
  CpuGroup(const SymmetricMemory& memory, std::shared_ptr<Communicator> control, const RankGroup& job,
           const SymmetricOptions& options)
      : rounds(memory, std::move(control), job, options.first_epoch), collectives(rounds, options), channels(rounds) {}

  CpuRounds rounds;
  CpuCollectives collectives;
  CpuChannels channels;
};

class CpuExecutor final : public SymmetricExecutor {
 public:
  CpuExecutor(const SymmetricMemory& memory, const std::shared_ptr<Communicator>& control, const RankGroup& job,
              const SymmetricOptions& options)
      : SymmetricExecutor(control, job), group_(std::make_shared<CpuGroup>(memory, control, job, options)) {}

  void run(Stream& stream, const CollectiveCall& call, const void* send, void* recv, const FlightNote& note) override {
    as_cpu(stream).enqueue([group = group_, call, send, recv, note] {
      group->collectives.run(call, send, recv);
      note.finished();
    });
  }
  void send(Stream& stream, const CollectiveCall& call, const void* data, const FlightNote& note) override {
    as_cpu(stream).enqueue([group = group_, call, data, note] {
      group->channels.send(call, data);
      note.finished();
    });
  }
  void receive(Stream& stream, const CollectiveCall& call, void* data, const FlightNote& note) override {
    as_cpu(stream).enqueue([group = group_, call, data, note] {
      group->channels.receive(call, data);
      note.finished();
    });
  }
  void send_receive(Stream& stream, const CollectiveCall& out, const void* data, const CollectiveCall& in,
                    void* received, const FlightNote& note) override {
    as_cpu(stream).enqueue([group = group_, out, in, data, received, note] {
      group->channels.send_receive(out, data, in, received);
      note.finished();
    });
  }
  void abort() noexcept override { group_->rounds.abort(); }
  void throw_if_failed() override { group_->rounds.throw_if_failed(); }
  void set_timeout(double seconds) override {
    SymmetricExecutor::set_timeout(seconds);
    group_->rounds.set_timeout(seconds);
  }
  double timeout_seconds() const override { return group_->rounds.timeout_seconds(); }

 private:
  const std::shared_ptr<CpuGroup> group_;
};

}  // namespace

size_t cpu_collective_bytes(int world) { return CollectiveLayout(world).bytes(); }

std::unique_ptr<SymmetricExecutor> make_cpu_executor(const SymmetricMemory& memory,
                                                     const std::shared_ptr<Communicator>& control, const RankGroup& job,
                                                     const SymmetricOptions& options) {
  return std::make_unique<CpuExecutor>(memory, control, job, options);
}

}  // namespace amdahl
