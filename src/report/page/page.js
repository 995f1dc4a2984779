// Draws the charts of the page that it stands in, writes long tables once they are opened, and saves files. Charts are
// drawn as they come into view, then whenever the browser has nothing else to do, and all of them before printing.
(() => {
  "use strict";
  const text = (id) => document.getElementById(id).textContent;
  const page = JSON.parse(text("amdahl-charts"));
  const charts = new Map(page.charts.map((chart) => [chart.id, chart]));
  const darkness = window.matchMedia("(prefers-color-scheme: dark)");
  const kManyRows = 2500;  // beyond it a canvas: an element a mark would take seconds
  let scheme = darkness.matches ? "dark" : "light";

  const rowsOf = (chart) =>
    chart.rows.map((row) => Object.fromEntries(chart.columns.map((column, i) => [column.name, row[i]])));

  function specOf(chart, width) {
    const spec = structuredClone(chart.spec);
    spec.data = { name: "table" };
    spec.datasets = { table: rowsOf(chart) };
    if (typeof spec.width === "number") {
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    const kNarrow = 560;  // below it panels stand one above the other
    if (spec.columns > 1 && width < kNarrow) spec.columns = 1;
    const kOutside = 150;  // what the labels of panels take
    const panelWidth = Math.max(160, (width - kOutside) / (spec.columns ?? 1));
    if (spec.spec && typeof spec.spec.width === "number") spec.spec.width = panelWidth;
    for (const panel of spec.concat ?? []) panel.width = panelWidth;
    return spec;
  }

  async function draw(plot) {
    const chart = charts.get(plot.dataset.chart);
    chart.view?.finalize();
    const room = Math.floor(plot.clientWidth), width = Math.max(room, chart.spec.usermeta?.least_width ?? 0);
    if (width > room) plot.tabIndex = 0;  // scrolled, so also by keyboard
    const result = await window.vegaEmbed(plot, specOf(chart, width), {
      mode: "vega-lite", actions: false, ast: true, defaultStyle: false, config: page.config[scheme],
      renderer: chart.rows.length > kManyRows ? "canvas" : "svg", tooltip: { disableDefaultStyle: true },
    });
    chart.view = result.view;
    plot.dataset.state = "drawn";
  }

  function drawn(plot, again = false) {
    const chart = charts.get(plot.dataset.chart);
    if (!chart.drawing || again)
      chart.drawing = draw(plot).catch((problem) => {
        plot.dataset.state = "failed";
        plot.textContent = `This chart could not be drawn: ${problem.message}. Its data is in the table below.`;
        console.error(problem);
      });
    return chart.drawing;
  }

  const plots = [...document.querySelectorAll(".plot")];
  function drawAgain() {
    for (const plot of plots) if (charts.get(plot.dataset.chart).drawing) drawn(plot, true);
  }

  function drawWhenIdle() {
    const next = plots.find((plot) => !charts.get(plot.dataset.chart).drawing);
    if (next) drawn(next).then(() => later(drawWhenIdle));
  }
  const later = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));

  function start() {
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries)
        if (entry.isIntersecting) {
          watcher.unobserve(entry.target);
          drawn(entry.target);
        }
    }, { rootMargin: "200px" });
    plots.forEach((plot) => watcher.observe(plot));
    window.addEventListener("load", () => later(drawWhenIdle));

    darkness.addEventListener("change", () => {
      scheme = darkness.matches ? "dark" : "light";
      drawAgain();
    });
    window.addEventListener("beforeprint", () => {
      const redraw = scheme === "dark";
      scheme = "light";
      for (const plot of plots) drawn(plot, redraw);
    });
    window.addEventListener("afterprint", () => {
      if (!darkness.matches) return;
      scheme = "dark";
      drawAgain();
    });
    let width = window.innerWidth, waiting = 0;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(drawAgain, 200);
    });
  }

  const shown = (value) => {
    if (value === null) return "n/a";
    return typeof value === "number" ? value.toLocaleString("en-US", { maximumSignificantDigits: 6 }) : value;
  };
  function writeTable(details) {
    const body = details.querySelector("tbody");
    const numbers = [...details.querySelectorAll("th")].map((cell) => cell.className);
    const rows = document.createDocumentFragment();
    for (const values of charts.get(details.dataset.table).rows) {
      const row = document.createElement("tr");
      values.forEach((value, i) => {
        const cell = document.createElement("td");
        cell.className = numbers[i];
        cell.textContent = shown(value);
        row.append(cell);
      });
      rows.append(row);
    }
    body.replaceChildren(rows);
    details.removeAttribute("data-late");
  }

  // Quoted where it must be; a leading sign of a formula in text is kept from spreadsheets by a quote mark.
  const field = (value) => {
    if (value === null) return "";
    const words = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  const csvOf = (chart) =>
    [chart.columns.map((column) => field(column.name)), ...chart.rows.map((row) => row.map(field))]
      .map((row) => row.join(",") + "\r\n").join("");

  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const writers = {
    csv: async (chart) => new Blob([csvOf(chart)], { type: "text/csv" }),
    svg: async (chart) => new Blob([await chart.view.toSVG()], { type: "image/svg+xml" }),
    png: async (chart) => {
      const canvas = await chart.view.toCanvas(2);
      return new Promise((done) => canvas.toBlob(done, "image/png"));
    },
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-file]");
    if (!button) return;
    const figure = button.closest("figure");
    const chart = charts.get(figure.id);
    const plot = figure.querySelector(".plot");
    if (plot) await drawn(plot);
    save(await writers[button.dataset.file](chart), `${chart.id}.${button.dataset.file}`);
  });
  for (const details of document.querySelectorAll("details[data-late]"))
    details.addEventListener("toggle", () => details.open && writeTable(details), { once: true });

  if (window.vegaEmbed) start();
})();
