"""Files as people have them, through the commands: what they mean is read, or refused with what to do."""
import ast
import json
import struct

import harness

CPU = ("--backend", "cpu")
TRAIN = ("train", *CPU, "-q")
USAGE, CORRUPT = (2, "usage"), (2, "data-corrupt")


def saved(case, name, kind):
    """The numbers of a .npy file, in its order, and its shape."""
    content = case.path(name).read_bytes()
    size, = struct.unpack("<H", content[8:10])
    shape = ast.literal_eval(content[10:10 + size].decode())["shape"]
    return [value for value, in struct.iter_unpack("<" + kind, content[10 + size:])], shape


def near(values, expected, tolerance=1e-6):
    return len(values) == len(expected) and all(abs(a - b) <= tolerance for a, b in zip(values, expected))


def floats(case, name, rows, kind="f"):
    case.path(name).write_bytes(b"".join(struct.pack(f"<{len(row)}{kind}", *row) for row in rows))
    return name


def sensor(case, *words):
    return json.loads(case.run("sensor", *words, *CPU, "--json").stdout)


NUSCENES = [(10, 0, 0, 100, 0), (0, 10, 0, 50, 1), (0, 0, 1, 20, 2), (5, 5, 1, 7, 3)]


def check_nuscenes(case):
    grid = ("--voxel-size", "1", "--grid", "40", "--min", "-20,-20,-20", "-o", "g.npy")
    for name, words in ((floats(case, "a.pcd.bin", NUSCENES), ()), (floats(case, "a.bin", NUSCENES), ("--data-options", "bin-columns=5"))):
        found = sensor(case, "voxelize", name, *grid, *words)
        assert found["points"] == 4 and found["occupied"] == 4 and found["warnings"] == [], found
        grid_values, shape = saved(case, "g.npy", "i")
        assert shape == (40, 40, 40), shape
        voxels = [(i // 1600, i // 40 % 40, i % 40) for i, value in enumerate(grid_values) if value]
        assert voxels == [(20, 20, 21), (20, 30, 20), (25, 25, 21), (30, 20, 20)], voxels
    found = sensor(case, "voxelize", floats(case, "d.bin", [row[:3] for row in NUSCENES], "d"), *grid, "--data-options", "bin-columns=3",
                   "--data-options", "bin-type=f64")
    assert found["occupied"] == 4, found
    warned = case.run("sensor", "voxelize", "a.bin", *grid, *CPU).stderr
    assert "may be 4 of 5" in warned and "--data-options bin-columns" in warned, warned
    case.refused(*CORRUPT, "sensor", "voxelize", "d.bin", *grid, says=["d.bin", "doubles", "--data-options bin-type=f64"])
    case.refused(*USAGE, "sensor", "voxelize", harness.SOURCE / "data" / "vlp16.ply", *grid, "--data-options", "bin-columns=4",
                 says=["--data-options bin-columns"])
    bench = ("sensor", "bench", *CPU, "-q", "--samples", "3", "--calls", "2", "--grid", "8", "--voxel-modes", "count", "--json")
    record = json.loads(case.run(*bench, "--input", "a.bin", "--data-options", "bin-columns=5").stdout)["records"][0]
    assert record["axes"]["points"] == 4, record["axes"]


def check_positions_say_what_floats_lose(case):
    case.write("gps.csv", "time,lat,lon\n" + "".join(
        f"{i / 10},{47.3977418 + i * 1e-7:.9f},{8.5455938 + i * 1e-7:.9f}\n" for i in range(20)))
    result = case.run("sensor", "resample", "gps.csv", "--rate", "20", *CPU, "--json")
    warnings = json.loads(result.stdout)["warnings"]
    assert len(warnings) == 2 and "'lat'" in warnings[0] and "by up to 1.43e-06" in warnings[0], warnings
    assert result.stderr.count("warning: ") == 2, result.stderr


def check_the_time_column(case):
    case.write("t.csv", "x,time_s\n0,0\n2,1\n8,2\n10,3\n")
    sensor(case, "resample", "t.csv", "--rate", "2", "-o", "o.npy")
    assert near(saved(case, "o.npy", "f")[0], [0, 1, 2, 5, 8, 9, 10])
    case.write("two.csv", "x,t_a,t_b\n0,0,0\n2,1,2\n")
    case.refused(*USAGE, "sensor", "resample", "two.csv", "--rate", "1", says=["two.csv", "t_a, t_b", "--data-options time-column"])
    found = sensor(case, "resample", "two.csv", "--rate", "1", "--data-options", "time-column=t_b")
    assert found["last"] == 2 and found["streams"][0]["columns"] == ["x", "t_a"], found


def check_column_types_of_all_rows(case):
    case.write("na.csv", "t,x,y\n0,NA,1\n1,2,3\n2,3,4\n")
    case.refused(*CORRUPT, "sensor", "resample", "na.csv", "--rate", "1", says=["line 2, column 2 'x'", "--data-options missing=drop"])
    found = sensor(case, "resample", "na.csv", "--rate", "1", "--data-options", "missing=drop")
    assert found["streams"][0]["columns"] == ["x", "y"] and found["first"] == 1, found


def validation(case, *words):
    case.run(*TRAIN, *words, "-o", "r")
    result = {s["name"]: s["samples"][0] for s in harness.records_of(case.path("r"))[-1]["series"]}
    harness.shutil.rmtree(case.path("r"))
    return result


def check_decimal_commas_are_one_number(case):
    case.write("eu.csv", "temp;y\n" + "".join(f"{i / 2:g};{i}\n".replace(".", ",") for i in range(40)))
    result = case.run("train", *CPU, "--data", "eu.csv", "--target", "y", "--data-options", "regression", "--batch-size", "8", "--epochs", "2",
                      "-o", "r")
    assert "column 1 'temp': '0,5' in line 3 is read as 0.5" in result.stderr, result.stderr
    case.write("both.csv", "temp;y\n0,5;1\n1.5;2\n2;3\n3;4\n")
    case.refused(*CORRUPT, *TRAIN, "--data", "both.csv", "--target", "y", says=["both.csv, line 3, column 1 'temp'", "'1.5'"])


def check_markers_of_missing_values(case):
    case.write("age.csv", "age,y\n" + "".join(f"{'-' if i % 10 < 3 else 20 + i},{i * 1.5}\n" for i in range(60)))
    case.refused(*CORRUPT, *TRAIN, "--data", "age.csv", "--target", "y",
                 says=["age.csv, line 2, column 1 'age'", "'-' is not a number", "--data-options missing-values"])
    words = ("--data", "age.csv", "--target", "y", "--batch-size", "8", "--data-options", "missing-values=-")
    case.refused(*CORRUPT, *TRAIN, *words, says=["'-' is a missing value", "--data-options missing=drop"])
    assert validation(case, *words, "--data-options", "missing=drop", "--epochs", "1")["validation_loss"] > 0


def check_large_numbers_keep_their_differences(case):
    case.write("unix.csv", "ts,cls\n" + "".join(f"{1_700_000_000 + i},{i // 30}\n" for i in range(60)))
    accuracy = validation(case, "--data", "unix.csv", "--target", "cls", "--batch-size", "8", "--epochs", "40", "--lr",
                          "0.01")["validation_accuracy"]
    assert accuracy > 0.9, f"accuracy {accuracy} of two classes that one number separates"


def check_numbers_in_the_header(case):
    case.write("years.csv", "region,2019,2020,2021\n" + "".join(
        f"r{i % 3},{i + 0.5},{i + 0.25},{i + 0.75}\n" for i in range(40)))
    words = ("train", *CPU, "--data", "years.csv", "--batch-size", "8", "--epochs", "1", "-o")
    told = case.run(*words, "a", "--target", "2021").stderr
    assert "first line is taken as names" in told and "--data-options header" in told, told
    told = case.run(*words, "b", "--target", "2021", "--data-options", "header=yes").stderr
    assert "first line" not in told, told
    case.refused(*USAGE, *words, "c", "--target", "c3", says=["no column 'c3'", "2021"])
    case.run(*words, "d", "--target", "c3", "--data-options", "header=no")
    case.refused(*USAGE, *words, "e", "--target", "2021", "--data-options", "header=maybe", says=["--data-options header", "maybe", "auto"])


TOKENS = {"version": 1, "name": "g", "input_shape": [16], "loss": "softmax_cross_entropy", "layers": [
    {"kind": "embedding", "units": 8, "vocabulary": 65536}, {"kind": "transformer_block", "units": 8, "heads": 2, "causal": True},
    {"kind": "layer_norm"}, {"kind": "token_head", "vocabulary": 65536, "tied": True}]}


def check_tokens_of_other_widths(case):
    case.write("model.json", json.dumps(TOKENS))
    tokens = [(i * 40503) % 65521 for i in range(400)]
    body = struct.pack("<400I", *tokens)
    case.path("llama.bin").write_bytes(struct.pack("<256i", 20240801, 7, 400, *[0] * 253) + body)
    case.path("raw.bin").write_bytes(body)
    case.path("int64.bin").write_bytes(struct.pack("<400Q", *tokens))
    words = (*TRAIN, "--model", "model.json", "--epochs", "1", "--batch-size", "4", "--data")
    for name, more in (("llama.bin", ()), ("raw.bin", ("--data-options", "bin-type=u32")), ("int64.bin", ("--data-options", "bin-type=u64"))):
        case.run(*words, name, *more, "-o", name + ".run")
    losses = {json.dumps([s for s in harness.records_of(case.path(name + ".run"))[-1]["series"] if "loss" in s["name"]])
              for name in ("llama.bin", "raw.bin", "int64.bin")}
    assert len(losses) == 1, f"the same tokens, and other losses: {losses}"
    case.refused(*CORRUPT, *words, "raw.bin", says=["raw.bin", "32 bits", "--data-options bin-type=u32"])
    case.refused(*CORRUPT, *words, "int64.bin", says=["int64.bin", "64 bits", "--data-options bin-type=u64"])
    case.path("weights.bin").write_bytes(struct.pack("<256i", 20240326, 3, *[1] * 254) + body)
    case.refused(*CORRUPT, *words, "weights.bin", says=["weights.bin", "weights of a model"])


def check_wide_text(case):
    case.path("wide.txt").write_bytes("some text \n".encode("utf-16") * 200)
    case.refused(*CORRUPT, *TRAIN, "--data", "wide.txt", "--data-options", "window=8", says=["wide.txt, line 1", "UTF-16", "iconv"])


def check_rates_beyond_all_memory(case):
    case.write("ns.csv", "#timestamp [ns],x\n0,1\n95000000,2\n")
    case.refused(*USAGE, "sensor", "resample", "ns.csv", "--rate", "50000", *CPU,
                 says=["--rate 50000", "4.75", "0 and 95000000", "per unit"])
    assert sensor(case, "resample", "ns.csv", "--rate", "5e-8")["shape"] == [1, 5, 1]


def check_delimiters_of_track_files(case):
    case.write("tum.txt", "# timestamp tx\n1305031449.80 0\n1305031449.81 1\n")
    found = sensor(case, "resample", "tum.txt", "--targets", "3", "-o", "o.npy")
    assert near(saved(case, "o.npy", "f")[0], [0, 0.5, 1], 1e-3)
    assert found["streams"][0]["columns"] == ["tx"], found
    case.write("bar.csv", "t/x\n0/1\n1/2\n")
    case.refused(2, "data-corrupt", "sensor", "resample", "bar.csv", "--rate", "1", says=["bar.csv", "--data-options delimiter"])
    assert sensor(case, "resample", "bar.csv", "--rate", "1", "--data-options", "delimiter=/")["shape"] == [1, 2, 1]


PLY = "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\nend_header\n"


def check_line_ends_of_ply(case):
    words = ("--voxel-size", "1", "--grid", "4", "--min", "0,0,0")
    body = struct.pack("<6f", 0, 0, 0, 1, 1, 1)
    for name, content in (("blank", (PLY + "\n0 0 0\n\n1 1 1\n\n").encode()),
                          ("cr", (PLY + "0 0 0\n1 1 1\n").replace("\n", "\r").encode()),
                          ("crlf", (PLY + "\n0 0 0\n1 1 1\n").replace("\n", "\r\n").encode()),
                          ("binary", PLY.replace("ascii", "binary_little_endian").encode() + body + b"\n"),
                          ("binary cr", PLY.replace("ascii", "binary_little_endian").replace("\n", "\r").encode() + body)):
        case.path(f"{name}.ply").write_bytes(content)
        found = sensor(case, "voxelize", f"{name}.ply", *words)
        assert found["points"] == 2 and found["occupied"] == 2, (name, found)
    case.path("more.ply").write_bytes(PLY.replace("ascii", "binary_little_endian").encode() + body + b"\n\n\n\n")
    case.refused(*CORRUPT, "sensor", "voxelize", "more.ply", *words, says=["4 bytes follow"])


def check_what_is_no_run(case):
    case.write("m.json", json.dumps(TOKENS))
    for name in (harness.DIGITS, case.write("chat.jsonl", '{"role": "user"}\n'), harness.SOURCE / "README.md"):
        for command in (("report",), ("report", "--csv", "-")):
            case.refused(*USAGE, *command, name, says=["no run of amdahl", "records.jsonl"])
    case.refused(*USAGE, "report", "m.json", says=["m.json is no run folder"])
    case.refused(*USAGE, "compare", harness.DIGITS, harness.DIGITS, says=["no run of amdahl, and not valid JSON"])


def check_an_absent_file_comes_first(case):
    for command in ("train", "study"):
        for name in ("nosuch.csv", "nosuch.bin", "nosuch.txt", "nosuch.npy"):
            case.refused(*USAGE, command, *CPU, "--data", name, says=[name, "No such file"])


harness.main(globals())
