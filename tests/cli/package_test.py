"""The installed package works from outside: find_package(amdahl), amdahl::amdahl, and the program in its new place."""
import pathlib
import subprocess
import sys
import tempfile

source, binary = map(pathlib.Path, sys.argv[1:3])


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


with tempfile.TemporaryDirectory() as scratch:
    prefix, build = pathlib.Path(scratch, "prefix"), pathlib.Path(scratch, "build")
    run("cmake", "--install", binary, "--prefix", prefix)
    run("cmake", "-S", source / "examples/find_package", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    printed = run(build / "uses_amdahl")
    assert "6,885,376 parameters" in printed, printed
    assert run(prefix / "bin/amdahl", "--version").startswith("amdahl "), "the installed program does not start"
    for schema in ("record", "summary", "model"):
        assert (prefix / f"share/amdahl/schema/{schema}.schema.json").exists(), schema
    for file in ("man/man1/amdahl-study.1", "bash-completion/completions/amdahl", "zsh/site-functions/_amdahl",
                 "fish/vendor_completions.d/amdahl.fish"):
        assert (prefix / "share" / file).exists(), file
print("package: ok")
