"""A transformer learns the shipped text byte by byte, with the same loss on 1, 2 and 4 devices; so it does from prefetched
batches, bit by bit, and in fp16, whose loss scale is recorded and resumed."""
import json

from harness import SOURCE, main, records_of

TEXT = SOURCE / "data" / "gpl-3.0.txt"
# A uniform guess over 256 bytes costs ln 256 = 5.55 nats per byte, the frequencies of single bytes 3.1, those of pairs 2.4.
WANTED = 2.4
ALIKE = 0.002  # devices add up gradients in another order, which hundreds of steps of Adam amplify

MODEL = {"version": 1, "name": "characters", "input_shape": [32], "loss": "softmax_cross_entropy",
         "layers": [{"kind": "embedding", "units": 48, "vocabulary": 256},
                    {"kind": "transformer_block", "units": 48, "heads": 3, "causal": True},
                    {"kind": "transformer_block", "units": 48, "heads": 3, "causal": True},
                    {"kind": "layer_norm"}, {"kind": "token_head", "vocabulary": 256, "tied": True}]}
WORDS = ("train", "--backend", "cpu", "-q", "--model", "characters.json", "--data", TEXT, "--optimizer", "adamw",
         "--lr", "0.001", "--clip-norm", "1", "--batch-size", "16")


def learned(case, name, *words, epochs=8):
    case.write("characters.json", json.dumps(MODEL))
    case.run(*WORDS, "--epochs", epochs, *words, "-o", name)
    return [{s["name"]: s["samples"][0] for s in record["series"]} for record in records_of(case.path(name))]


def check_the_same_loss_on_1_2_and_4_devices(case):
    losses = {devices: learned(case, f"on{devices}", "--devices", devices)[-1]["validation_loss"] for devices in (1, 2, 4)}
    print("   validation loss:", ", ".join(f"{loss:.4f} on {devices}" for devices, loss in losses.items()))
    assert max(losses.values()) < WANTED, losses
    assert max(losses.values()) - min(losses.values()) < ALIKE, losses


def check_prefetched_batches_change_no_bit(case):
    for devices in (1, 2):
        resident = learned(case, f"r{devices}", "--devices", devices, "--save", "r.safetensors", epochs=2)
        prefetched = learned(case, f"p{devices}", "--devices", devices, "--save", "p.safetensors", "--plan", "input=prefetch",
                             epochs=2)
        assert case.path("r.safetensors").read_bytes() == case.path("p.safetensors").read_bytes()
        for a, b in zip(resident, prefetched, strict=True):
            assert a["train_loss"] == b["train_loss"] and a["validation_loss"] == b["validation_loss"]
        assert prefetched[-1]["memory_peak"] < resident[-1]["memory_peak"]
        for epochs in (resident, prefetched):
            assert abs(epochs[-1]["memory_peak"] / epochs[-1]["memory_modelled"] - 1) < 0.1, epochs[-1]


def check_half_precision_learns_and_resumes(case):
    exact, half = learned(case, "f32", epochs=2), learned(case, "f16", "--math", "fp16", epochs=2)
    assert abs(exact[-1]["validation_loss"] - half[-1]["validation_loss"]) < 0.005, (exact[-1], half[-1])
    assert half[-1]["loss_scale"] >= 1 and half[-1]["skipped_steps"] >= 0 and "loss_scale" not in exact[-1]
    report = case.path("f16/report.md").read_text()
    assert "Loss scale" in report and "tokens/s" in report and "modelled" in report, report
    resumable = ("--math", "fp16", "--checkpoint-every", "40", "--resume", "--devices", "2")
    learned(case, "whole", *resumable, "--save", "whole.safetensors", epochs=2)
    learned(case, "part", *resumable, epochs=1)
    learned(case, "part", *resumable, "--save", "part.safetensors", epochs=2)
    assert case.path("whole.safetensors").read_bytes() == case.path("part.safetensors").read_bytes()


def check_what_half_precision_does_not_cover_is_refused(case):
    for model in ("lstm", "gru"):
        case.refused(2, "usage", "train", "--backend", "cpu", "--model", model, "--math", "fp16", "-o", "r",
                     says=[f"layer 0 ({model})", "fp16", "--math bf16"])
    case.refused(2, "usage", "train", "--backend", "cpu", "--model", "medium", "--math", "bf16", "-o", "r",
                 says=["bf16", "fp32 and fp16"])


main(globals())
