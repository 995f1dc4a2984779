// A matrix whose rows are divided over the ranks in blocks, in turn.
#pragma once

#include <span>
#include <type_traits>

#include "symmetric/structures/words.h"

namespace amdahl {

/// One rank's access. Reads and writes of the same rows by several ranks need a barrier or a signal between them.
template <class T>
class DistributedTensor {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// [rows, columns], `block_rows` consecutive rows per block.
  struct Shape {
    size_t rows = 0, columns = 0, block_rows = 1;
  };
  /// Bytes of every region.
  static size_t bytes(const Shape& shape, int world) {
    const size_t blocks = (shape.rows + shape.block_rows - 1) / shape.block_rows;
    const size_t most = (blocks + static_cast<size_t>(world) - 1) / static_cast<size_t>(world);
    return most * shape.block_rows * shape.columns * sizeof(T);
  }
  DistributedTensor(CpuTeam& team, size_t offset, const Shape& shape) : team_(team), offset_(offset), shape_(shape) {}

  int owner(size_t row) const { return static_cast<int>(row / shape_.block_rows % world()); }
  /// The row in its owner's memory, `columns` elements. Error{usage} outside the tensor.
  T* row(size_t index) const {
    if (index >= shape_.rows)
      throw Error(Cause::usage, "row " + std::to_string(index) + " of a tensor of " + std::to_string(shape_.rows),
                  "a row of the tensor");
    const size_t block = index / shape_.block_rows;
    const size_t local = block / world() * shape_.block_rows + index % shape_.block_rows;
    return object_of<T>(team_, offset_, owner(index)) + local * shape_.columns;
  }
  /// Copies rows in the order of `indices` to `to` [indices.size(), columns].
  void gather(std::span<const size_t> indices, T* to) const {
    for (const size_t index : indices) {
      std::memcpy(to, row(index), shape_.columns * sizeof(T));
      to += shape_.columns;
    }
  }
  /// Copies rows of `from` [indices.size(), columns] to the rows `indices`, which are distinct.
  void scatter(std::span<const size_t> indices, const T* from) const {
    for (const size_t index : indices) {
      std::memcpy(row(index), from, shape_.columns * sizeof(T));
      from += shape_.columns;
    }
  }

 private:
  size_t world() const { return static_cast<size_t>(team_.view.size); }

  CpuTeam& team_;
  const size_t offset_;
  const Shape shape_;
};

}  // namespace amdahl
