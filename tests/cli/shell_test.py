"""Completion scripts and manual pages, made from the option tables, and colour on terminals only."""
import os
import pty
import re
import shutil
import subprocess

import harness

ESCAPE = "\033["
COMMANDS = ("study", "train", "plan", "calibrate", "compare", "report", "info", "doctor", "links", "collectives", "all", "sensor")


def shell_file(case, name):
    case.run("--write-shell-files", "shell")
    return case.path("shell") / name


def bash_offers(case, *words):
    """What bash would offer for the last of `words`, with the script and without any other completion."""
    script = shell_file(case, "bash-completion/completions/amdahl")
    typed = " ".join("'" + word + "'" for word in words)
    asked = f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _amdahl; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    result = subprocess.run(["bash", "--norc", "-c", asked], cwd=case.folder, capture_output=True, text=True)
    errors = [line for line in result.stderr.splitlines() if "not currently executing completion" not in line]
    assert result.returncode == 0 and not errors, result
    return result.stdout.split()


def options_of_help(case, *command):
    """All but those that every command has, which are one line."""
    return set(re.findall(r"--[a-z][a-z0-9-]*", "\n".join(
        re.findall(r"^ +((?:-\w, )?--[a-z0-9-]+(?:, --[a-z0-9-]+)*)", case.run(*command, "--help-all").stdout, re.MULTILINE))))


def check_bash_offers_commands_options_and_values(case):
    assert set(COMMANDS) <= set(bash_offers(case, "amdahl", ""))
    assert bash_offers(case, "amdahl", "coll") == ["collectives"]
    assert {"voxelize", "resample", "bench"} <= set(bash_offers(case, "amdahl", "sensor", ""))
    assert set(bash_offers(case, "amdahl", "study", "--launch", "")) == {"eager", "graph"}
    assert set(bash_offers(case, "amdahl", "info", "--topology", "=", "")) == {"matrix", "json", "dot", "svg"}
    assert bash_offers(case, "amdahl", "study", "--launch", "=", "gr") == ["graph"]


def check_bash_offers_every_option_of_help(case):
    for command in (["study"], ["links"], ["doctor"], ["collectives"], ["plan"], ["sensor", "bench"]):
        options = options_of_help(case, *command)
        assert len(options) > 4, (command, options)
        offered = set(bash_offers(case, "amdahl", *command, "--"))
        assert options <= offered, (command, options - offered)


def all_helps(case):
    """(command words, help text) of every command, found by the manual pages."""
    for page in sorted(shell_file(case, "man/man1").iterdir()):
        words = page.stem.split("-")[1:]
        yield words, case.run(*words, "--help-all").stdout


def check_help_shows_options_as_they_are_written(case):
    seen = {}
    for words, text in all_helps(case):
        assert "{false}" not in text and "{true}" not in text, (words, text)
        assert not re.search(r"\b(TEXT|UINT|INT|FLOAT)\b| =\[", text.split("example")[0]), (words, text)
        options = [line.strip() for line in text.split("\n") if re.match(r" +-", line)]
        for line in options:
            assert re.match(r"(-\w(, )?)?(--[a-z0-9-]+(, --[a-z0-9-]+)*)?(\[=[A-Z]+\]| [A-Z]+( \.\.\.)?)?( {2,}|$| [A-Z(])", line), line
        seen[tuple(words)] = text
    assert re.search(r"^  --no-check  +Do not verify", seen["links",], re.MULTILINE), seen["links",]
    assert re.search(r"^  --trace\[=FILE\]  +Trace", seen["study",], re.MULTILINE), seen["study",]
    assert re.search(r"^  -o, --output-dir DIR  +Run folder \(default: results/local/study-TIME\)$", seen["study",], re.MULTILINE)
    assert re.search(r"^  --runs N  +Runs of each cell: its samples \(default: 5\)$", seen["study",], re.MULTILINE)
    assert re.search(r"^  -t, --test LIST \.\.\.  +Tests.*\(default: default\)$", seen["links",], re.MULTILINE), seen["links",]
    assert "\\fB\\-\\-trace\\fR[=\\fIFILE\\fR]" in shell_file(case, "man/man1/amdahl-study.1").read_text()
    assert "--no-check" in bash_offers(case, "amdahl", "links", "--no") and "--trace" in bash_offers(case, "amdahl", "study", "--tr")
    for file, text in (("zsh/site-functions/_amdahl", "--no-check[Do not verify"),
                       ("fish/vendor_completions.d/amdahl.fish", "-l no-check -d ")):
        assert text in shell_file(case, file).read_text(), file


def check_help_is_short(case):
    """The most used options in at most 40 lines; --help-all has the others, and the help says how many."""
    rows = commands = 0
    for words, text in all_helps(case):
        short = case.run(*words, "--help").stdout
        assert short.count("\n") <= 40, (words, short.count("\n"))
        left_out = re.search(r"^(\d+) more options?: amdahl.* --help-all$", short, re.MULTILINE)
        numbers = [len(re.findall(r"^  -", one, re.MULTILINE)) for one in (short, text)]
        assert numbers[1] - numbers[0] == int(left_out[1] if left_out else 0), (words, numbers)
        rows += numbers[1]
        commands += bool(words) and words != ["sensor"]
    assert commands <= 16 and rows <= 310, (commands, rows)


def check_strategies_are_described(case):
    text = case.run("plan", "--help-all").stdout
    for says in (r"dp +naive DataParallel", "replicated +every device steps the full batch", "zero1 +", "ddp +"):
        assert re.search(f"^  {says}", text, re.MULTILINE), says
    method = (harness.SOURCE / "docs" / "method.md").read_text()
    for name in ("single", "ddp", "zero1", "dp", "replicated"):
        assert re.search(rf"^\| `{name}` \| ", method, re.MULTILINE), name


def check_bash_offers_files(case):
    case.write("cloud.npy", "")
    assert bash_offers(case, "amdahl", "sensor", "voxelize", "clo") == ["cloud.npy"]
    assert bash_offers(case, "amdahl", "links", "--output-dir", "clo") == ["cloud.npy"]


def check_offers_are_what_errors_name(case):
    """Offers stand beside the checks of values: they agree when the error of a refused value names every one."""
    for command, option in (("info", "--topology"), ("info", "--color"), ("study", "--launch"), ("study", "--math"),
                            ("study", "--mode"), ("study", "--scaling"),
                            ("study", "--optimizer"), ("collectives", "--format")):
        offered = bash_offers(case, "amdahl", command, option, "=", "")
        assert len(offered) > 1, (command, option, offered)
        case.refused(2, "usage", command, f"{option}=nonsense", says=offered)


def check_fish_script(case):
    script = shell_file(case, "fish/vendor_completions.d/amdahl.fish").read_text()
    for command in COMMANDS:
        assert f" -a {command} " in script, command
    assert "-l launch -r -a 'eager graph'" in script.replace("  ", " "), script
    fish = shutil.which("fish")
    if fish:
        case.write("amdahl.fish", script)
        asked = subprocess.run([fish, "-N", "-c", "source amdahl.fish; complete -C 'amdahl coll'"], cwd=case.folder,
                               capture_output=True, text=True)
        assert asked.returncode == 0 and "collectives" in asked.stdout, asked
    else:
        print("fish is not installed: its script was read, not run")


def check_zsh_script(case):
    script = shell_file(case, "zsh/site-functions/_amdahl").read_text()
    assert script.startswith("#compdef amdahl\n")
    for command in COMMANDS:
        assert f"_amdahl_{command}() {{" in script and f"    {command}) _amdahl_{command} ;;" in script, command
    assert "(eager graph)" in script
    zsh = shutil.which("zsh")
    if zsh:
        case.write("_amdahl", script)
        parsed = subprocess.run([zsh, "-fn", "_amdahl"], cwd=case.folder, capture_output=True, text=True)
        assert parsed.returncode == 0 and not parsed.stderr, parsed
    else:
        print("zsh is not installed: its script was read, not parsed")


def check_manual_pages(case):
    folder = shell_file(case, "man/man1")
    pages = {page.name for page in folder.iterdir()}
    assert {"amdahl.1", "amdahl-sensor-bench.1"} | {f"amdahl-{command}.1" for command in COMMANDS} <= pages, pages
    study = (folder / "amdahl-study.1").read_text()
    assert ".SH EXIT STATUS" in (folder / "amdahl.1").read_text()
    assert "recompute" in (folder / "amdahl-plan.1").read_text()
    for option in options_of_help(case, "study"):
        assert "\\fB" + option.replace("-", "\\-") + "\\fR" in study, option
    groff = shutil.which("groff")
    if not groff:
        print("groff is not installed: pages were read, not formatted")
        return
    for page in sorted(pages):
        result = subprocess.run([groff, "-man", "-Tascii", "-ww", page], cwd=folder, capture_output=True,
                                text=True)
        assert result.returncode == 0 and not result.stderr, (page, result.stderr)


def on_terminal(case, *words, **environment):
    """What a terminal gets from a command that ends in an error."""
    main, other = pty.openpty()
    unset = {key: value for key, value in harness.ENVIRONMENT.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen([harness.AMDAHL, *words], cwd=case.folder, stdout=other, stderr=other,
                               env={**unset, "TERM": "xterm", **environment})
    os.close(other)
    text = harness.read_terminal(main)
    process.wait()
    os.close(main)
    return text


def check_colour_is_for_terminals(case):
    wrong = ("info", "--topology=nothing")
    assert f"{ESCAPE}31merror{ESCAPE}0m[usage]" in on_terminal(case, *wrong)
    assert ESCAPE not in on_terminal(case, *wrong, NO_COLOR="1")
    assert f"{ESCAPE}31m" in on_terminal(case, *wrong, NO_COLOR="")  # no-color.org: only when not empty
    assert ESCAPE not in on_terminal(case, *wrong, TERM="dumb")
    assert ESCAPE not in on_terminal(case, *wrong, "--color", "never")
    assert ESCAPE not in case.run(*wrong, code=2).stderr  # a pipe
    assert f"{ESCAPE}31m" in case.run(*wrong, "--color", "always", code=2, env={"NO_COLOR": "1"}).stderr
    case.refused(2, "usage", "info", "--color", "purple", says=["--color", "always"])


def check_no_colour_in_json_and_files(case):
    doctor = ("doctor", "--backend", "cpu", "--devices", "2", "--quiet", "--color", "always")
    shown = case.run(*doctor, "--json", "--output-dir", "out")
    assert ESCAPE not in shown.stdout
    for file in case.path("out").rglob("*"):
        if file.is_file():
            assert ESCAPE.encode() not in file.read_bytes(), file


harness.main(globals())
