#!/usr/bin/env python3
"""Predicts measured iterations with Calculon, for `amdahl plan --validate FILE --beside OUTPUT`.

Calculon (github.com/calculon-ai/calculon) is not part of this repository: give the path of a checkout. Its system file of
an A100 is used as it is, with every group within one NVLink network. It counts transformer blocks alone: no embedding,
no output layer, no host.

usage: calculon_baseline.py CHECKOUT tests/data/planner/measured_a100.csv calculon.csv
"""
import csv
import json
import logging
import sys
from pathlib import Path


def predictor(checkout):
    sys.path.insert(0, str(checkout))
    import calculon
    from calculon.llm import Llm
    system = json.loads((checkout / "systems" / "a100_80g.json").read_text())
    logger = logging.getLogger("calculon")

    def predict(row):
        number = {name: int(value) for name, value in row.items() if name != "iteration_ms"}
        application = Llm.Application({"hidden": number["hidden"], "feedforward": 4 * number["hidden"],
                                       "seq_size": number["sequence"], "attn_heads": number["heads"],
                                       "attn_size": number["hidden"] // number["heads"], "num_blocks": number["layers"]})
        execution = Llm.Execution.from_json({
            "num_procs": number["gpus"], "tensor_par": number["tp"], "pipeline_par": number["pp"], "data_par": number["dp"],
            "tensor_par_net": 0, "pipeline_par_net": 0, "data_par_net": 0, "batch_size": number["global_batch"],
            "microbatch_size": number["micro_batch"], "datatype": "float16", "fused_activation": True,
            "attention_type": "multihead", "activation_recompute": "none", "pipeline_interleaving": 1,
            "optimizer_sharding": False, "tensor_par_comm_type": "ar", "tensor_par_overlap": "none",
            "seq_par_ag_redo": False, "data_par_overlap": False, "weight_offload": False, "activations_offload": False,
            "optimizer_offload": False, "training": True})
        system_of_row = json.loads(json.dumps(system))
        system_of_row["networks"][0]["size"] = number["gpus"]
        model = Llm(application, logger)
        machine = calculon.System(system_of_row)
        model.compile(machine, execution)
        model.run(machine)
        return 1e3 * model.get_total_time()

    return predict


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    predict = predictor(Path(sys.argv[1]))
    with open(sys.argv[2], newline="") as file:
        rows = list(csv.DictReader(file))
    with open(sys.argv[3], "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(dict(row, iteration_ms=f"{predict(row):.6g}"))


if __name__ == "__main__":
    main()
