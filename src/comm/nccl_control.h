// Control plane of an NCCL communicator: host messages between ranks that are threads or processes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/inproc_group.h"
#include "comm/nccl_rank.h"

namespace amdahl {

class ControlPlane;

/// A rank of a new communicator, and its control plane.
struct NcclPart {
  std::shared_ptr<NcclRank> rank;
  std::shared_ptr<ControlPlane> plane;
};

/// Messages between ranks, and the report of a failure. One rank's functions are called by its host thread; abort() is
/// thread-safe.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  virtual std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) = 0;
  virtual void abort(const Error& cause) noexcept = 0;
  virtual bool one_process() const = 0;
  /// Rank and plane for a communicator over the members of `group`, all of which call this with the same arguments.
  virtual NcclPart part(const RankGroup& group, const std::string& name, Deadline deadline) = 0;
};

class ThreadPlane final : public ControlPlane {
 public:
  ThreadPlane(std::shared_ptr<InprocGroup> group)
      : group_(std::move(group)), exchanges_(static_cast<size_t>(group_->world_size()), 0) {}

  std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) override;
  void abort(const Error& cause) noexcept override;
  bool one_process() const override { return true; }
  NcclPart part(const RankGroup& group, const std::string& name, Deadline deadline) override;

  std::vector<std::shared_ptr<NcclRank>> ranks;  // filled before any rank works

 private:
  struct Asked {
    std::shared_ptr<ThreadPlane> plane;
    int times = 0;
  };

  std::shared_ptr<InprocGroup> group_;
  std::mutex mutex_;                    // guards the following
  std::map<std::string, Asked> asked_;  // subgroups that not all their ranks have requested yet
  std::vector<std::weak_ptr<ThreadPlane>> parts_;
  std::vector<uint64_t> exchanges_;  // by rank; each rank's thread uses only its own
};

class ProcessPlane final : public ControlPlane {
 public:
  ProcessPlane(RendezvousStore& store, std::string name, RankGroup group, std::shared_ptr<NcclRank> rank)
      : store_(store), name_(std::move(name)), group_(std::move(group)), rank_(std::move(rank)) {}

  std::vector<std::string> exchange(int rank, const std::string& message, Deadline deadline) override;
  void abort(const Error& cause) noexcept override;
  bool one_process() const override { return false; }
  NcclPart part(const RankGroup& group, const std::string& name, Deadline deadline) override;

 private:
  std::string key(uint64_t seq, int rank) const;
  RendezvousStore& store_;
  std::string name_;
  RankGroup group_;
  std::shared_ptr<NcclRank> rank_;
  uint64_t exchanges_ = 0;
};

/// Waits for NcclRank::start; Error{rank_hung} at the deadline.
void finish_start(const NcclApi& api, std::future<ncclResult_t>& started, int rank, Deadline deadline);
/// Starts `rank` of a new communicator; the ranks exchange the NCCL ID through `plane`.
void start_nccl(NcclRank& rank, ControlPlane& plane, const RankGroup& group, Deadline deadline);

}  // namespace amdahl
