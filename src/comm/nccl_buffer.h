// Device memory that NCCL allocates and knows: collectives on it skip NCCL's own buffers where the links allow.
#pragma once

#include <memory>

#include "comm/nccl_control.h"

namespace amdahl {

/// What `Communicator::allocate_registered` promises, for one rank of an NCCL communicator.
std::unique_ptr<Buffer> make_nccl_buffer(const std::shared_ptr<NcclRank>& nccl, ControlPlane& plane, int rank,
                                         const RegisteredMemory& wanted);

}  // namespace amdahl
