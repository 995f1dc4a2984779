// What the ranks of an NCCL communicator tell each other on the host, between threads or between processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/inproc_group.h"
#include "comm/nccl_rank.h"

namespace amdahl {

/// Messages between hosts' threads or processes, and the news that the world has failed.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) = 0;
  virtual void abort(const Error& cause) noexcept = 0;
  virtual bool one_process() const = 0;
};

class ThreadPlane final : public ControlPlane {
 public:
  ThreadPlane(int world_size, double timeout_seconds)
      : group_(world_size, timeout_seconds), exchanges_(world_size, 0) {}

  std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) override;
  void abort(const Error& cause) noexcept override;
  bool one_process() const override { return true; }

  std::vector<std::shared_ptr<NcclRank>> ranks;  // filled before any rank works

 private:
  InprocGroup group_;
  std::vector<uint64_t> exchanges_;  // by rank; each rank's thread touches its own
};

class ProcessPlane final : public ControlPlane {
 public:
  ProcessPlane(RendezvousStore& store, std::string name, int world_size, std::shared_ptr<NcclRank> rank)
      : store_(store), name_(std::move(name)), world_size_(world_size), rank_(std::move(rank)) {}

  std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) override;
  void abort(const Error& cause) noexcept override;
  bool one_process() const override { return false; }

 private:
  std::string key(uint64_t seq, int rank) const;
  RendezvousStore& store_;
  std::string name_;
  int world_size_;
  std::shared_ptr<NcclRank> rank_;
  uint64_t exchanges_ = 0;
};

}  // namespace amdahl
