// Draws the charts of the page that it stands in, writes long tables once they are opened, and saves files. Charts are
// drawn one after another, the nearest to what is seen first, and all of them before printing.
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

  const pen = document.createElement("canvas").getContext("2d");
  function widthOf(words) {
    pen.font = `11.5px ${page.config.light.font}`;
    return Math.max(0, ...words.map((word) => pen.measureText(String(word)).width));
  }

  // Every encoding of the specification, with what it is one of: "color", "shape", ...
  function eachEncoding(node, visit) {
    for (const [channel, encoding] of Object.entries(node.encoding ?? {})) visit(channel, encoding);
    for (const part of [node.spec, ...(node.layer ?? []), ...(node.concat ?? [])]) if (part) eachEncoding(part, visit);
  }

  const kRightEdge = 20;  // pixels beside the axes for half of the last label, "16,384", and for the ends of legends

  // Vega sets entries of a legend beside each other whatever the width: here as many as fit. `room` is an expression.
  function fitLegends(spec, rows, room) {
    const kSymbol = 34;  // pixels of an entry beside its words
    const kChannels = ["color", "shape", "stroke", "strokeDash", "opacity"];
    const legends = new Map();  // by channel and field: one legend, whichever layers draw it
    eachEncoding(spec, (channel, encoding) => {
      if (!kChannels.includes(channel) || encoding.legend === null || !["nominal", "ordinal"].includes(encoding.type)) return;
      const key = encoding.field ?? "a name";
      if (!legends.has(key)) legends.set(key, { words: new Set(), encodings: [] });
      const legend = legends.get(key);
      legend.encodings.push(encoding);
      const words = encoding.field === undefined ? [encoding.datum]
        : encoding.legend?.values ?? encoding.scale?.domain ?? rows.map((row) => row[encoding.field]);
      for (const word of words) legend.words.add(word);
    });
    for (const { words, encodings } of legends.values()) {
      const entry = Math.ceil(widthOf([...words])) + kSymbol;
      for (const encoding of encodings)
        encoding.legend = {
          ...encoding.legend, columns: { expr: `max(1, min(${words.size}, floor((${room}) / ${entry})))` },
          labelLimit: { expr: `max(60, (${room}) - ${kSymbol} + ${kRightEdge})` },
        };
    }
  }

  // Names of bars and rows take at most a share of the width: longer ones are set in lines, and bars get their height.
  function fitNames(spec, rows, width) {
    const kShare = 0.38, kLine = 14;  // pixels of a line
    const room = Math.max(100, Math.floor(kShare * width));
    const linesOf = (words) => {
      const lines = [];
      for (const word of String(words).match(/\([^()]*\),? *|[^ ,]+,? */g) ?? [""]) {  // not within brackets
        const longer = (lines[lines.length - 1] ?? "") + word;
        if (lines.length > 0 && widthOf([longer.trimEnd()]) <= room) lines[lines.length - 1] = longer;
        else lines.push(word);
      }
      return lines.map((line) => line.trimEnd());
    };
    let most = 1;
    eachEncoding(spec, (channel, encoding) => {
      if (channel !== "y" || encoding.axis === null || !["nominal", "ordinal"].includes(encoding.type)) return;
      const words = [...new Set(rows.map((row) => row[encoding.field]))];
      const lines = Object.fromEntries(words.map((word) => [word, linesOf(word)]));
      const height = Math.max(1, ...Object.values(lines).map((list) => list.length));
      encoding.axis = { ...encoding.axis, labelLimit: 0 };
      if (height === 1) return;
      most = Math.max(most, height);
      encoding.axis.labelExpr = `${JSON.stringify(lines)}[datum.value]`;
    });
    if (most === 1) return;
    for (const part of [spec, ...panelsOf(spec)]) {
      const bands = new Set();
      eachEncoding(part, (channel, encoding) => {
        if (channel === "y") for (const row of rows) bands.add(row[encoding.field]);
      });
      if (typeof part.height === "number") part.height = Math.max(part.height, bands.size * (most * kLine + 4));
      else if (part.height?.step) part.height.step = Math.max(part.height.step, most * kLine + 4);
    }
  }

  const panelsOf = (spec) => spec.concat ?? (spec.spec ? [spec.spec] : []);

  // `beside` is what the labels of panels take: known once they were drawn.
  function specOf(chart, width, beside) {
    const spec = structuredClone(chart.spec), rows = rowsOf(chart);
    spec.data = { name: "table" };
    spec.datasets = { table: rows };
    fitNames(spec, rows, width);
    spec.padding = { left: 2, top: 5, right: kRightEdge, bottom: 5 };
    if (typeof spec.width === "number") {
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
      fitLegends(spec, rows, "width");
      return spec;
    }
    if (spec.columns > 1 && width < kNarrow) spec.columns = 1;
    const inRow = Math.min(spec.columns ?? 1, spec.concat?.length ?? spec.columns ?? 1);
    const panelWidth = Math.max(120, Math.floor((width - beside) / inRow));
    for (const panel of panelsOf(spec)) panel.width = panelWidth;
    if (spec.concat) for (const panel of spec.concat) fitLegends(panel, rows, `${panelWidth}`);
    else fitLegends(spec, rows, `${inRow * panelWidth}`);
    return spec;
  }

  // Titles of narrow axes end where the axis ends and reach below the names of its rows.
  const kNarrow = 560;
  const configOf = (width) => {
    const config = page.config[scheme];
    if (width >= kNarrow) return config;
    return { ...config, text: { ...config.text, fontSize: 9.5 },
             axisX: { ...config.axisX, titleAnchor: "end", titleLimit: width } };
  };
  const embed = (plot, chart, spec, width) => window.vegaEmbed(plot, spec, {
    mode: "vega-lite", actions: false, ast: true, defaultStyle: false, config: configOf(width),
    renderer: chart.rows.length > kManyRows ? "canvas" : "svg", tooltip: { disableDefaultStyle: true },
  });
  const drawnWidth = (plot) => plot.querySelector("svg, canvas").getBoundingClientRect().width;

  async function draw(plot) {
    const chart = charts.get(plot.dataset.chart);
    const room = Math.floor(plot.clientWidth), width = Math.max(room, chart.least_width);
    if (width > room) plot.tabIndex = 0;  // scrolled, so also by keyboard
    let beside = 130;
    for (let attempt = 0; attempt < 4; ++attempt) {
      chart.view?.finalize();
      const result = await embed(plot, chart, specOf(chart, width, beside), width);
      chart.view = result.view;
      // Its height, with the rows that legends have at this width, which the first pass may still change.
      for (let pass = 0; pass < 2; ++pass) await chart.view.resize().runAsync();
      const beyond = drawnWidth(plot) - width;
      const kLoose = 16;  // pixels: a label more or less at the end of an axis
      if (panelsOf(chart.spec).length === 0 || (beyond <= 0 && beyond > -kLoose)) break;
      beside += Math.ceil(beyond);
    }
    plot.dataset.state = "drawn";
    markCut(plot);
  }

  // On which sides a box has more than it shows: the style fades them.
  function markCut(box) {
    const beyond = box.scrollWidth - box.clientWidth, sides = [];
    if (box.scrollLeft > 1) sides.push("left");
    if (box.scrollLeft < beyond - 1) sides.push("right");
    if (sides.length > 0) box.dataset.more = sides.join(" ");
    else delete box.dataset.more;
  }
  const scrolled = [...document.querySelectorAll(".scroll, .plot, nav ol")];
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => markCut(entry.target)));
  for (const box of scrolled) {
    markCut(box);
    watch.observe(box);
    box.addEventListener("scroll", () => markCut(box), { passive: true });
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

  // Of the plots that are not drawn, the one that is nearest to what is seen.
  function nextPlot() {
    let nearest, least = Infinity;
    for (const plot of plots) {
      if (charts.get(plot.dataset.chart).drawing) continue;
      const { top, bottom } = plot.getBoundingClientRect();
      const distance = Math.max(0, -bottom, top - window.innerHeight);
      if (distance < least) [nearest, least] = [plot, distance];
    }
    return nearest;
  }

  // No timer, no frame and no idle time is waited for: a headless browser whose clock is virtual, or stands still, grants
  // none of them. Small pages are drawn before they count as loaded; then the browser gets its turn after each chart.
  const turn = new MessageChannel();
  async function drawNext() {
    const kBeforeLoad = 300;  // ms
    const begin = performance.now();
    for (let plot = nextPlot(); plot; plot = nextPlot()) {
      await drawn(plot);
      if (document.readyState !== "loading" || performance.now() - begin > kBeforeLoad) break;
    }
    if (nextPlot()) turn.port2.postMessage(0);
  }
  turn.port1.onmessage = drawNext;

  function start() {
    drawNext();
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
