// What a block has in shared memory that adds up the points of a bin with their features there: cuda_voxel_fetched.cu.
#pragma once

#include "sensor/voxels/cuda_voxel_rules.cuh"

namespace amdahl::sensor_cuda {

inline constexpr uint32_t kLongVoxel = 16;  // points that one lane adds up for each column; of more a warp does

/// How a block divides its work: rows have 2^column_bits places, of which lanes have one each, and features of so many
/// points fit into shared memory; 0 where the bins should be done otherwise.
struct FetchShape {
  int column_bits;
  uint32_t most_fetched;
};

/// A point by its slot: its number, and how many points of its voxel came before it; kAlone for one that is written
/// after the others, because its features are not here.
struct Slotted {
  static constexpr int kPointBits = 20;
  static constexpr uint32_t kAlone = (1u << (32 - kPointBits)) - 1;
  static_assert(ValueRow::kMaxTiles * kDealtTilePoints <= 1 << kPointBits && kFewPoints <= kAlone);
  uint32_t word;
  __device__ Slotted(uint32_t point, uint32_t rank) : word(rank << kPointBits | point) {}
  __device__ uint32_t point() const { return word & ((1u << kPointBits) - 1); }
  __device__ uint32_t rank() const { return word >> kPointBits; }
};

/// Of a voxel's head: the slot has features that are to become a row, and not a row.
inline constexpr uint16_t kFeatures = 1 << 15;

/// A voxel of several points: where it is in the bin, and where its list begins.
struct Several {
  uint16_t offset, begin;
};

/// Shared memory of a block. Slots count from 1: row 0 is that of voxels without points.
template <class Results, class T, int N>
struct FetchedMemory {
  uint16_t* heads;    // [bin_voxels]: how many points; then the begin of a list of several; then the slot of the row
  Results* rows;      // [1 + most_fetched, columns], or features at their beginning
  Slotted* points;    // [1 + kFewPoints]
  Several* several;   // [kFewPoints / 2], from the front those of up to kLongVoxel points, from the back others
  uint16_t* offsets;  // [1 + kFewPoints], of the points' voxels
  uint16_t* lists;    // [1 + kFewPoints * 3 / 2], of several points: how many, and their slots

  __device__ FetchedMemory(void* memory, const BinArgs& bins, uint32_t most_fetched, uint32_t columns) {
    heads = static_cast<uint16_t*>(memory);
    rows = reinterpret_cast<Results*>(heads + bins.bin_voxels());
    points = reinterpret_cast<Slotted*>(rows + (1 + most_fetched) * columns);
    several = reinterpret_cast<Several*>(points + 1 + kFewPoints);
    offsets = reinterpret_cast<uint16_t*>(several + kFewPoints / 2);
    lists = offsets + 1 + kFewPoints;
  }
  static size_t bytes(const BinArgs& bins, size_t most_fetched, uint32_t columns) {
    return bins.bin_voxels() * sizeof(uint16_t) + (1 + most_fetched) * columns * sizeof(Results) +
           (1 + kFewPoints) * (sizeof(Slotted) + sizeof(uint16_t)) + kFewPoints / 2 * sizeof(Several) +
           (1 + kFewPoints * 3 / 2) * sizeof(uint16_t);
  }
};

/// What a block has found out about its bin.
struct FoundPoints {
  uint32_t num_points;                            // of a bin whose rows are not all visited at first
  uint32_t num_slots, several_and_end, num_long;  // several: of up to kLongVoxel points, above where the lists' end is
};

}  // namespace amdahl::sensor_cuda
