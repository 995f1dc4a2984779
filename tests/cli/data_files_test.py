"""Training data from files: windows of a CSV file and images train; what does not fit is refused in one line."""
import array
import json
import struct

from harness import DIGITS, SOURCE, main, records_of, save_npy

GPL = SOURCE / "data" / "gpl-3.0.txt"
TRAIN = ("train", "--backend", "cpu", "--epochs", "2", "-q")


def tokens(path, values, header=True):
    words = array.array("H", values).tobytes()
    path.write_bytes((struct.pack("<3i", 20240520, 1, len(values)) + bytes(1012) if header else b"") + words)


def csv(case, rows):
    lines = ["time,a,b,y"] + [f"{r},{r % 7},{(r * r) % 11},{(r % 7) * 0.5}" for r in range(rows)]
    return case.write("d.csv", "\n".join(lines) + "\n")


def last_loss(case, folder):
    return {s["name"]: s["samples"][0] for s in records_of(case.path(folder))[-1]["series"]}


def check_windows_of_a_csv_file_train(case):
    csv(case, 400)
    case.run(*TRAIN, "--data", "d.csv", "--target", "y", "--data-options", "window=8", "-o", "a")
    case.run(*TRAIN, "--data", "d.csv", "--target", "y", "--data-options", "window=8", "--data-options", "stride=4", "-o", "b")
    assert last_loss(case, "a")["train_loss"] != last_loss(case, "b")["train_loss"]
    assert last_loss(case, "a")["validation_loss"] < 2, "targets of variance 1 were not learned at all"


def check_a_window_longer_than_the_file_is_refused(case):
    csv(case, 50)
    case.refused(2, "usage", *TRAIN, "--data", "d.csv", "--target", "y", "--data-options", "window=96",
                 says=["d.csv", "96 rows", "50 rows", "--data-options window"])


def check_images_train(case):
    rows = [line.split(",") for line in DIGITS.read_text().split("\n")[1:-1]]
    pixels = bytes(int(v) * 15 for row in rows for v in row[:64])
    save_npy(case.path("x.npy"), "|u1", (len(rows), 8, 8, 1), pixels)
    save_npy(case.path("y.npy"), "<i8", (len(rows),), array.array("q", (int(row[64]) for row in rows)).tobytes())
    result = case.run("train", "--backend", "cpu", "--data", "x.npy", "--data-options", "labels=y.npy", "--epochs", "8", "--json", "-q",
                      "-o", "r")
    accuracy = {s["name"]: s["samples"][0] for s in json.loads(result.stdout)["series"]}["validation_accuracy"]
    assert accuracy > 0.9, f"accuracy {accuracy} after 8 epochs on handwritten digits"
    case.write("conv.json", json.dumps({"version": 1, "name": "conv", "input_width": 64, "input_shape": [8, 8, 1],
                                        "loss": "softmax_cross_entropy", "layers": [
                                            {"kind": "conv", "units": 8}, {"kind": "residual_block", "units": 8},
                                            {"kind": "average_pool"}, {"units": 10}]}))
    case.run(*TRAIN, "--model", "conv.json", "--lr", "0.01", "--data", "x.npy", "--data-options", "labels=y.npy", "-o", "conv")
    assert last_loss(case, "conv")["validation_accuracy"] > 0.5
    case.refused(2, "usage", *TRAIN, "--data", "x.npy", says=["x.npy", "--data-options labels"])
    case.refused(2, "data-corrupt", *TRAIN, "--data", "x.npy", "--data-options", "labels=x.npy", says=["x.npy", "[1797, 8, 8, 1]"])


def check_a_token_beyond_the_vocabulary_is_refused(case):
    tokens(case.path("t.bin"), [1, 2, 3, 300, 5, 6])
    case.refused(2, "data-corrupt", *TRAIN, "--data", "t.bin", "--data-options", "window=2", "--data-options", "vocabulary=256",
                 says=["t.bin", "token 3 (byte 1030)", "300", "256"])
    tokens(case.path("raw.bin"), [1, 2, 300], header=False)
    case.refused(2, "data-corrupt", *TRAIN, "--data", "raw.bin", "--data-options", "window=2", "--data-options", "vocabulary=256",
                 says=["raw.bin", "token 2 (byte 4)"])
    case.refused(2, "usage", *TRAIN, "--data", "t.bin", "--data-options", "window=6", says=["t.bin", "6 tokens", "--data-options window"])
    case.refused(2, "usage", *TRAIN, "--data", "t.bin", says=["t.bin", "--data-options window"])
    case.path("odd.bin").write_bytes(b"abc")
    case.refused(2, "data-corrupt", *TRAIN, "--data", "odd.bin", "--data-options", "window=1", says=["odd.bin"])


def check_tokens_are_no_numbers(case):
    """A dense model would train on the indices as if they were measurements."""
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--data-options", "window=64", says=["gpl-3.0", "tokens", "medium"])


CHARACTERS = {"version": 1, "name": "characters", "input_width": 32, "input_shape": [32], "loss": "softmax_cross_entropy",
              "layers": [{"kind": "embedding", "units": 32, "vocabulary": 256},
                         {"kind": "transformer_block", "units": 32, "heads": 2, "causal": True},
                         {"kind": "layer_norm"}, {"kind": "token_head", "vocabulary": 256}]}


def text_loss(case, name, *words):
    case.write("characters.json", json.dumps(CHARACTERS))
    case.run("train", "--backend", "cpu", "-q", "--model", "characters.json", "--optimizer", "adamw", "--lr", "0.003",
             "--clip-norm", "1", "--epochs", "4", *words, "-o", name)
    return last_loss(case, name)["validation_loss"]


def check_a_text_trains_a_model_of_tokens(case):
    """A uniform guess over 256 bytes costs ln 256 = 5.5; the frequencies of the bytes alone about 3.1."""
    losses = [text_loss(case, f"on{devices}", "--data", GPL, "--devices", devices) for devices in (1, 2)]
    print(f"   validation loss of the text: {losses[0]:.3f} on one device, {losses[1]:.3f} on two")
    assert losses[0] < 2.7 and abs(losses[0] - losses[1]) < 0.02, losses
    tokens(case.path("t.bin"), list(GPL.read_bytes()))  # the same tokens from a file
    assert text_loss(case, "bin", "--data", "t.bin") == losses[0]
    assert text_loss(case, "words", "--data", GPL, "--data-options", "tokenizer=words") < 5.5  # the 255 most frequent ones
    case.refused(2, "usage", *TRAIN, "--model", "characters.json", "--data", DIGITS, "--target", "label",
                 says=["digits", "characters", "tokens"])
    tokens(case.path("large.bin"), [1] * 40 + [256] + [1] * 40)
    case.refused(2, "data-corrupt", *TRAIN, "--model", "characters.json", "--data", "large.bin",
                 says=["large.bin", "token 40 (byte 1104)", "256"])
    case.refused(2, "usage", *TRAIN, "--model", "characters.json", "--data", "t.bin", "--data-options", "vocabulary=100",
                 says=["--data-options vocabulary is 100", "256"])


def check_documents_divide_rows_of_tokens(case):
    """Documents of equal letters: within one the next token is certain, behind its end it is a guess."""
    text = "".join(chr(97 + length % 26) * (length * 7 % 40) + "\n" for length in range(1, 900))
    case.write("documents.txt", text)
    words = ("--data", "documents.txt", "--data-options")
    whole = text_loss(case, "whole", *words, "window=32")
    losses = {plan: text_loss(case, plan, *words, "window=32,end-token=10", "--plan", plan)
              for plan in ("dp1", "dp2,m2,zero3", "pp2,m4,split=flops", "tp2.pp2,m2,sp,split=flops")}
    print(f"   validation loss of rows {whole:.4f}, of documents {losses}")
    assert abs(losses["dp1"] - whole) > 0.001, (whole, losses)
    assert all(abs(loss - losses["dp1"]) < 1e-3 for loss in losses.values()), losses
    model = json.loads(json.dumps(CHARACTERS))
    model["layers"][0]["end_token"] = 10  # the model file says the same
    case.write("ended.json", json.dumps(model))
    case.run("train", "--backend", "cpu", "-q", "--model", "ended.json", "--optimizer", "adamw", "--lr", "0.003",
             "--clip-norm", "1", "--epochs", "4", *words, "window=32", "-o", "ended")
    assert last_loss(case, "ended")["validation_loss"] == losses["dp1"]
    tokens(case.path("t.bin"), list(text.encode()))
    case.refused(2, "usage", *TRAIN, "--model", "characters.json", "--data", "t.bin", "--data-options", "end-token=256",
                 says=["end_token is 256 in a vocabulary of 256", "0 to 255"])
    for bad in ("-1", "x"):
        case.refused(2, "usage", *TRAIN, "--model", "characters.json", "--data", "t.bin", "--data-options",
                     f"end-token={bad}", says=["--data-options end-token", bad])
    model["layers"][1]["causal"] = False
    case.write("encoder.json", json.dumps(model))
    case.refused(2, "usage", *TRAIN, "--model", "encoder.json", "--data", "t.bin",
                 says=["end_token 10", "layer 1 (transformer_block)", "causal"])
    case.refused(2, "usage", *TRAIN, "--data", DIGITS, "--target", "label", "--data-options", "end-token=3",
                 says=["--data-options end-token", "a CSV file"])
    case.refused(2, "usage", *TRAIN, "--data-options", "end-token=3", says=["--data-options end-token", "--data"])


def check_windows_train_a_recurrent_model(case):
    csv(case, 400)
    case.write("lstm.json", json.dumps({"version": 1, "name": "steps", "input_width": 24, "input_shape": [8, 3], "loss": "mse",
                                        "layers": [{"kind": "lstm", "units": 16, "last_step_only": True}, {"units": 1}]}))
    words = (*TRAIN, "--model", "lstm.json", "--data", "d.csv", "--target", "y")
    case.run(*words, "-o", "own")  # windows of as many rows as the model has steps
    case.run(*words, "--data-options", "window=8", "-o", "given")
    case.run(*words, "--data-options", "window=5", "-o", "short")
    own, given, short = (last_loss(case, name)["train_loss"] for name in ("own", "given", "short"))
    assert own == given and own != short, (own, given, short)


def check_options_without_effect_are_refused(case):
    csv(case, 50)
    for words, option in ((("--data-options", "labels=y.npy"), "--data-options labels"), (("--data-options", "tokenizer=words"), "--data-options tokenizer"),
                          (("--data-options", "vocabulary=9"), "--data-options vocabulary"), (("--data-options", "stride=2"), "--data-options stride")):
        case.refused(2, "usage", *TRAIN, "--data", "d.csv", "--target", "y", *words, says=[option])
        case.refused(2, "usage", *TRAIN, *words, says=[option, "--data"])
    case.refused(2, "usage", *TRAIN, "--data-options", "window=4", says=["--data-options window", "--data"])
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--data-options", "window=8", "--target", "y", says=["--target", "text"])
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--data-options", "window=8", "--data-options", "tokenizer=letters", says=["letters", "bytes"])


main(globals())
