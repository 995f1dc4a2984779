// One device's share of a sensor job that lies whole on every device, so that a share is a range of its items and can
// change from call to call.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "measure/sampling/call_queue.h"
#include "parallel/rank_context.h"
#include "sensor/measure/workload.h"
#include "sensor/ops/host_merge.h"

namespace amdahl {

/// How the devices' parts become one result. `host`: in host memory, for devices without a communicator in common.
/// `communicator`: grids on every device; rows stay where they are.
enum class PartsMeet { host, communicator };

/// The result in host memory, which the ranks' threads share.
class HostResult {
 public:
  HostResult(const SensorJob& job, PartsMeet how, int num_parts);
  std::vector<char> rows;           // of a fusion
  std::vector<char> of_one_device;  // what a device by itself made
  std::optional<HostGrid> grid;
};

/// Time of one call of the whole: until the result is there, and this rank's part of it.
struct PartTime {
  double call_us = 0, part_us = 0;
};

/// For exchange_results().
template <class Archive>
void visit_fields(Archive& archive, PartTime& time) {
  archive(time.call_us, time.part_us);
}

class SensorPart {
 public:
  /// Allocates, and returns when the items are on the device. Error{out_of_memory}.
  SensorPart(RankContext& rank, SensorOps& ops, MakeTransfer make_transfer, const SensorJob& job, PartsMeet how,
             HostResult& result, double timeout_seconds);
  ~SensorPart();

  /// The device's time a call for all items, with nothing to merge: of `calls` calls, and the median of a few such.
  double sample_alone_us(int calls);
  double alone_us(int calls);
  /// All ranks at once, each with its range of the items: `calls` calls.
  PartTime sample(ItemRange items, int calls);
  /// One call with these ranges, its result on rank 0; empty on the others.
  std::vector<char> result(ItemRange items);
  /// All items on this device alone.
  std::vector<char> result_alone();

  bool uses_graphs() const;

 private:
  Deadline deadline() const { return Deadline::after_seconds(timeout_seconds_); }
  void prepare(ItemRange items);
  void compute(ItemRange items);
  void merge(ItemRange items);
  void call_alone();
  void copy_rows_out(ItemRange items);
  void forget_results();
  PartTime sample_by_host(ItemRange items, int calls);
  PartTime sample_by_device(ItemRange items, int calls);
  void enqueue(ItemRange items, int calls);

  RankContext& rank_;
  SensorOps& ops_;
  const SensorJob job_;
  PartsMeet how_;
  HostResult& result_;
  double timeout_seconds_;
  std::unique_ptr<Stream> stream_;
  CallQueue queue_;
  SensorWorkload workload_;                // all items
  std::unique_ptr<GridMerge> grid_merge_;  // of clouds, as `how_` says
  std::unique_ptr<HostMerge> host_merge_;
  std::unique_ptr<Event> start_, ready_, begin_, end_;
  std::unique_ptr<Buffer> line_;  // what an all-reduce that lines devices up adds
  std::unique_ptr<Graph> graph_;  // calls with graph_items_
  ItemRange graph_items_{-1, -1};
  std::unique_ptr<Graph> alone_graph_;
};

}  // namespace amdahl
