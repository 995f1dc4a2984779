// Collectives in symmetric memory between GPUs, or partitions of one, beside those on CPUs.
#pragma once

#include "comm/collective_table.h"
#include "comm/world.h"
#include "several_gpus.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {

inline Deadline patient() { return Deadline::after_seconds(120); }

class SymmetricCollectivesGpuTest : public SeveralGpusTest {
 protected:
  void join(const SymmetricOptions& options, double timeout_seconds = 20) {
    std::vector<Device*> devices;
    for (auto& device : devices_) devices.push_back(device.get());
    comms_.clear();
    comms_ = make_symmetric_communicators(devices, make_inproc_communicators(size(), timeout_seconds), timeout_seconds,
                                          options);
  }
  void TearDown() override {
    comms_.clear();
    SeveralGpusTest::TearDown();
  }
  int size() const { return static_cast<int>(world()); }
  /// Lines where the links keep them whole.
  std::vector<SymmetricAlgorithm> algorithms() {
    std::vector<SymmetricAlgorithm> all{SymmetricAlgorithm::automatic, SymmetricAlgorithm::flagged,
                                        SymmetricAlgorithm::one_shot, SymmetricAlgorithm::two_shot};
    const std::vector<PeerAbility> peers = list_cuda_peers();
    if (std::all_of(peers.begin(), peers.end(), [](const PeerAbility& pair) { return pair.atomics; }))
      all.push_back(SymmetricAlgorithm::lines);
    return all;
  }

  /// Random bytes that are finite in every type.
  static std::vector<char> input(size_t rank, size_t bytes, DType type) {
    std::mt19937 random(static_cast<unsigned>(rank) + 91);
    std::vector<char> values(bytes);
    for (size_t i = 0; i < bytes; ++i)
      values[i] = static_cast<char>(random() & (i % size_of(type) + 1 == size_of(type) ? 0xb3 : 0xff));
    return values;
  }
  /// What every rank receives, computed on CPU devices.
  std::vector<std::vector<char>> expected(const CollectiveRow& row, DType type, ReduceOp op, size_t elements) const {
    const auto devices = make_cpu_devices(size());
    const auto comms = make_inproc_communicators(size(), 20);
    const CollectiveShape shape = row.shape(elements, size());
    std::vector<std::vector<char>> received(world());
    run_rank_threads(
        size(),
        [&](int rank) {
          const auto r = static_cast<size_t>(rank);
          const std::vector<char> send = input(r, shape.send * size_of(type), type);
          received[r].assign(shape.recv * size_of(type), 0x11);
          const auto stream = devices[r]->make_stream("comm");
          row.run(*comms[r], {send.data(), received[r].data(), shape.call, type, op, size() - 1}, *stream);
          stream->synchronize(patient());
        },
        [&](const Error& error) {
          for (const auto& comm : comms) comm->abort(error);
        });
    return received;
  }
  /// The same on the GPUs. Ranks with an odd number have buffers that are `skip` bytes off.
  std::vector<std::vector<char>> received(const CollectiveRow& row, DType type, ReduceOp op, size_t elements,
                                          int64_t skip = 0) {
    const CollectiveShape shape = row.shape(elements, size());
    std::vector<std::unique_ptr<GpuArray<char>>> send, recv;
    for (size_t r = 0; r < world(); ++r) {
      const std::vector<char> values = input(r, shape.send * size_of(type), type);
      const int64_t off = r % 2 ? skip : 0;
      send.push_back(std::make_unique<GpuArray<char>>(*devices_[r], *streams_[r], values, off));
      recv.push_back(std::make_unique<GpuArray<char>>(*devices_[r], *streams_[r],
                                                      std::vector<char>(shape.recv * size_of(type), 0x11), off));
    }
    for (size_t r = 0; r < world(); ++r)
      row.run(*comms_[r], {send[r]->data(), recv[r]->data(), shape.call, type, op, size() - 1}, *streams_[r]);
    synchronize();
    std::vector<std::vector<char>> results;
    for (auto& array : recv) results.push_back(array->get());
    return results;
  }

  std::vector<std::unique_ptr<Communicator>> comms_;
};

}  // namespace amdahl
