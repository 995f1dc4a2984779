// A choice that both the operations and the model of their memory follow.
#pragma once

namespace amdahl {

/// Whether training uses kernels of whole transformer blocks (TransformerBlockOps) where a GPU has them. Off until they
/// have been measured on one.
inline constexpr bool kFusesBlocks = false;

}  // namespace amdahl
