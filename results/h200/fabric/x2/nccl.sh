# 14 sizes and placements, the first: all_reduce, f32, sum over 2 GPUs: 1,024 bytes, out of place
# nccl graph symmetric is the fastest at 7 of them; a program chooses it, not its environment
# nccl registered is the fastest at 3 of them; a program chooses it, not its environment
# nccl graph is the fastest at 2 of them; a program chooses it, not its environment
# no setting beats NCCL's default at most of them: nothing to set
