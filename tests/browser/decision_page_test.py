"""Pages of `amdahl cost` and `amdahl compare` in a browser, which must have nothing to complain about."""
import browser
import study_fixture
from browser import Opened, Skip

PRICES = 'currency = "EUR"\n[[device]]\nmatch = "NVIDIA Test"\nhourly_price = 3.0\n'


def page_of(case, *command):
    case.run(*command, "--html", "page.html", timeout=120)
    file = case.path("page.html")
    if "Charts are not drawn" in file.read_text():
        raise Skip("this build has no chart bundle")
    return file


def cost(case, *runs, prices=PRICES):
    return page_of(case, "report", *runs, "--prices", case.write("p.toml", prices))


def expect_sound(page):
    page.draw_all()
    page.check_quiet()
    page.check_accessible()
    page.check_tables()
    page.check_buttons()


def check_cost(case):
    study_fixture.study(case.path("r"))
    with Opened(cost(case, "r")) as page:
        expect_sound(page)
        assert page.marks("cost-1", "symbol") == 24  # an hour's and the money's work of 4 batches on 1, 2 and 4 devices
        assert page.marks("cost-1", "rule") == 12, "an interval each, and nothing pays at this price"
        assert page.value("document.querySelectorAll('#break-even tbody tr').length") >= 2
        assert "not measured" in page.value("document.getElementById('work-1').textContent")
        page.picture("cost")


def check_cost_where_it_pays(case):
    """The machine costs the same with one device or two, so the second adds half as much again, which pays from 1.5x."""
    study_fixture.study(case.path("r"), devices=(1, 2))
    machines = "".join(f"[[machine]]\ndevices = {count}\npurchase_price = 1000\n" for count in (1, 2))
    bought = PRICES.replace("hourly_price = 3.0", "purchase_price = 1000")
    file = cost(case, "r", prices="amortisation_months = 36\n" + bought + machines)
    with Opened(file) as page:
        expect_sound(page)
        breaks = [row for row in page.charts()[0]["rows"] if row[7] is not None]
        assert len(breaks) == 1 and page.marks("cost-1", "rule") == 8 + 2, breaks  # in both panels
        assert 512 < breaks[0][7] < 32768, breaks


def check_cost_with_energy(case):
    study_fixture.study(case.path("r"), watt=500)
    with Opened(cost(case, "r")) as page:
        expect_sound(page)
        assert page.marks("cost-1", "symbol") == 36
        assert "not measured" not in page.value("document.getElementById('work-1').textContent")
        one = next(row for row in page.charts()[0]["rows"] if row[1] == 4096 and row[0].startswith("1x"))
        assert abs(one[8] - one[2] / 3600 / 500) < 0.01 * one[8], one  # samples for 1 J
        page.picture("cost-energy")


def check_cost_dark_and_narrow(case):
    study_fixture.study(case.path("r"), watt=500)
    file = cost(case, "r")
    for scheme, width in (("dark", 1280), ("light", 400)):
        with Opened(file, scheme=scheme, width=width) as page:
            page.draw_all()
            page.check_quiet()
            page.check_accessible()
            assert page.value("document.documentElement.scrollWidth <= window.innerWidth"), (scheme, width)


def check_comparison(case):
    study_fixture.study(case.path("a"))
    study_fixture.study(case.path("b"), seed=2)
    study_fixture.study(case.path("c"), parameters=2021379, seed=3, watt=500)
    with Opened(page_of(case, "compare", "a", "b", "c")) as page:
        expect_sound(page)
        rows = page.charts()[0]["rows"]
        assert len(rows) == 24 and page.marks("speed-1", "symbol") == 24, len(rows)  # 12 cells of two runs over A
        assert page.value("document.querySelectorAll('#cells-1 > * table tbody tr').length") >= 24
        page.picture("comparison")


browser.main(globals())
