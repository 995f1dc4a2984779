"""The installed package works from outside: find_package(amdahl), amdahl::amdahl, the program in its new place, and from the
Debian package. The version is the same wherever it is written."""
import pathlib
import re
import shutil
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
    if shutil.which("dpkg-shlibdeps"):
        run("cpack", "--config", binary / "CPackConfig.cmake", "-B", scratch)
        package, = pathlib.Path(scratch).glob("amdahl_*.deb")
        depends = run("dpkg-deb", "-f", package, "Depends")
        assert "libfmt" in depends and "libc6" in depends, depends
        run("dpkg-deb", "-x", package, pathlib.Path(scratch, "unpacked"))
        unpacked = pathlib.Path(scratch, "unpacked/usr")
        assert run(unpacked / "bin/amdahl", "--version").startswith("amdahl "), "the packaged program does not start"
        assert (unpacked / "share/man/man1/amdahl-bench.1").exists()
    else:
        print("   skipped: the Debian package, dpkg-shlibdeps is not installed (dpkg-dev)")

version = re.search(r"project\(amdahl VERSION ([0-9.]+)", (source / "CMakeLists.txt").read_text())[1]
assert f"\nversion: {version}\n" in (source / "CITATION.cff").read_text(), "CITATION.cff has another version"
assert f"\n## [{version}]" in (source / "CHANGELOG.md").read_text(), "CHANGELOG.md does not know this version"
print("package: ok")
