"""Training data from files: windows of a CSV file and images train; what does not fit is refused in one line."""
import array
import json
import struct

from harness import DIGITS, SOURCE, main, records_of

GPL = SOURCE / "data" / "gpl-3.0.txt"
TRAIN = ("train", "--backend", "cpu", "--epochs", "2", "-q")


def npy(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values)


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
    case.run(*TRAIN, "--data", "d.csv", "--target", "y", "--window", "8", "-o", "a")
    case.run(*TRAIN, "--data", "d.csv", "--target", "y", "--window", "8", "--stride", "4", "-o", "b")
    assert last_loss(case, "a")["train_loss"] != last_loss(case, "b")["train_loss"]
    assert last_loss(case, "a")["validation_loss"] < 2, "targets of variance 1 were not learned at all"


def check_a_window_longer_than_the_file_is_refused(case):
    csv(case, 50)
    case.refused(2, "usage", *TRAIN, "--data", "d.csv", "--target", "y", "--window", "96",
                 says=["d.csv", "96 rows", "50 rows", "--window"])


def check_images_train(case):
    rows = [line.split(",") for line in DIGITS.read_text().split("\n")[1:-1]]
    pixels = bytes(int(v) * 15 for row in rows for v in row[:64])
    npy(case.path("x.npy"), "|u1", (len(rows), 8, 8, 1), pixels)
    npy(case.path("y.npy"), "<i8", (len(rows),), array.array("q", (int(row[64]) for row in rows)).tobytes())
    result = case.run("train", "--backend", "cpu", "--data", "x.npy", "--labels", "y.npy", "--epochs", "8", "--json", "-q",
                      "-o", "r")
    accuracy = {s["name"]: s["samples"][0] for s in json.loads(result.stdout)["series"]}["validation_accuracy"]
    assert accuracy > 0.9, f"accuracy {accuracy} after 8 epochs on handwritten digits"
    case.refused(2, "usage", *TRAIN, "--data", "x.npy", says=["x.npy", "--labels"])
    case.refused(2, "data-corrupt", *TRAIN, "--data", "x.npy", "--labels", "x.npy", says=["x.npy", "[1797, 8, 8, 1]"])


def check_a_token_beyond_the_vocabulary_is_refused(case):
    tokens(case.path("t.bin"), [1, 2, 3, 300, 5, 6])
    case.refused(2, "data-corrupt", *TRAIN, "--data", "t.bin", "--window", "2", "--vocabulary", "256",
                 says=["t.bin", "token 3 (byte 1030)", "300", "256"])
    tokens(case.path("raw.bin"), [1, 2, 300], header=False)
    case.refused(2, "data-corrupt", *TRAIN, "--data", "raw.bin", "--window", "2", "--vocabulary", "256",
                 says=["raw.bin", "token 2 (byte 4)"])
    case.refused(2, "usage", *TRAIN, "--data", "t.bin", "--window", "6", says=["t.bin", "6 tokens", "--window"])
    case.refused(2, "usage", *TRAIN, "--data", "t.bin", says=["t.bin", "--window"])
    case.path("odd.bin").write_bytes(b"abc")
    case.refused(2, "data-corrupt", *TRAIN, "--data", "odd.bin", "--window", "1", says=["odd.bin"])


def check_tokens_are_no_numbers(case):
    """A dense model would train on the indices as if they were measurements."""
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--window", "64", says=["gpl-3.0", "tokens", "medium"])


def check_options_without_effect_are_refused(case):
    csv(case, 50)
    for words, option in ((("--labels", "y.npy"), "--labels"), (("--tokenizer", "words"), "--tokenizer"),
                          (("--vocabulary", "9"), "--vocabulary"), (("--stride", "2"), "--stride")):
        case.refused(2, "usage", *TRAIN, "--data", "d.csv", "--target", "y", *words, says=[option])
        case.refused(2, "usage", *TRAIN, *words, says=[option, "--data"])
    case.refused(2, "usage", *TRAIN, "--window", "4", says=["--window", "--data"])
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--window", "8", "--target", "y", says=["--target", "text"])
    case.refused(2, "usage", *TRAIN, "--data", GPL, "--window", "8", "--tokenizer", "letters", says=["letters", "bytes"])


main(globals())
