// Kernels of embeddings, positions, pooling over steps and the loss of tokens. Sums are taken in a fixed order: reruns
// are bit-equal.
#pragma once

#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_gemm.h"
#include "ops/ops.h"

namespace amdahl {

void launch_document_starts(const KernelLaunch& launch, const DocumentStarts& a);
void launch_embedding(const KernelLaunch& launch, const EmbeddingForward& a);
/// Adds to d_table only. The workspace holds the sorted tokens and partial sums; throws Error{usage} if they do not fit
/// (half a million tokens of width 768 do).
void launch_embedding_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, const EmbeddingBackward& a);
/// Of rows with several documents: adds to d_positions only, with the same workspace.
void launch_document_positions_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace,
                                        const EmbeddingBackward& a);
void launch_add_positions(const KernelLaunch& launch, const AddPositions& a);
void launch_pool_steps(const KernelLaunch& launch, const PoolSteps& a);
void launch_pool_steps_gradient(const KernelLaunch& launch, const PoolStepsGradient& a);
void launch_token_loss(const KernelLaunch& launch, const TokenLoss& a);
void launch_token_loss_parts(const KernelLaunch& launch, const TokenLossShard& a);
void launch_token_loss_of_parts(const KernelLaunch& launch, const TokenLossShard& a);
void launch_absolute_error(const KernelLaunch& launch, const AbsoluteError& a);

}  // namespace amdahl
