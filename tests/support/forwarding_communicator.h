// A communicator that passes every call to another one: the base of those of tests that change one of them.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace amdahl::test {

/// `inner()` outlives this one. Splits are not passed on.
class ForwardingCommunicator : public Communicator {
 public:
  int rank() const override { return inner().rank(); }
  int world_size() const override { return inner().world_size(); }
  const std::string& backend_name() const override { return inner().backend_name(); }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    inner().all_reduce(send, recv, count, type, op, stream);
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    inner().reduce(send, recv, count, type, op, root, stream);
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    inner().broadcast(send, recv, count, type, root, stream);
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    inner().all_gather(send, recv, count, type, stream);
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    inner().reduce_scatter(send, recv, count, type, op, stream);
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    inner().scatter(send, recv, count, type, root, stream);
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    inner().gather(send, recv, count, type, root, stream);
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    inner().all_to_all(send, recv, count, type, stream);
  }
  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    inner().send(data, count, type, peer, stream);
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    inner().recv(data, count, type, peer, stream);
  }
  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    inner().send_recv(data, to, received, from, count, type, stream);
  }
  std::unique_ptr<Buffer> allocate_registered(const RegisteredMemory& wanted) override {
    return inner().allocate_registered(wanted);
  }
  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    return inner().exchange(message, deadline);
  }
  void abort(const Error& cause) noexcept override { inner().abort(cause); }
  void throw_if_failed() override { inner().throw_if_failed(); }
  int64_t device_bytes(int ranks) const override { return inner().device_bytes(ranks); }
  bool shares_address_space() const override { return inner().shares_address_space(); }
  void set_timeout(double seconds) override { inner().set_timeout(seconds); }

 protected:
  virtual Communicator& inner() const = 0;
};

}  // namespace amdahl::test
