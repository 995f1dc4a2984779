"""`amdahl_lab.step` and the launcher: counts, results and errors of scripts, most of them without PyTorch."""
import subprocess
import sys

import lab_driver

LOOP = """
    import time
    import amdahl_lab
    for number in range({steps}):
        with amdahl_lab.step(samples=4):
            time.sleep(0.01)
    print("after the loop")
"""


def check_a_script_without_pytorch(case):
    script = case.write("plain.py", """
        import sys, time
        import amdahl_lab
        while True:
            time.sleep(0.02)
            with amdahl_lab.step(samples=4):
                time.sleep(0.01)
                assert "torch" not in sys.modules
    """)
    result = case.good(script, steps=6).results[0]
    assert "account" not in result and result["samples"] == 4 and result["device"] == "cpu", result
    assert (result["steps"], result["warmup"], result["optimizer"], result["launch"]) == (6, 2, "", "eager"), result
    step = result["window_us"] / 6
    assert 30e3 <= step < 80e3, f"a step with 30 ms of sleep took {step:.0f} us"  # input is part of the step


def check_no_code_after_the_last_step_runs(case):
    script = case.write("loop.py", LOOP.format(steps=1000))
    ranks = case.good(script)
    assert "after the loop" not in ranks.out[0], ranks.shown()


def check_the_edit_stays_without_a_job(case):
    script = case.write("loop.py", LOOP.format(steps=2))
    done = subprocess.run([sys.executable, script], cwd=case.folder, env={"PYTHONPATH": str(lab_driver.PACKAGE), "PATH": "/usr/bin"},
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "after the loop\n", ""), done


def check_a_script_that_ends_early(case):
    script = case.write("short.py", LOOP.format(steps=3))
    ranks = case.refused(script, steps=50, warmup=10, says=["the script ended after 3 of 60 steps", "fewer --steps or --warmup"])
    assert ranks.results == [None] and ranks.out[0] == "after the loop\n", ranks.shown()
    ended = case.write("exits.py", LOOP.format(steps=3) + "    raise SystemExit(0)\n")
    case.refused(ended, steps=50, says=["after 3 of 52 steps"])


def check_a_script_that_never_steps(case):
    case.refused(case.write("none.py", "print(1)\n"), says=["never steps", "with amdahl_lab.step():"])


def check_errors_of_the_script_are_its_own(case):
    failing = case.write("fails.py", "raise ValueError('mine')\n")
    ranks = case.ranks(failing)
    assert ranks.codes == [1] and ranks.err[0].endswith("ValueError: mine\n"), ranks.shown()
    assert case.ranks(case.write("exits.py", "raise SystemExit(7)\n")).codes == [7]
    inside = case.write("inside.py", """
        import amdahl_lab
        for number in range(100):
            with amdahl_lab.step():
                if number == 4:
                    raise ValueError("in the step")
    """)
    ranks = case.ranks(inside)
    assert ranks.codes == [1] and "in the step" in ranks.err[0] and ranks.results == [None], ranks.shown()


def check_a_step_inside_another(case):
    script = case.write("nested.py", """
        import amdahl_lab
        with amdahl_lab.step():
            with amdahl_lab.step():
                pass
    """)
    case.refused(script, says=["inside another"])


def check_wrong_uses_of_the_launcher(case):
    case.refused("missing.py", says=["there is no script missing.py"])
    case.write("other.json", '{"schema": 99}')
    case.refused(case.write("loop.py", LOOP.format(steps=9)), env={"AMDAHL_LAB_JOB": str(case.folder / "other.json")},
                 says=["schema 99"])
    case.refused("loop.py", env={"AMDAHL_LAB_JOB": str(case.folder / "no.json")}, says=["no.json", "amdahl run SCRIPT"])
    ranks = case.ranks()
    assert ranks.codes == [1] and ranks.err[0].startswith("usage: "), ranks.shown()


def check_the_script_sees_what_python_gives_it(case):
    (case.folder / "sub").mkdir()
    case.write("sub/neighbour.py", "VALUE = 5\n")
    text = """
        import json, os, sys
        from neighbour import VALUE
        print(json.dumps([__name__, sys.argv[1:], os.path.basename(sys.argv[0]), os.path.basename(__file__), sys.path[0], VALUE]))
    """
    script = case.write("sub/seen.py", text)
    ours = case.ranks(script, "-x", "a b", "--steps=3").out[0]
    plain = subprocess.run([sys.executable, script, "-x", "a b", "--steps=3"], cwd=case.folder, capture_output=True, text=True,
                           timeout=60, check=True).stdout
    assert ours == plain, f"{ours} and not {plain}"
    case.write("neighbour.py", "VALUE = 6\n")
    case.write("seen.py", text)
    ours = case.ranks("-m", "seen", "1").out[0]
    plain = subprocess.run([sys.executable, "-m", "seen", "1"], cwd=case.folder, capture_output=True, text=True, timeout=60,
                           check=True).stdout
    assert ours == plain, f"{ours} and not {plain}"


def check_a_script_asks_for_its_batch_and_wrap(case):
    script = case.write("asks.py", """
        import amdahl_lab
        rows = amdahl_lab.batch_size(5)
        print(rows, amdahl_lab.wrap("own"), flush=True)
        for number in range(100):
            with amdahl_lab.step(samples=rows):
                pass
        """)
    assert case.good(script, n=2, batch=12, wrap="fsdp2").out == ["6 fsdp2\n"] * 2
    assert case.good(script).out == ["5 own\n"]
    plain = subprocess.run([sys.executable, script], cwd=case.folder, env={"PYTHONPATH": str(lab_driver.PACKAGE)}, capture_output=True,
                           text=True, timeout=60, check=True).stdout
    assert plain == "5 own\n", plain
    case.refused(script, n=2, batch=9, says=["a batch of 9 cannot be divided by 2 ranks", "--batch-sizes 8"])


def check_worker_processes_end_too(case):
    script = case.write("children.py", """
        import multiprocessing, os, time
        import amdahl_lab
        if __name__ == "__main__":
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,))
            child.start()
            open("child", "w").write(str(child.pid))
            for number in range(100):
                with amdahl_lab.step():
                    pass
    """)
    case.good(script)
    child = int((case.folder / "child").read_text())
    lab_driver.wait_until(lambda: not lab_driver.is_running(child), "the end of the child")


def check_a_result_that_cannot_be_written(case):
    script = case.write("loop.py", LOOP.format(steps=100))
    (case.folder / "job1.rank.0.json").mkdir()
    case.refused(script, says=["cannot be written"])


lab_driver.main(globals())
