// CUDA events, streams and graphs behind device.h.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>

#include "device/cuda_device.h"
#include "device/cuda_partition.h"
#include "device/device.h"

namespace amdahl {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(int device_index);
  ~CudaEvent() override { cudaEventDestroy(event_); }
  bool done() const override;
  cudaEvent_t handle() const { return event_; }

 private:
  int device_index_;
  cudaEvent_t event_ = nullptr;
};

/// Does not synchronize with the legacy stream. The device must outlive it, and owns the watches.
class CudaStream final : public Stream {
 public:
  /// On the partition's multiprocessors; null: the whole GPU.
  CudaStream(Device& device, const StreamWatches& watches, std::string name,
             std::shared_ptr<const CudaPartition> partition);
  /// Wraps a stream that the caller keeps and destroys.
  CudaStream(Device& device, const StreamWatches& watches, cudaStream_t adopted);
  ~CudaStream() override {
    attachments_.clear();  // some wait for the work that uses them
    if (owned_) cudaStreamDestroy(stream_);
  }
  Device& device() override { return device_; }
  void record(Event& event) override;
  void stamp(Event& event) override;
  void wait(Event& event) override;
  void synchronize(Deadline deadline) override;

  bool capturing() const;
  cudaStream_t handle() const { return stream_; }
  /// False when the caller keeps and destroys the CUDA stream.
  bool owned() const { return owned_; }
  /// Data that a user attaches to the stream, for example a workspace; freed just before the stream. One user per key.
  std::shared_ptr<void>& attachment(const void* key) { return attachments_[key]; }

 private:
  void wait_until_done(Deadline deadline);
  Device& device_;
  const StreamWatches& watches_;
  int index_;
  std::string name_;
  std::shared_ptr<const CudaPartition> partition_;  // outlives the stream
  cudaStream_t stream_ = nullptr;
  bool owned_ = true;
  std::map<const void*, std::shared_ptr<void>> attachments_;
};

/// Owns the captured graph and its executable form, because the captured graph owns the objects attached by the
/// capture.
class CudaGraph final : public Graph {
 public:
  CudaGraph(Device& device, cudaGraph_t graph);
  ~CudaGraph() override { release(); }
  void launch(Stream& stream) override;
  size_t num_nodes() const override { return num_nodes_; }
  /// Uploads the graph to the device, so that the first launch takes as long as the others.
  void upload(cudaStream_t stream);

 private:
  void release();
  Device& device_;
  int index_;
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
  size_t num_nodes_ = 0;
};

// These throw Error{internal} for an object of another backend.
CudaStream& as_cuda_stream(Stream& stream);
cudaEvent_t as_cuda(const Event& event);

}  // namespace amdahl
