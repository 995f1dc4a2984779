// Device memory allocated by NCCL and registered with it: collectives bypass NCCL's internal buffers where the links
// support that.
#pragma once

#include <memory>

#include "comm/nccl_control.h"

namespace amdahl {

/// Implements `Communicator::allocate_registered` for one rank of an NCCL communicator.
std::unique_ptr<Buffer> make_nccl_buffer(const std::shared_ptr<NcclRank>& nccl, ControlPlane& plane, int rank,
                                         const RegisteredMemory& wanted);

}  // namespace amdahl
