// The communicator of a single rank: it transfers nothing, works on any device and needs no library.
#include <mutex>

#include "comm/collective_call.h"
#include "comm/world.h"

namespace amdahl {
namespace {

class LoneCommunicator final : public Communicator {
 public:
  explicit LoneCommunicator(Device& device) : device_(device) {}

  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  const std::string& backend_name() const override { return name_; }
  bool shares_address_space() const override { return true; }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp, Stream& stream) override {
    copy(send, recv, count, type, stream);
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp, int root, Stream& stream) override {
    check_rank(root, 1, "root");
    copy(send, recv, count, type, stream);
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, 1, "root");
    copy(send, recv, count, type, stream);
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    copy(send, recv, count, type, stream);
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp, Stream& stream) override {
    copy(send, recv, count, type, stream);
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, 1, "root");
    copy(send, recv, count, type, stream);
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, 1, "root");
    copy(send, recv, count, type, stream);
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    copy(send, recv, count, type, stream);
  }
  void send_recv(const void*, int to, void*, int, size_t, DType, Stream&) override { refuse(to); }
  void send(const void*, size_t, DType, int peer, Stream&) override { refuse(peer); }
  void recv(void*, size_t, DType, int peer, Stream&) override { refuse(peer); }

  std::vector<std::string> exchange(const std::string& message, Deadline) override {
    throw_if_aborted();
    return {message};
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup&, const std::string&, Deadline) override {
    return make_lone_communicator(device_);
  }

  void abort(const Error& cause) noexcept override {
    std::lock_guard lock(mutex_);
    if (!cause_) cause_ = std::make_unique<Error>(cause);
  }

 private:
  void call(size_t count, DType type) {
    throw_if_aborted();
    count_traffic(count * size_of(type));
  }
  void copy(const void* send, void* recv, size_t count, DType type, Stream& stream) {
    call(count, type);
    if (send != recv) device_.copy_within(stream, recv, send, count * size_of(type));
  }
  [[noreturn]] static void refuse(int peer) {
    check_rank(peer, 1, "peer");
    throw Error(Cause::usage, "rank 0 cannot send to itself");
  }
  void throw_if_aborted() {
    std::lock_guard lock(mutex_);
    if (cause_) throw Error(*cause_);
  }

  const std::string name_ = "alone";
  Device& device_;
  std::mutex mutex_;  // guards cause_
  std::unique_ptr<Error> cause_;
};

}  // namespace

std::unique_ptr<Communicator> make_lone_communicator(Device& device) {
  return std::make_unique<LoneCommunicator>(device);
}

}  // namespace amdahl
