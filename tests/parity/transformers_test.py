"""Models of Hugging Face's transformers on the CPU backend: from the config.json and the weights that it saved, outputs,
loss and gradients equal its own, and the loss after 20 steps of AdamW; it reads the weights that were saved here.

usage: transformers_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from torch_support import SKIPPED

TOLERANCE = 1e-5
STEPS, ROWS, TOKENS, VOCABULARY = 20, 2, 24, 150
FEW = 3e-3  # of the largest gradient: a smaller one is rounding, as that of BERT's key biases, which is zero

# Where scripts/install_deps.sh puts transformers; PyTorch is the system's.
sys.path += [str(folder) for folder in pathlib.Path(sys.argv[1]).glob(".deps/venv/lib/python3*/site-packages")]
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

SIZES = {"hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 2, "num_attention_heads": 6, "vocab_size": VOCABULARY,
         "max_position_embeddings": TOKENS, "initializer_range": 0.15}
GROUPED = {**SIZES, "num_key_value_heads": 2}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
# (name, model_type, fields)
CASES = [
    ("llama", "llama", {**GROUPED, "rope_scaling": LLAMA3, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    ("llama, wide heads and biases", "llama", {**GROUPED, "head_dim": 12, "attention_bias": True, "mlp_bias": True,
                                               "rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    ("llama, yarn", "llama", {**GROUPED, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                          "original_max_position_embeddings": TOKENS}}),
    ("qwen2", "qwen2", {**GROUPED, "rope_theta": 1e6, "tie_word_embeddings": True}),
    ("qwen3", "qwen3", {**GROUPED, "head_dim": 16, "rope_theta": 1e6}),
    ("mistral", "mistral", {**GROUPED, "sliding_window": 7}),
    ("gpt2", "gpt2", {"n_embd": 48, "n_head": 4, "n_layer": 2, "n_positions": TOKENS, "vocab_size": VOCABULARY,
                      "initializer_range": 0.15}),
    ("bert", "bert", {**SIZES, "hidden_act": "gelu"}),
    ("bert-tanh", "bert", {**SIZES, "hidden_act": "gelu_new"}),
]


def theirs(model_type, fields):
    """A random model, every parameter other than its initial value; None where this transformers has no such type."""
    import torch
    import transformers
    if model_type not in transformers.CONFIG_MAPPING:
        return None
    config = transformers.CONFIG_MAPPING[model_type](**fields)
    torch.manual_seed(5)
    kind = transformers.AutoModel if model_type == "bert" else transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return model


def outputs_of(model, inputs):
    """Logits; of BERT what its pooler's dense layer gives, which is the model's output here."""
    if model.config.model_type == "bert":
        return model.pooler.dense(model(inputs).last_hidden_state[:, 0])
    return model(inputs).logits


def loss_of(outputs, targets):
    from torch.nn import functional
    if targets.is_floating_point():
        return functional.mse_loss(outputs, targets)
    return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1))


def train(model, inputs, targets):
    """The loss after the steps."""
    import torch
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(outputs_of(model, inputs), targets).backward()
        optimizer.step()
    return loss_of(outputs_of(model, inputs), targets).item()


def relative(ours, reference, least=0.0):
    """Of two tensors, in norm."""
    import torch
    ours = torch.as_tensor(ours, dtype=torch.float64).reshape(reference.shape)
    reference = reference.detach().double()
    return ((ours - reference).norm() / max(reference.norm().item(), least)).item()


def gradient_errors(model, gradients):
    """By tensor; a name that only one side has is an infinite error."""
    prefix = "bert." if model.config.model_type == "bert" else ""
    reference = {prefix + name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    largest = max(grad.norm().item() for grad in reference.values())
    return {name: relative(gradients[name], reference[name], FEW * largest) if name in gradients and name in reference
            else float("inf") for name in {**gradients, **reference}}


def compare(probe, model, folder, sharded):
    """{what: relative error}"""
    import torch
    model.save_pretrained(folder, safe_serialization=True, max_shard_size="20KB" if sharded else "5GB")
    assert sharded == (folder / "model.safetensors.index.json").exists()
    generator = torch.Generator().manual_seed(9)
    inputs = torch.randint(1, VOCABULARY, (ROWS, TOKENS), generator=generator)  # BERT trains no vector of token 0
    targets = torch.randn((ROWS, SIZES["hidden_size"]), generator=generator) if model.config.model_type == "bert" \
        else torch.randint(VOCABULARY, (ROWS, TOKENS), generator=generator)
    batch, ours_path, trained = folder / "batch.json", folder / "ours.json", folder / "trained"
    batch.write_text(json.dumps({"rows": ROWS, "inputs": inputs.reshape(-1).tolist(), "targets": targets.reshape(-1).tolist()}))
    trained.mkdir()
    subprocess.run([probe, folder / "config.json", folder, batch, str(STEPS), ours_path, trained / "model.safetensors"],
                   check=True, timeout=120)
    ours = json.loads(ours_path.read_text())

    outputs = outputs_of(model, inputs)
    loss = loss_of(outputs, targets)
    loss.backward()
    errors = {"outputs": relative(ours["outputs"], outputs), "loss": relative(ours["loss"], loss)}
    errors.update({f"gradient of {name}": error for name, error in gradient_errors(model, ours["gradients"]).items()})
    after = torch.tensor(train(model, inputs, targets))
    errors["loss after AdamW"] = relative(ours["trained_loss"], after)
    model.config.save_pretrained(trained)
    back = type(model).from_pretrained(trained, attn_implementation="eager").eval()
    errors["loss of our weights in transformers"] = relative(loss_of(outputs_of(back, inputs), targets).item(), after)
    return errors


def main():
    probe = os.path.join(sys.argv[2], "tests", "weights_probe")
    for module in ("torch", "transformers", "safetensors"):
        if importlib.util.find_spec(module) is None:
            print(f"skipped: {sys.executable} has no {module}, which is the reference")
            return SKIPPED
    if not os.path.exists(probe):
        print(f"skipped: {probe} is not built")
        return SKIPPED
    import torch
    import transformers
    torch.set_num_threads(1)
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}")
    failed = 0
    for index, (name, model_type, fields) in enumerate(CASES):
        model = theirs(model_type, fields)
        if model is None:
            print(f"{name}: this transformers has no such model")
            continue
        with tempfile.TemporaryDirectory() as folder:
            errors = compare(probe, model, pathlib.Path(folder), sharded=index % 2 == 0)
        what, worst = max(errors.items(), key=lambda item: item[1])
        print(f"{name}: {len(errors)} comparisons, largest error {worst:.2e}: {what}")
        failed += sum(not error <= TOLERANCE for error in errors.values())
        for key, error in errors.items():
            if not error <= TOLERANCE:
                print(f"  {key} is off by {error:.2e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
