"""`train --save` writes weights by name in the safetensors format: read here byte by byte, by the safetensors package and
into PyTorch where they are installed; the saved network repeats the accuracy that the training reported."""
import array
import json
import math
import struct
import sys

import harness
from harness import DIGITS, SOURCE, Skip

# Where scripts/install_deps.sh puts the safetensors package; PyTorch and NumPy are the system's.
sys.path += [str(folder) for folder in SOURCE.glob(".deps/venv/lib/python3*/site-packages")]

MODEL = {"version": 1, "name": "tiny", "input_width": 64, "loss": "mse",
         "layers": [{"units": 24}, {"units": 10, "bias": False, "activation": "none"}]}
SHAPES = {"layers.0.weight": [24, 64], "layers.0.bias": [24], "layers.1.weight": [10, 24]}


def trained(case):
    case.write("tiny.json", json.dumps(MODEL))
    result = case.run("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--model", "tiny.json", "--epochs",
                      "6", "--json", "-q", "-o", "r", "--save", "model.safetensors")
    series = {s["name"]: s["samples"][0] for s in json.loads(result.stdout)["series"]}
    return case.path("model.safetensors"), series


def read(path):
    """The format by hand: 8 bytes of length, JSON, data."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    assert (8 + length) % 8 == 0, "the data are not aligned"
    metadata = header.pop("__metadata__")
    data, tensors, end = content[8 + length:], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert entry["dtype"] == "F32" and begin == end, (name, entry)
        tensors[name] = (entry["shape"], array.array("f", data[begin:stop]))
        assert len(tensors[name][1]) == math.prod(entry["shape"])
        end = stop
    assert end == len(data), "the tensors do not cover the file"
    return metadata, tensors


def digits():
    """The rows as the training sees them, but scaled over all of them."""
    rows = [[float(v) for v in line.split(",")] for line in DIGITS.read_text().split("\n")[1:-1]]
    for column in range(64):
        values = [row[column] for row in rows]
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
        for row in rows:
            row[column] = (row[column] - mean) / deviation if deviation else 0.0
    return rows


def forward(tensors, features):
    (_, w0), (_, b0), (_, w1) = (tensors[name] for name in SHAPES)
    hidden = [max(0.0, b0[o] + sum(w0[o * 64 + i] * features[i] for i in range(64))) for o in range(24)]
    return [sum(w1[o * 24 + i] * hidden[i] for i in range(24)) for o in range(10)]


def check_the_format_by_hand(case):
    path, series = trained(case)
    metadata, tensors = read(path)
    assert metadata == {"format": "pt", "model": "tiny"}, metadata
    assert {name: shape for name, (shape, _) in tensors.items()} == SHAPES
    rows = digits()
    right = sum(max(range(10), key=forward(tensors, row).__getitem__) == int(row[64]) for row in rows)
    # Over all rows and another scaling: near the accuracy on the rows held out, and far from chance.
    assert abs(right / len(rows) - series["validation_accuracy"]) < 0.06, (right / len(rows), series)
    assert right / len(rows) > 0.85


def check_pytorch_loads_it(case):
    try:
        import torch
        from safetensors.torch import load_file
    except ImportError as missing:
        raise Skip(f"not installed: {missing}")
    path, _ = trained(case)
    state = load_file(path)
    net = torch.nn.Module()
    net.layers = torch.nn.ModuleList([torch.nn.Linear(64, 24), torch.nn.Linear(24, 10, bias=False)])
    net.load_state_dict(state)
    _, tensors = read(path)
    row = digits()[0]
    ours = forward(tensors, row)
    with torch.no_grad():
        theirs = net.layers[1](torch.relu(net.layers[0](torch.tensor(row[:64]))))
    assert max(abs(a - b) for a, b in zip(ours, theirs.tolist())) < 1e-4


def check_the_package_reads_it(case):
    try:
        from safetensors import safe_open
    except ImportError as missing:
        raise Skip(f"not installed: {missing}")
    path, _ = trained(case)
    with safe_open(path, framework="np") as file:
        assert sorted(file.keys()) == sorted(SHAPES) and file.metadata()["format"] == "pt"


def check_bad_places_are_refused_before_training(case):
    for name, says in (("model.pt", ".safetensors"), ("none/model.safetensors", "none")):
        case.refused(2, "usage", "train", "--backend", "cpu", "--epochs", "1", "-q", "-o", "r", "--save", name, says=["--save", says])
        assert not case.path("r").exists(), "it was trained first"


LLAMA = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 16}


def train_llama(case, name, *words):
    """Its weights after an epoch, by name."""
    where = () if "--plan" in words else ("--devices", "1")
    case.run("train", "--backend", "cpu", "--model", "llama/config.json", *where, "--epochs", "1", "-q", "--validation", "0",
             "-o", name, "--save", f"{name}.safetensors", *words)
    return read(case.path(f"{name}.safetensors"))[1]


def check_training_begins_with_given_weights(case):
    """Of a config.json as Hugging Face writes it, under both names, on one device, and on those that divide the model."""
    case.path("llama").mkdir()
    case.write("llama/config.json", json.dumps(LLAMA))
    own = train_llama(case, "own")
    foreign = train_llama(case, "foreign", "--save-names", "huggingface")
    query, qkv = foreign["model.layers.1.self_attn.q_proj.weight"], own["layers.2.attention.qkv.weight"]
    assert query[0] == [16, 16] and qkv[0] == [32, 16] and query[1] == qkv[1][:256]
    again = [train_llama(case, f"again-{weights}", "--weights", f"{weights}.safetensors") for weights in ("own", "foreign")]
    assert again[0] == again[1] and again[0] != own
    for plan in ("tp2", "pp2,m2", "dp2,zero3"):
        divided = train_llama(case, plan.split(",")[0], "--weights", "own.safetensors", "--plan", plan)
        for name, (_, values) in divided.items():
            assert max(abs(a - b) for a, b in zip(values, again[0][name][1])) < 1e-4, f"{plan}: {name}"


def check_weights_of_another_model_are_refused(case):
    case.path("llama").mkdir()
    case.write("llama/config.json", json.dumps(LLAMA))
    train_llama(case, "foreign", "--save-names", "huggingface")
    case.write("llama/config.json", json.dumps({**LLAMA, "intermediate_size": 32}))
    words = ("train", "--backend", "cpu", "--model", "llama/config.json", "--epochs", "1", "-q", "-o", "r")
    case.refused(2, "data-corrupt", *words, "--weights", "foreign.safetensors", says=["model.layers.0.mlp.gate_proj.weight", "[24, 16]"])
    case.refused(2, "usage", *words, "--weights", "llama", says=["--weights", "model.safetensors.index.json"])
    case.refused(2, "usage", *words, "--save-names", "pytorch", says=["--save-names", "huggingface"])
    case.refused(2, "usage", "train", "--backend", "cpu", "--model", "medium", "--epochs", "1", "-q", "-o", "r", "--save-names",
                 "huggingface", says=["medium", "Hugging Face"])


harness.main(globals())
