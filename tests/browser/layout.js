// What is wrong with the layout of a drawn report page, as one line of text for each fault.
(() => {
  "use strict";
  const kSlack = 1.5;  // pixels: antialiasing and half a line's width
  const faults = [];

  // The four corners of an SVG element's box on the screen: a rotated label has a rotated box.
  function cornersOf(element) {
    const box = element.getBBox(), matrix = element.getScreenCTM();
    return [[box.x, box.y], [box.x + box.width, box.y], [box.x + box.width, box.y + box.height], [box.x, box.y + box.height]]
      .map(([x, y]) => [matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f]);
  }
  // Separating axes: boxes overlap unless a side of one of them has all of the other beyond it.
  function overlap(first, second) {
    for (const [p, q] of [[first, second], [second, first]])
      for (let side = 0; side < 4; ++side) {
        const [a, b] = [p[side], p[(side + 1) % 4]];
        const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
        if (length === 0) return false;
        const normal = [(b[1] - a[1]) / length, (a[0] - b[0]) / length];
        const along = (corner) => corner[0] * normal[0] + corner[1] * normal[1];
        const ends = (box) => [Math.min(...box.map(along)), Math.max(...box.map(along))];
        const [low, high] = ends(p), [otherLow, otherHigh] = ends(q);
        if (low > otherHigh - kSlack || otherLow > high - kSlack) return false;
      }
    return true;
  }
  const isSeen = (element) => {
    for (let node = element; node instanceof SVGElement; node = node.parentNode) {
      const style = getComputedStyle(node);
      if (style.opacity === "0" || style.display === "none" || style.visibility === "hidden") return false;
    }
    return element.textContent.trim() !== "" || element.tagName !== "text";
  };
  const textsIn = (root, selector) => [...root.querySelectorAll(selector)].filter(isSeen);

  function checkOverlap(id, what, texts) {
    const boxes = texts.map(cornersOf);
    for (let i = 0; i < texts.length; ++i)
      for (let j = i + 1; j < texts.length; ++j)
        if (overlap(boxes[i], boxes[j]))
          return faults.push(`${id}: ${what} overlap: "${texts[i].textContent}" and "${texts[j].textContent}"`);
  }

  // A line through the words of a mark, as an interval through the number of its bar.
  function checkStruck(id, texts, lines) {
    for (const text of texts)
      for (const line of lines) {
        const word = text.getBoundingClientRect(), box = line.getBoundingClientRect();
        const level = box.width > 5 && box.height <= 3 && box.top > word.top + kSlack && box.bottom < word.bottom - kSlack;
        if (level && box.left < word.right - kSlack && box.right > word.left + kSlack)
          return faults.push(`${id}: a line through "${text.textContent}"`);
      }
  }

  // Ticks of a continuous axis may do without words, bands may not: each size of a heat map, each bar has its name.
  const specs = new Map(JSON.parse(document.getElementById("amdahl-charts").textContent).charts.map((c) => [c.id, c.spec]));
  function hasBands(spec, channel) {
    const encoding = spec.encoding?.[channel];
    return ["nominal", "ordinal"].includes(encoding?.type) ||
           [spec.spec, ...(spec.layer ?? []), ...(spec.concat ?? [])].some((part) => part && hasBands(part, channel));
  }
  function checkNames(id, axis) {
    const labels = [...axis.querySelectorAll(".role-axis-label text")].filter((label) => label.textContent);
    const boxes = labels.map((label) => label.getBoundingClientRect());
    const spread = (edge) => Math.max(...boxes.map((box) => box[edge])) - Math.min(...boxes.map((box) => box[edge]));
    const hidden = labels.filter((label) => !isSeen(label));
    if (hidden.length > 0 && hasBands(specs.get(id), spread("bottom") < spread("left") ? "x" : "y"))
      faults.push(`${id}: ${hidden.length} of ${labels.length} names are left out, the first is "${hidden[0].textContent}"`);
  }

  function outside(element, frame) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 && box.height === 0) return 0;
    return Math.max(frame.left - box.left, box.right - frame.right, frame.top - box.top, box.bottom - frame.bottom);
  }

  function checkPlot(plot) {
    const id = plot.dataset.chart, svg = plot.querySelector("svg");
    if (!svg) return;
    const frame = svg.getBoundingClientRect();
    for (const kind of ["role-mark", "role-legend", "role-axis-label", "role-axis-title", "role-title-text"]) {
      const parts = [...svg.querySelectorAll(`.${kind} text, .${kind} path, .${kind} line, .${kind} rect`)];
      const beyond = parts.find((part) => isSeen(part) && !part.closest("defs, clipPath") &&
                                          !part.classList.contains("background") &&
                                          getComputedStyle(part).fill + getComputedStyle(part).stroke !== "nonenone" &&
                                          outside(part, frame) > kSlack);
      if (beyond) faults.push(`${id}: ${kind} outside of the picture by ${outside(beyond, frame).toFixed(0)} px: ` +
                              (beyond.textContent || beyond.getAttribute("aria-roledescription") || beyond.tagName));
    }
    checkOverlap(id, "words", textsIn(svg, "text"));
    const cut = textsIn(svg, ".role-legend-label text").find((label) => label.textContent.endsWith("…"));
    if (cut) faults.push(`${id}: a name of the legend is cut: ${cut.textContent}`);
    checkStruck(id, textsIn(svg, ".role-mark.mark-text text"), [...svg.querySelectorAll(".role-mark.mark-rule line")].filter(isSeen));
    for (const axis of svg.querySelectorAll(".role-axis")) checkNames(id, axis);
    const wide = frame.width > plot.clientWidth + kSlack;
    if (wide && getComputedStyle(plot).overflowX !== "auto") faults.push(`${id}: wider than its place, and cannot be scrolled`);
  }

  document.querySelectorAll(".plot").forEach(checkPlot);

  // Numbers with their units and options are on one line; drawings are large enough to read their words.
  const kInCell = /->|\[[^\]]+\]$/g, kTogether = /->|\d %|% CI\]|(?<![\w-])--[a-z][a-z-]{2,20}|\bn = \d/g;
  for (const part of document.querySelectorAll("header.top, main"))
    for (const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT); walker.nextNode();) {
      const node = walker.currentNode;
      if (!node.parentElement.checkVisibility() || node.parentElement.closest("svg, #vg-tooltip-element")) continue;
      for (const found of node.data.matchAll(node.parentElement.closest("td") ? kInCell : kTogether)) {
        const range = document.createRange();
        range.setStart(node, found.index), range.setEnd(node, found.index + found[0].length);
        const tops = [...range.getClientRects()].map((box) => box.top);
        if (Math.max(...tops) - Math.min(...tops) > 5) faults.push(`"${found[0]}" is broken in "${node.data.slice(0, 80)}"`);
      }
    }
  for (const image of document.querySelectorAll(".picture img"))
    if (image.clientWidth < 0.9 * Math.min(image.naturalWidth, 700)) faults.push(`${image.alt}: drawn at ${image.clientWidth} of ${image.naturalWidth} px`);
  for (const title of document.querySelectorAll(".plot svg .role-axis-title text"))
    if (![...title.closest(".role-axis").querySelectorAll(".role-axis-label text")].some((label) => label.textContent.trim()))
      faults.push(`${title.closest(".plot").dataset.chart}: the axis of "${title.textContent}" has no numbers`);
  for (const name of document.querySelectorAll("#provenance dt"))
    if (/[a-z][_.][a-z0-9]/.test(name.textContent)) faults.push(`provenance: a raw key: ${name.textContent}`);
  for (const table of document.querySelectorAll("table")) {
    const box = table.closest(".scroll");
    if (!box) { if (!table.closest("#vg-tooltip-element")) faults.push(`a table without a container: ${table.innerText.slice(0, 60)}`); continue; }
    const name = box.getAttribute("aria-label"), rows = table.tBodies[0].rows.length;
    const isSeen = box.checkVisibility();  // not within closed details
    if (table.scrollWidth > box.clientWidth + 1) {
      if (getComputedStyle(box).overflowX !== "auto") faults.push(`table ${name}: cut without a scroll bar`);
      const cue = box.nextElementSibling;
      if (!box.dataset.more || !cue?.matches(".cue") || cue.clientHeight === 0)
        if (isSeen) faults.push(`table ${name}: cut, and nothing says so`);
      const kWide = 1400;  // pixels of a window in which the tables of a page are whole
      if (isSeen && window.innerWidth >= kWide && !box.closest("figure")) faults.push(`table ${name}: cut in a wide window`);
    }
    const kShownRows = 40;
    if (rows <= kShownRows && box.scrollHeight > box.clientHeight + 20) faults.push(`table ${name}: hides some of ${rows} rows`);
    for (const cell of table.querySelectorAll("th, td"))
      if (isSeen && cell.scrollWidth > cell.clientWidth + 1) {
        faults.push(`table ${name}: "${cell.textContent}" leaves its cell`);
        break;
      }
  }
  // Names of rows leave the axis its room.
  for (const domain of document.querySelectorAll(".plot svg .role-axis-domain line")) {
    const plot = domain.closest(".plot"), { width, height } = domain.getBoundingClientRect();
    if (width > height && width < 0.3 * Math.min(plot.clientWidth, 400))
      faults.push(`${plot.dataset.chart}: its axis has ${width.toFixed(0)} of ${plot.clientWidth} px`);
  }
  const kKeys = /\b(num_\w+|global_batch|step_time|bucket_bytes|voxel_mode|in_place|call_time|samples_per_second|comm_bytes)\b/;
  const kEmptyValue = /\w=(?=[\s,;)]|$)/m;
  for (const part of document.querySelectorAll("header.top, nav, main > section:not(#provenance)")) {
    const words = part.innerText;
    for (const [what, pattern] of [["a raw key", kKeys], ["no value after", kEmptyValue]]) {
      const found = words.match(pattern);
      if (found) faults.push(`${part.id || part.className}: ${what}: ...${words.slice(Math.max(0, found.index - 30), found.index + 40)}...`);
    }
  }
  if (document.documentElement.scrollWidth > window.innerWidth) faults.push("the page is wider than the window");
  return faults;
})();
