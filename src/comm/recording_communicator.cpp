#include "comm/world.h"

namespace amdahl {
namespace {

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  const std::string& backend_name() const override { return name_; }
  void all_reduce(const void*, void*, size_t count, DType type, ReduceOp, Stream&) override { add(count, type); }
  void reduce(const void*, void*, size_t count, DType type, ReduceOp, int, Stream&) override { add(count, type); }
  void broadcast(const void*, void*, size_t count, DType type, int, Stream&) override { add(count, type); }
  void all_gather(const void*, void*, size_t count, DType type, Stream&) override { add(count, type); }
  void reduce_scatter(const void*, void*, size_t count, DType type, ReduceOp, Stream&) override { add(count, type); }
  void scatter(const void*, void*, size_t count, DType type, int, Stream&) override { add(count, type); }
  void gather(const void*, void*, size_t count, DType type, int, Stream&) override { add(count, type); }
  void all_to_all(const void*, void*, size_t count, DType type, Stream&) override { add(count, type); }
  void send(const void*, size_t count, DType type, int, Stream&) override { add(count, type); }
  void recv(void*, size_t count, DType type, int, Stream&) override { add(count, type); }
  void send_recv(const void*, int, void*, int, size_t count, DType type, Stream&) override { add(count, type); }
  std::vector<std::string> exchange(const std::string& message, Deadline) override {
    return std::vector<std::string>(static_cast<size_t>(size_), message);
  }
  void abort(const Error&) noexcept override {}

 private:
  void add(size_t count, DType type) { count_traffic(count * size_of(type)); }

  const std::string name_ = "recording";
  int rank_, size_;
};

}  // namespace

std::unique_ptr<Communicator> make_recording_communicator(int rank, int size) {
  return std::make_unique<RecordingCommunicator>(rank, size);
}

}  // namespace amdahl
