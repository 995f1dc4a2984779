"""The layout of pages of every kind, measured in the browser at the widths of a laptop, a tablet and a phone, and charts
under the clocks of browsers without a user."""
import json

import browser
import fabric_fixture
import study_fixture
from browser import Opened, dumped, report

WIDTHS = (1400, 800, 390)
TRANSPORTS = ("nccl", "nccl ring ll128", "nccl ring simple", "nccl tree ll", "nccl tree ll128", "nccl tree simple",
              "nccl registered", "nccl symmetric", "nccl graph", "nccl graph symmetric")


def rewrite(folder, change):
    """The records of a run as `change` makes them; it returns a list for each."""
    file = folder / "records.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [new for line in lines for new in (change(line) if line["type"] == "record" else [line])]
    file.write_text("".join(json.dumps(line) + "\n" for line in changed))
    return folder


def crowded_arena(folder):
    """An arena as of a machine with GPUs: many transports with long names, many sizes, both placements."""
    fabric_fixture.run(folder, "arena")

    def many(record):
        if record["axes"]["transport"] != "nccl":
            return []
        copies = []
        for place, name in enumerate(TRANSPORTS):
            for in_place in (False, True):
                for factor in (1, 4):
                    copy = json.loads(json.dumps(record))
                    copy["axes"].update(transport=name, in_place=in_place, bytes=record["axes"]["bytes"] * factor)
                    for series in copy["series"]:
                        scale = factor * (1 + (len(TRANSPORTS) - place) * 0.37) if series["unit"] == "us" else 1
                        series["samples"] = [sample * scale for sample in series["samples"]]
                    copies.append(copy)
        return copies
    return rewrite(folder, many)


def slow_run(folder):
    """A study in which one run of a cell took twice as long."""
    study_fixture.study(folder)

    def change(record):
        axes = record["axes"]
        if (axes["devices"], axes["global_batch"], axes["run"]) == (2, 512, 7):
            record["series"][0]["samples"][0] *= 1.913
        return [record]
    return rewrite(folder, change)


def expect_laid_out(file, widths=WIDTHS):
    for width in widths:
        with Opened(file, width=width, height=1000) as page:
            page.draw_all()
            page.expect_laid_out()
            page.check_quiet()


def check_runs_of_every_kind(case):
    kinds = [kind for kind in fabric_fixture.KINDS if kind != "arena"]
    for kind in kinds:
        fabric_fixture.run(case.path(kind), kind)
    expect_laid_out(report(case, *kinds))


def check_arena(case):
    crowded_arena(case.path("arena"))
    file = report(case, "arena")
    expect_laid_out(file)
    with Opened(file, width=1400) as page:
        page.draw_all()
        chart = next(chart["id"] for chart in page.charts() if chart["id"].startswith("behind-"))
        labels = page.value(f"[...document.querySelectorAll('#{chart} .role-axis-label text')].filter((label) => "
                            "getComputedStyle(label).opacity !== '0').map((label) => label.textContent)")
        assert set(TRANSPORTS) <= set(labels), labels
        assert sum(label.endswith("B") for label in labels) == 8, labels  # a name a size
        page.picture("arena-crowded")


def check_study(case):
    file = report(case, slow_run(case.path("r")).name)
    expect_laid_out(file)
    with Opened(file, width=1400) as page:
        page.draw_all()
        samples = next(chart["id"] for chart in page.charts() if chart["id"].startswith("samples"))
        words = page.value(f"[...document.querySelectorAll('#{samples} .role-mark.mark-text text')].map((word) => word.textContent)")
        assert len(words) >= 1 and all(word.endswith("%") for word in words), words
        wide = page.value(f"Math.max(...[...document.querySelectorAll('#{samples} .role-mark.mark-rect > *')].map((tick) => "
                          "tick.getBoundingClientRect().left)) - "
                          f"Math.min(...[...document.querySelectorAll('#{samples} .role-mark.mark-rect > *')].map((tick) => "
                          "tick.getBoundingClientRect().left))")
        assert wide > 100, f"steady runs are squashed into {wide} px"


def check_one_size(case):
    """Bars, where lines would be dots on empty axes."""
    fabric_fixture.run(case.path("c"), "collectives")
    rewrite(case.path("c"), lambda record: [record] if record["axes"]["bytes"] == 1024 else [])
    with Opened(report(case, "c"), width=1400) as page:
        page.draw_all()
        page.expect_laid_out()
        assert page.marks("bus-bandwidth", "symbol") == 0 and page.marks("bus-bandwidth", "rect") >= 2
        assert "at 1 KiB" in page.value("document.querySelector('#bus-bandwidth h3').textContent")


def check_intervals_leave_the_numbers_of_bars(case):
    fabric_fixture.run(case.path("sensor"), "sensor")

    def spread(record):
        for series in record["series"]:
            if series["name"] == "time":
                series["samples"] = [sample * (0.3, 1, 3)[i % 3] for i, sample in enumerate(series["samples"])]
        return [record]
    expect_laid_out(report(case, rewrite(case.path("sensor"), spread).name))


def check_cost_and_comparison(case):
    prices = case.write("p.toml", 'currency = "EUR"\n[[device]]\nmatch = "NVIDIA Test"\nhourly_price = 3.0\n')
    study_fixture.study(case.path("a"), watt=500)
    study_fixture.study(case.path("b"), seed=2)
    report(case, "a")  # skips where no charts are drawn
    case.run("report", "a", "--prices", prices, "--html", "cost.html", timeout=120)
    case.run("compare", "a", "b", "--html", "compare.html", timeout=120)
    for name in ("cost.html", "compare.html"):
        expect_laid_out(case.path(name))


PLANS = ("ddp", "zero1", "tp4,sp", "pp4,m8,zb-h1")


def study_of_plans(folder):
    """A study of several plans on four devices, of which one account is half of the step."""
    study_fixture.study(folder, devices=(1, 4), batches=(64, 512))

    def change(record):
        if record["axes"]["devices"] == 1:  # the second plan of one device has a bar of its own
            shards = json.loads(json.dumps(record))
            shards["axes"].update(strategy="single,shards2", virtual_shards=2)
            for series in shards["series"]:
                series["samples"] = [sample * (0.5 if series["name"] == "throughput" else 2) for sample in series["samples"]]
            return [record, shards]
        plans = []
        for place, plan in enumerate(PLANS):
            copy = json.loads(json.dumps(record))
            copy["axes"]["strategy"] = plan
            copy["axes"]["accumulate"] = 8 if "m8" in plan else 1
            for series in copy["series"]:
                slower = 1 + 0.2 * (3 - place)
                if series["name"] == "throughput":
                    slower = 1 / slower
                if series["name"] == "account_step" and plan == "ddp":
                    slower *= 1.5
                series["samples"] = [sample * slower for sample in series["samples"]]
            plans.append(copy)
        return plans
    return rewrite(folder, change)


def colours_of_parts(page):
    """The colours in the legends of charts of a step's parts, by part."""
    charts = [chart["id"] for chart in page.charts() if '"step_part"' in json.dumps(chart["spec"])]
    assert charts
    colours = {}
    for chart in charts:
        colours.update(page.value(
            f"(() => {{ const of = (part) => [...document.querySelectorAll('#{chart} .role-legend-' + part)];"
            "const symbols = of('symbol path'); return Object.fromEntries(of('label text').map((label, i) => "
            "[label.textContent, getComputedStyle(symbols[i]).fill])); })()"))
    return colours


def check_plans_are_bars_by_time(case):
    file = report(case, study_of_plans(case.path("r")).name)
    expect_laid_out(file)
    case.run("plan", "--model", "gpt2", "--batch-size", "512", "--what-if", "gpus=8,gpu=h200,link=pcie5", "--math", "bf16",
             "--html", "plan.html")
    expect_laid_out(case.path("plan.html"))
    with Opened(file, width=1400) as page:
        page.draw_all()
        bars = [chart for chart in page.charts() if chart["id"].startswith("plans-")]
        assert len(bars) == 2, [chart["id"] for chart in page.charts()]
        for chart in bars:
            times = [row[1] for row in chart["rows"]]
            assert len(times) == 2 + len(PLANS) and times == sorted(times), chart["rows"]
            names = [row[0] for row in chart["rows"]]
            assert len(set(names)) == len(names), names
            assert not any(word in name for name in names for word in ("1 micro-batch", "8 micro-batches", "whole tokens")), names
        assert not any(chart["id"].startswith("speedup") for chart in page.charts())
        account = next(chart for chart in page.charts() if chart["id"].startswith("account-"))
        assert not any("ddp" in row[1] for row in account["rows"]), "an account that is no account of the step has bars"
        assert "2 of 12 cells have no bar" in page.value(f"document.querySelector('#{account['id']} figcaption').textContent")
        of_study = colours_of_parts(page)
        page.picture("plans-study")
    with Opened(case.path("plan.html"), width=1400) as page:
        page.draw_all()
        totals = {}
        for plan, time, *_ in next(chart["rows"] for chart in page.charts() if chart["id"] == "ranking"):
            totals[plan] = totals.get(plan, 0) + time
        times = [round(time, 3) for time in totals.values()]  # sums of parts: equal steps differ in the last digits
        assert len(times) == 10 and times == sorted(times), totals
        assert page.value("document.querySelector('.warning').textContent").startswith("Warning: Nothing was measured")
        of_plan = colours_of_parts(page)
        page.picture("plans-predicted")
    shared = set(of_study) & set(of_plan)
    assert len(shared) >= 3 and all(of_study[part] == of_plan[part] for part in shared), (of_study, of_plan)


def check_every_measuring_command_writes_a_page(case):
    commands = [("links", ["-t", "pairs", "-b", "1M"]), ("collectives", ["-e", "1K"]), ("doctor", []),
                ("train", ["--epochs", "2"]), ("study", ["--batch-sizes", "16", "--steps", "3"]),
                ("sensor", ["bench", "--points", "1000", "--samples", "3", "--grid", "16"]),
                ("bench", ["true", "sleep 0.01"]),
                ("sensor", ["bench", "--op", "fuse", "--batch-sizes", "2,4", "--samples", "3"])]
    for command, words in commands:
        backend = () if command == "bench" else ("--backend", "cpu")
        case.run(command, *words, *backend, "--quiet", "--html", f"{command}.html", timeout=200)
        expect_laid_out(case.path(f"{command}.html"), widths=(390, 1400))
    case.refused(2, "usage", "plan", "--list", "--html", "list.html")


def check_verified_plans_are_laid_out(case):
    case.path("v").mkdir()
    lines = [{"config": {"model": "medium"}, "kind": "plan-verification", "type": "run", "version": 1}, study_fixture.provenance()]
    for place, plan in enumerate((*PLANS, "pp5,m64,recompute=selective,gpipe,split=flops")):
        us = 900.0 + 300 * place
        parts = {"compute and launches": 0.7, "gradients of dp, and waiting": 0.2, "optimizer": 0.1}
        series = {"step_time": [us, 1.01 * us, 0.99 * us], "predicted_step": [1.1 * us], "predicted_low": [0.9 * us],
                  "predicted_high": [1.3 * us], **{part: [share * us] for part, share in parts.items()},
                  **{f"predicted {part}": [1.1 * share * us] for part, share in parts.items()}}
        lines.append({"type": "record", "provenance": "p1", "kind": "plan-verification", "origin": "measured",
                      "axes": {"model": "medium", "global_batch": 256, "devices": 8, "plan": plan, "random": place > 3},
                      "series": [{"name": name, "unit": "us", "samples": samples} for name, samples in series.items()],
                      "status": {"kind": "ok"}})
    case.write("v/records.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    file = report(case, "v")
    expect_laid_out(file)
    with Opened(file, width=1400) as page:
        page.draw_all()
        parts = next(chart for chart in page.charts() if chart["id"] == "parts")
        assert len(parts["rows"]) == 2 * 3 * (1 + len(PLANS)), parts["rows"]


def check_winner_and_default_share_a_chart(case):
    crowded_arena(case.path("arena"))
    with Opened(report(case, "arena"), width=1400) as page:
        curves = next(chart for chart in page.charts() if chart["id"].startswith("bus-bandwidth"))
        names = [column["name"] for column in curves["columns"]]
        panels = {}
        for row in curves["rows"]:
            values = dict(zip(names, row))
            panels.setdefault(values.get("panel"), set()).update(values["series"].split(", "))
        assert len(panels) <= 2, panels  # one for each placement
        behind = next(chart for chart in page.charts() if chart["id"].startswith("behind-"))
        winners = {row[0] for row in behind["rows"] if "fastest" in row}
        assert winners and all(winners | {"nccl"} <= {name for name in lines} for lines in panels.values()), (winners, panels)


def check_health_is_first_and_costs_say_what_prices_are(case):
    for kind in ("doctor", "links"):
        fabric_fixture.run(case.path(kind), kind)
    study_fixture.study(case.path("s"))
    with Opened(report(case, "links", "s", "doctor")) as page:
        assert page.value("document.querySelector('main section h2').textContent").startswith("Health"), "health comes first"
        first = page.value("document.querySelector('main section p').textContent")
        assert page.value("document.querySelector('p.verdict').textContent").startswith(first), first
    prices = case.write("p.toml", 'currency = "EUR"\n[[device]]\nmatch = "NVIDIA Test"\nhourly_price = 3.0\n')
    case.run("report", "s", "--prices", prices, "--html", "cost.html", timeout=120)
    with Opened(case.path("cost.html")) as page:
        assert page.value("document.querySelector('.qualifier').textContent").startswith("prices in EUR are examples")


def check_wide_tables_scroll(case):
    study_fixture.study(case.path("r"))
    with Opened(report(case, "r"), width=390) as page:
        cut = "[...document.querySelectorAll('section > .scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1)"
        assert page.value(f"{cut}.length") >= 1
        assert page.value(f"{cut}.every((box) => getComputedStyle(box).overflowX === 'auto')")
        moved = page.value(f"{cut}.map((box) => {{ box.scrollLeft = 400; const cell = box.querySelector('td'); return "
                           "cell.getBoundingClientRect().left - box.getBoundingClientRect().left; })")
        assert all(0 <= left < 5 for left in moved), f"the first column leaves with the others: {moved}"


def check_charts_under_any_clock(case):
    """A virtual clock grants neither frames nor idle time, and a browser that dumps at once waits for nothing."""
    for kind in ("links", "sensor"):
        fabric_fixture.run(case.path(kind), kind)
    file = report(case, "links", "sensor")
    charts = file.read_text().count("data-chart=")
    assert charts > 5, charts
    for options in (["--virtual-time-budget=3000"], ["--virtual-time-budget=1", "--window-size=1400,9000"],
                    ["--virtual-time-budget=3000", "--run-all-compositor-stages-before-draw"]):
        assert dumped(file, *options).count('data-state="drawn"') == charts, options


browser.main(globals())
