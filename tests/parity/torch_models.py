"""Models of every kind of layer, computed by PyTorch in float64 from a problem that model_probe wrote."""
import math

import torch
from torch.nn import functional

RECURRENT_NAMES = {"weight_input": "weight_ih_l0", "weight_hidden": "weight_hh_l0", "bias_input": "bias_ih_l0",
                   "bias_hidden": "bias_hh_l0"}


def linear(value, p, name, units):
    return functional.linear(value, p[name + "weight"].reshape(units, -1), p.get(name + "bias"))


def layer_norm(value, p, name=""):
    return functional.layer_norm(value, value.shape[-1:], p[name + "weight"], p[name + "bias"])


def conv_norm(value, p, conv, norm, kernel, stride):
    """Convolution and batch normalisation by the statistics of the batch, of [rows, height, width, channels]."""
    channels = value.shape[-1]
    weight = p[conv + ".weight"].reshape(-1, kernel, kernel, channels).permute(0, 3, 1, 2)
    value = functional.conv2d(value.permute(0, 3, 1, 2), weight, stride=stride, padding=kernel // 2)
    value = functional.batch_norm(value, None, None, p[norm + ".weight"], p[norm + ".bias"], training=True)
    return value.permute(0, 2, 3, 1)


class TorchModel:
    """Its layers take and give [rows, ...] in the shapes of a model file. `parameters`: per layer {tensor: leaf}."""

    def __init__(self, problem):
        self.problem = problem
        self.parameters = [{name: torch.tensor(values, dtype=torch.float64, requires_grad=True)
                            for name, values in layer.items()} for layer in problem["parameters"]]
        self.relu_margin = math.inf  # smallest size of a ReLU's input

    def relu(self, value):
        self.relu_margin = min(self.relu_margin, value.detach().abs().min().item())
        return functional.relu(value)

    def dense(self, value, layer, p, mask):
        value = linear(value.reshape(len(value), -1), p, "", layer["units"])
        value = self.relu(value) if layer["activation"] == "relu" else value
        return value if mask is None else value * torch.tensor(mask, dtype=torch.float64).reshape(value.shape)

    def embedding(self, value, layer, p, _):
        units, steps = layer["units"], value.shape[1]
        value = functional.embedding(value.long(), p["weight"].reshape(layer["vocabulary"], units))
        if layer["positions"]:
            value = value + p["positions"].reshape(-1, units)[:steps]
        return value + p["token_types"].reshape(-1, units)[0] if layer["token_types"] > 0 else value

    def projection(self, value, layer, p, _):
        value = linear(value, p, "", layer["units"])
        return value + p["positions"].reshape(-1, layer["units"])[:value.shape[1]] if layer["positions"] else value

    def attention(self, value, layer, p):
        rows, steps, units = value.shape
        width = units // layer["heads"]
        qkv = linear(value, p, "attention.qkv.", 3 * units).reshape(rows, steps, 3, layer["heads"], width)
        query, key, values = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width)
        if layer["causal"]:
            later = torch.ones(steps, steps, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        mixed = functional.softmax(scores, dim=-1) @ values
        return linear(mixed.transpose(1, 2).reshape(rows, steps, units), p, "attention.out.", units)

    def mlp(self, value, layer, p):
        hidden = functional.gelu(linear(value, p, "mlp.up.", 4 * layer["units"]), approximate="tanh")
        return linear(hidden, p, "mlp.down.", layer["units"])

    def transformer_block(self, value, layer, p, _):
        if layer["post_norm"]:
            value = layer_norm(value + self.attention(value, layer, p), p, "norm1.")
            return layer_norm(value + self.mlp(value, layer, p), p, "norm2.")
        value = value + self.attention(layer_norm(value, p, "norm1."), layer, p)
        return value + self.mlp(layer_norm(value, p, "norm2."), layer, p)

    def layer_norm(self, value, _, p, __):
        return layer_norm(value, p)

    def pool(self, value, layer, _, __):
        return {"mean": value.mean(dim=1), "first": value[:, 0], "last": value[:, -1]}[layer["pooling"]]

    def recurrent(self, module_type, value, layer, p):
        module = module_type(value.shape[-1], layer["units"], batch_first=True).double()
        for ours, theirs in RECURRENT_NAMES.items():
            parameter = getattr(module, theirs)
            parameter.data = p[ours].detach().reshape(parameter.shape)
            p[ours] = parameter
        value = module(value)[0]
        return value[:, -1] if layer["last_step_only"] else value

    def lstm(self, value, layer, p, _):
        return self.recurrent(torch.nn.LSTM, value, layer, p)

    def gru(self, value, layer, p, _):
        return self.recurrent(torch.nn.GRU, value, layer, p)

    def conv(self, value, layer, p, _):
        return self.relu(conv_norm(value, p, "conv", "norm", layer["kernel"], layer["stride"]))

    def residual_block(self, value, layer, p, _):
        kernels, strides = ((1, 3, 1), (1, layer["stride"], 1)) if layer.get("bottleneck", 0) else ((3, 3), (layer["stride"], 1))
        inner = value
        for place, (kernel, stride) in enumerate(zip(kernels, strides), 1):
            inner = conv_norm(inner, p, f"conv{place}", f"norm{place}", kernel, stride)
            inner = inner if place == len(kernels) else self.relu(inner)
        if layer["stride"] > 1 or value.shape[-1] != layer["units"]:
            value = conv_norm(value, p, "shortcut", "shortcut_norm", 1, layer["stride"])
        return self.relu(value + inner)

    def max_pool(self, value, layer, *_):
        kernel = layer["kernel"]
        return functional.max_pool2d(value.permute(0, 3, 1, 2), kernel, layer["stride"], kernel // 2).permute(0, 2, 3, 1)

    def average_pool(self, value, *_):
        return value.mean(dim=(1, 2))

    def token_head(self, value, layer, p, _):
        table = self.parameters[0]["weight"] if layer["tied"] else p["weight"]
        return functional.linear(value, table.reshape(layer["vocabulary"], -1))

    def loss(self):
        """(loss, number of rows or tokens whose largest output is their class)"""
        spec = self.problem["model"]
        value = torch.tensor(self.problem["inputs"], dtype=torch.float64)
        value = value.reshape(self.problem["rows"], *spec["input_shape"])
        for layer, p, mask in zip(spec["layers"], self.parameters, self.problem["masks"]):
            value = getattr(self, layer.get("kind", "dense"))(value, layer, p, mask)
        targets = torch.tensor(self.problem["targets"], dtype=torch.float64)
        if spec["loss"] == "mse":
            return functional.mse_loss(value, targets.reshape(value.shape)), 0
        logits, classes = value.reshape(-1, value.shape[-1]), targets.long()
        return functional.cross_entropy(logits, classes), int((logits.argmax(dim=1) == classes).sum())


def evaluate(problem):
    """{"loss", "num_correct", "gradients": per layer {tensor: numbers}, "relu_margin"}"""
    torch.set_num_threads(1)
    model = TorchModel(problem)
    loss, num_correct = model.loss()
    loss.backward()
    return {"loss": loss.item(), "num_correct": num_correct, "relu_margin": model.relu_margin,
            "gradients": [{name: tensor.grad.reshape(-1).tolist() for name, tensor in layer.items()}
                          for layer in model.parameters]}
