// The terms of a predicted step, one function and one file each. Times in us. Sources and derivations: docs/planner.md.
#pragma once

#include <functional>
#include <vector>

#include "planner/rates.h"
#include "planner/workload.h"

namespace amdahl {

// gemm.cpp
/// Tiles of the output over the multiprocessors: a GEMM of few waves leaves some of them idle.
double gemm_waves(const GemmWork& gemm, const Rates& rates);
/// 2 m n k / rate x (1 + half_waves / waves) + 4 (m k + k n + m n) / gemm_gbps, rate x unaligned_gemm for outputs of an
/// unpadded width.
double gemm_us(const GemmWork& gemm, const Rates& rates);
/// Forward and the two products of backward, each with its own shape; of weights with unfavourable strides in forward
/// more.
double gemm_step_us(const GemmWork& gemm, bool has_input_gradient, const Rates& rates);
/// With another rate of weights and their gradients, which a step touches long after the step before.
double gemm_step_us(const GemmWork& gemm, bool has_input_gradient, const Rates& rates, double weight_gbps);
/// What the kernels for few rows, one forward and one backward, take for each row whatever the weights: a block has all
/// rows of its tile, exchanges their sums within its cluster, and writes masks (ops/gemm/cuda_small_tile.cuh).
double few_rows_us(const GemmWork& gemm, const Rates& rates);

// attention.cpp
/// The six products of scores and values, forward and backward, and the element-wise kernels over the scores.
double attention_us(const AttentionWork& attention, const Rates& rates);

// recurrent.cpp
/// Two passes over the steps of a sequence, each step of which waits for the one before.
double recurrent_us(const RecurrentWork& recurrent, const Rates& rates);

// memory_bound.cpp
double memory_us(double bytes, const Rates& rates);
/// Update of the parameters that one device updates.
double optimizer_us(double parameters, const Rates& rates);

// cache.cpp
/// Rates of weights in matrix products and of updates in a step that touches so many bytes: slower by 1 + spill x, or
/// stream_spill x, the part of the bytes that exceeds the cache.
Rates spilled(const Rates& rates, double touched_bytes);
/// Rates of activations in a layer that touches so many bytes: slower by 1 + stream_spill x that part.
Rates streamed(const Rates& rates, double touched_bytes);

// launch.cpp
/// Time in which the host enqueues a layer: kernels x launch_us, and for collectives the wait for the slowest of the
/// group's hosts, which grows with the logarithm of their number.
double host_us(const LayerWork& layer, int tp, const Rates& rates);
/// Host and device work at the same time: (device^k + host^k)^(1/k). k = infinity would be the larger of the two;
/// synchronisation makes k finite.
double queue_us(double device_us, double host_us, const Rates& rates);

// collectives.cpp
/// alpha + 2 (n - 1) / n bytes / rate; 0 for one device.
double all_reduce_us(double bytes, int devices, double alpha_us, double gbps);
/// A path of a collective or transfer: in a node, or over the network that the devices of a node share.
struct GroupPath {
  double alpha_us = 0, gbps = 0;
};
/// Of a group whose neighbours are `stride` ranks apart, with its path within a node. A node's network serves as many
/// groups as it has devices for each of the group's.
GroupPath path_of(int devices, int stride, const GroupPath& within, const Rates& rates);
/// Of a transfer to the device `stride` ranks on, when all devices of a node that have one there send at once.
GroupPath transfer_path(int stride, int devices, const GroupPath& within, const Rates& rates);
/// What an all-reduce of so many bytes takes more: libraries begin with small messages, which have a lower latency and
/// a lower rate. ramp x bytes / (bytes + 4 MB).
double ramp_us(double bytes, const Rates& rates);
/// alpha + bytes / rate.
double transfer_us(double bytes, double alpha_us, double gbps);

// pipeline.cpp
struct PipelineCost {
  double makespan_us = 0;
  double transfer_us = 0;  // part of it that would go with infinitely fast links
  double bubble_us = 0;    // idle time of the busiest stage apart from that
  double slowdown = 1;     // of the busiest rank's work, by ranks that share cores with it
  int busiest = 0;         // rank
};
struct StageCost {
  double forward_us = 0, backward_us = 0;
  double weight_us = 0;  // part of backward that schedules with a backward in two parts run later
  double total_us() const { return forward_us + backward_us; }
};
/// sum of ranks + (m - 1) x slowest rank + transfers: a pipeline whose slowest rank never waits after it started.
/// Exact for gpipe and 1F1B when one rank is slowest by more than the transfers. Of the bubble the part that the
/// schedule leaves. Ranks have cores of their own.
PipelineCost pipeline_bound(ScheduleKind kind, int chunks, const std::vector<StageCost>& ranks, int64_t micro_batches,
                            double transfer_us);
/// By simulation of the schedule; `stages` are those of all ranks, `chunks` of each. Beyond 4 p micro-batches the
/// makespan is continued linearly, which is exact in the steady state. `slowdowns` as PipelineTimes.
PipelineCost pipeline_simulated(ScheduleKind kind, int chunks, const std::vector<StageCost>& stages,
                                int64_t micro_batches, double transfer_us, const std::vector<double>& slowdowns = {});

// interference.cpp
struct Overlap {
  double exposed_us = 0;  // communication after the last gradient, or that did not fit behind backward
  double slowed_us = 0;   // by which backward gets longer
};
/// Communication of `buckets` equal buckets behind a backward pass: the last bucket is always exposed.
Overlap overlap_of(double communication_us, double backward_us, int buckets, const Rates& rates);

// overlap.cpp
/// Backward of one layer (or several equal ones), in us.
struct GradientTime {
  double backward_us = 0;
  double weight_us = 0;  // part of it: the gradient of its weights, which pieces of the layer complete one by one
  double parameters = 0;
  int repeats = 1;
  bool by_pieces = false;
};
/// What becomes of each bucket of so many parameters.
struct GradientBuckets {
  double parameters = 0;
  std::function<double(double)> all_reduce_us;  // of so many parameters
  double update_us_per_parameter = 0;           // when it has arrived, while others are on their path
  bool weights_last = false;                    // the gradients of all inputs come first
  bool updates_within = false;                  // one kernel sums, updates and gathers
  bool by_layer = false;                        // each layer is a bucket
};
/// Communication that ends after backward, less what updates of earlier buckets hide. Layers in the order of forward.
Overlap overlap_of(const std::vector<GradientTime>& layers, const GradientBuckets& buckets, const Rates& rates);

// interference.cpp
/// By which work gets slower when so many devices work at once, on average: max(1, devices / shared_cores) for virtual
/// devices on the cores of one host, and sharing for each further one that has a core (memory bandwidth, power). 1 for
/// one device.
double sharing_factor(double devices, const Rates& rates);
/// By which a rank of so many devices is slower than when it works alone, for each number of ranks at work, from one.
std::vector<double> pipeline_slowdowns(int ranks, int devices_of_rank, const Rates& rates);
/// Without a simulation, the average of this factor over a pipeline's time: each of its ranks, of so many devices, is
/// at work for the part `busy` of it, independently of the others. sharing_factor(ranks x devices_of_rank) for busy
/// = 1.
double pipeline_sharing(int ranks, int devices_of_rank, double busy, const Rates& rates);
/// The first of these factors: also collectives take as much longer, because ranks copy and wait on the same cores.
double oversubscription(double devices, const Rates& rates);
/// What each collective waits for more because devices without a core must be scheduled.
double crowd_us(int devices, const Rates& rates);

}  // namespace amdahl
