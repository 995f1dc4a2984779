// What executes the calls of a communicator in symmetric memory on one rank: CPU work items, or kernels.
#pragma once

#include <memory>

#include "comm/collective_call.h"
#include "comm/flight_recorder.h"
#include "symmetric/symmetric_collectives.h"
#include "symmetric/symmetric_memory.h"

namespace amdahl {

/// The functions enqueue and return. Errors as Communicator.
class SymmetricExecutor {
 public:
  SymmetricExecutor(std::shared_ptr<Communicator> control, RankGroup job)
      : control_(std::move(control)), job_(std::move(job)) {}
  virtual ~SymmetricExecutor() = default;

  virtual void run(Stream& stream, const CollectiveCall& call, const void* send, void* recv,
                   const FlightNote& note) = 0;
  virtual void send(Stream& stream, const CollectiveCall& call, const void* data, const FlightNote& note) = 0;
  virtual void receive(Stream& stream, const CollectiveCall& call, void* data, const FlightNote& note) = 0;
  virtual void send_receive(Stream& stream, const CollectiveCall& out, const void* data, const CollectiveCall& in,
                            void* received, const FlightNote& note) = 0;
  virtual void abort() noexcept = 0;
  virtual void throw_if_failed() { control_->throw_if_failed(); }
  virtual void set_timeout(double seconds) { control_->set_timeout(seconds); }
  virtual double timeout_seconds() const = 0;

  Communicator& control() const { return *control_; }
  const RankGroup& job() const { return job_; }

 protected:
  const std::shared_ptr<Communicator> control_;
  const RankGroup job_;
};

/// Size of the memory that a rank's executor needs.
size_t cpu_collective_bytes(int world);
size_t cuda_collective_bytes(int world);
std::unique_ptr<SymmetricExecutor> make_cpu_executor(const SymmetricMemory& memory,
                                                     const std::shared_ptr<Communicator>& control, const RankGroup& job,
                                                     const SymmetricOptions& options);
/// Error{environment_missing} in a build without CUDA.
std::unique_ptr<SymmetricExecutor> make_cuda_executor(Device& device, const SymmetricMemory& memory,
                                                      std::shared_ptr<Communicator> control, const RankGroup& job,
                                                      const SymmetricOptions& options);

}  // namespace amdahl
