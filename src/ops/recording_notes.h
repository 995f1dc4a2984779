// What the families of recording operations share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/recording_ops.h"

namespace amdahl {

inline int64_t floats(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }
inline int64_t of_type(DType type, int64_t count) { return count * static_cast<int64_t>(size_of(type)); }
/// Of an operand that may be absent.
inline int64_t if_any(const void* data, int64_t bytes) { return data ? bytes : 0; }

/// What all families share: where calls are noted, and the kind of device.
struct Notes {
  OpRecording& recording;
  BackendKind backend;
  MathMode math;

  void add(RecordedOp op) const { recording.ops.push_back(std::move(op)); }
  bool gpu() const { return backend == BackendKind::cuda; }
};

/// Families that layers of sequences are made of, in a file of their own.
std::unique_ptr<MatMulOps> record_matmul(const Notes& notes);
std::unique_ptr<NormOps> record_norm(const Notes& notes);
std::unique_ptr<AttentionOps> record_attention(const Notes& notes);
std::unique_ptr<SequenceOps> record_sequence(const Notes& notes);

}  // namespace amdahl
