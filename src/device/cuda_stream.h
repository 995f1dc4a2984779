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
  /// In the partition, where there is one.
  CudaStream(Device& device, const StreamWatches& watches, std::string name,
             std::shared_ptr<const CudaPartition> partition);
  /// Of a stream that somebody else made and destroys.
  CudaStream(Device& device, const StreamWatches& watches, cudaStream_t adopted);
  ~CudaStream() override {
    if (owned_) cudaStreamDestroy(stream_);
  }
  Device& device() override { return device_; }
  void record(Event& event) override;
  void stamp(Event& event) override;
  void wait(Event& event) override;
  void synchronize(Deadline deadline) override;

  bool capturing() const;
  cudaStream_t handle() const { return stream_; }
  /// What its user keeps per stream, for example workspace; goes when the stream goes. One user a key.
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

/// Owns the captured graph beside its executable form: what the capture attached to the graph stays alive with it.
class CudaGraph final : public Graph {
 public:
  CudaGraph(Device& device, cudaGraph_t graph);
  ~CudaGraph() override { release(); }
  void launch(Stream& stream) override;
  size_t num_nodes() const override { return num_nodes_; }
  /// Brings the graph to the device, so that the first launch is like the others.
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
