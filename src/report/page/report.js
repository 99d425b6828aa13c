// Draws the figures of a `strobe report` page. The C++ code of src/report/ creates the figures with all their text and
// embeds them as JSON (figures.cpp). This script filters them, draws them with Chart.js and saves them as PNG. Text from
// result files is never interpreted as HTML.
"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const charts = new Map();   // id of a card -> its Chart.js chart; a card shows the figures of one id
const chosen = {};          // filter (pass, dtype or causal) -> selected value
const views = {};  // id of a card -> view (fixed sizes) that the user selected
const dark = () => document.documentElement.dataset.theme === "dark";
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const element = (tag, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

// ---- one figure as a Chart.js configuration ----
const color = (index) => index < 0 ? css(index === -1 ? "--soft" : "--faint") : (dark() ? report.dark_palette : report.palette)[index];
const shorten = (text, most) => text.length > most ? text.slice(0, most - 1) + "\u2026" : text;

// Splits text into lines of at most `most` characters, only at the separator.
function wrap(text, separator, most) {
  const lines = [];
  for (const part of text ? text.split(separator) : []) {
    const last = lines.length - 1;
    if (last >= 0 && (lines[last] + separator + part).length <= most) lines[last] += separator + part;
    else lines.push(part);
  }
  return lines;
}

// Splits the label of a bar into short lines.
const labelLines = (text) => wrap(text, ", ", 14).map((line) => shorten(line, 22));

function scale(axis, isMap, isY = false) {
  const words = axis.scale === "words";
  const options = {
    type: words ? "category" : axis.scale,
    title: { display: !isMap || !isY, text: axis.title, color: css("--soft") },
    grid: { color: css("--line"), display: !isMap },
    border: { display: false },
    ticks: { color: css("--soft"), maxRotation: words ? 30 : 0, autoSkip: !isMap },
  };
  if (words) options.labels = isMap ? axis.words : axis.words.map(labelLines);
  if (words && isMap) options.offset = true;
  if (axis.scale === "linear") {
    options.beginAtZero = true;
    options.ticks.callback = si;
  }
  if (axis.scale === "logarithmic") {
    options.ticks.callback = (value) => axis.ticks.length || /^[125]/.test(value.toExponential()) ? (axis.ticks.length ? plain : si)(value) : null;
    options.grace = "5%";
  }
  if (axis.ticks.length) {
    options.afterBuildTicks = (built) => { built.ticks = axis.ticks.map((value) => ({ value })); };
    options.min = axis.ticks[0] / 1.15;
    options.max = axis.ticks[axis.ticks.length - 1] * 1.15;
    options.ticks.autoSkip = false;
  }
  return options;
}
const plain = (value) => String(Number(value.toPrecision(4)));

// As plain(), with an SI prefix from 10,000 on: "20k", "1.5M".
function si(value) {
  for (const [factor, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= Math.max(factor, 1e4)) return plain(value / factor) + prefix;
  }
  return plain(value);
}

// Dash patterns of lines by their order in a figure, as in svg.cpp. Where two lines coincide, the gaps of the later one
// show the earlier one.
const kDashes = [[], [9, 5], [3, 4], [12, 4, 3, 4]];
const kMostMarkedPoints = 60;  // lines with more points have no circles

function dataset(series, index) {
  const tint = color(series.color);
  const points = series.points.map(([x, y, label, low, high]) => ({ x, y, label, low, high }));
  return {
    label: series.name, data: points, borderColor: tint, backgroundColor: tint, type: "scatter", showLine: series.mark !== "point", borderWidth: 2,
    borderDash: series.mark === "rule" ? [6, 4] : kDashes[index % kDashes.length],
    pointRadius: series.mark === "rule" || points.length > kMostMarkedPoints ? 0 : 4,
    pointHitRadius: 10, order: series.mark === "rule" ? 1000 : 100 - index,
  };
}

// Returns one Chart.js dataset per series. A series has one bar per word of the x axis. If every series has a single
// bar, the bars are not grouped.
function barDatasets(figure) {
  const alone = figure.series.every((series) => series.points.length === 1) && figure.series.length > 1;
  return figure.series.map((series) => {
    const values = figure.x.words.map((word, i) => (series.points.find((point) => point[0] === i) || [])[1] ?? null);
    const labels = figure.x.words.map((word, i) => (series.points.find((point) => point[0] === i) || [])[2]);
    const tint = color(series.color);
    return { label: series.name, data: values, texts: labels, backgroundColor: tint, maxBarThickness: 70,
             borderRadius: 3, grouped: !alone, skipNull: true };
  });
}

// Chart.js plugin that paints the fields of a heat map. The chart below is a scatter chart with invisible points, which
// provides axes, tooltips and saving.
const paintFields = {
  id: "fields",
  beforeDatasetsDraw(chart) {
    const fields = chart.options.fields;
    if (!fields) return;
    const { ctx, scales: { x, y } } = chart;
    const width = x.width / x.getLabels().length, height = y.height / y.getLabels().length;
    ctx.save();
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.font = `${Math.max(9, Math.min(13, height * 0.5, width / 4))}px system-ui, sans-serif`;
    for (const [column, row, text, fill] of fields) {
      const left = x.getPixelForValue(column) - width / 2, top = y.getPixelForValue(row) - height / 2;
      ctx.fillStyle = fill;
      ctx.fillRect(left + 1, top + 1, width - 2, height - 2);
      ctx.fillStyle = "#1c2024";
      ctx.fillText(text, left + width / 2, top + height / 2, width - 4);
    }
    ctx.restore();
  },
};

// Chart.js plugin that draws the interval of each point as a whisker.
const drawWhiskers = {
  id: "whiskers",
  afterDatasetsDraw(chart) {
    const { ctx, scales: { x, y } } = chart;
    ctx.save();
    ctx.lineWidth = 1.3;
    chart.data.datasets.forEach((set, index) => {
      if (!chart.isDatasetVisible(index) || set.pointRadius === 0) return;
      ctx.strokeStyle = set.borderColor;
      for (const point of set.data) {
        if (!point || !(point.low < point.high)) continue;
        const at = x.getPixelForValue(point.x), low = y.getPixelForValue(point.low), high = y.getPixelForValue(point.high);
        ctx.beginPath();
        ctx.moveTo(at, low);
        ctx.lineTo(at, high);
        for (const end of [low, high]) {
          ctx.moveTo(at - 4, end);
          ctx.lineTo(at + 4, end);
        }
        ctx.stroke();
      }
    });
    ctx.restore();
  },
};

// Chart.js plugin that paints the card's colour behind the chart, so that a saved PNG is not transparent.
const paintPaper = {
  id: "paper",
  beforeDraw({ ctx, width, height }) {
    ctx.save();
    ctx.fillStyle = css("--card");
    ctx.fillRect(0, 0, width, height);
    ctx.restore();
  },
};

// Extends an axis so that all whiskers fit.
function withWhiskers(options, figure) {
  const ends = figure.series.flatMap((series) => series.points.flatMap(([x, y, label, low, high]) => low < high ? [low, high] : []));
  if (ends.length) {
    options.suggestedMin = Math.min(...ends);
    options.suggestedMax = Math.max(...ends);
  }
  return options;
}

function configuration(figure) {
  const isMap = figure.fields.length > 0;
  const isBars = !isMap && figure.series[0].mark === "bar";
  const most = Math.max(44, Math.min(70, innerWidth / 16));  // characters per line of titles and captions
  const mapPoints = figure.fields.map(([x, y, text, fill, label]) => ({ x, y, label }));
  const datasets = isMap ? [{ data: mapPoints, pointRadius: 0, pointHitRadius: 16 }]
    : isBars ? barDatasets(figure) : figure.series.map(dataset);
  const filters = [figure.pass, figure.dtype, figure.causal && "causal " + figure.causal].filter(Boolean).join(", ");
  return {
    type: isBars ? "bar" : "scatter",
    data: isBars ? { labels: figure.x.words.map(labelLines), datasets } : { datasets },
    options: {
      fields: isMap ? figure.fields : null,
      responsive: true, maintainAspectRatio: false, animation: false,
      interaction: { mode: "nearest", intersect: !isBars },
      scales: { x: scale(isBars ? { ...figure.x, scale: "words" } : figure.x, isMap), y: withWhiskers(scale(figure.y, isMap, true), figure) },
      plugins: {
        title: { display: true, color: css("--ink"), padding: { top: 2, bottom: 4 }, font: { size: 11 },
                 text: [filters ? `${figure.title} (${filters})` : figure.title, ...wrap(figure.view, ", ", most), ...(isMap ? [`rows: ${figure.y.title}`] : [])] },
        subtitle: { display: true, position: "bottom", color: css("--soft"), font: { size: 9.5 }, padding: 0,
                    text: wrap(figure.caption, "; ", most) },
        legend: { display: !isMap && (figure.series.length > 1 || !isBars),
                  labels: { color: css("--ink"), boxWidth: 12, boxHeight: isBars ? 10 : 2, font: { size: 11 } } },
        tooltip: { displayColors: false, callbacks: { title: () => "",
          label: (item) => item.raw?.label || item.dataset.texts?.[item.dataIndex] || item.formattedValue } },
      },
    },
    plugins: [paintPaper, paintFields, drawWhiskers],
  };
}

// ---- cards ----
const matches = (figure) => Object.entries(chosen).every(([key, value]) => !figure[key] || figure[key] === value);

function drawCard(card) {
  const fitting = report.figures.filter((figure) => figure.id === card.dataset.id && matches(figure));
  const figure = fitting.find((one) => one.view === views[card.dataset.id]) || fitting[0];
  const plot = card.querySelector(".plot"), select = card.querySelector("select");
  charts.get(card.dataset.id)?.destroy();
  charts.delete(card.dataset.id);
  plot.replaceChildren();
  select.hidden = fitting.length < 2;
  select.replaceChildren(...fitting.map((one) => element("option", { textContent: one.view, selected: one === figure })));
  card.querySelector("button").hidden = !figure;
  if (!figure) {
    plot.append(element("p", { className: "empty", textContent: "No cells match these filters." }));
    return;
  }
  const tall = figure.fields.length ? Math.max(250, 170 + 24 * figure.y.words.length) : 0;
  plot.style.height = tall ? tall + "px" : "";
  const canvas = element("canvas", { role: "img" });
  canvas.setAttribute("aria-label", `${figure.title}; ${figure.view}; ${figure.caption}`);
  plot.append(canvas);
  charts.set(card.dataset.id, new Chart(canvas, configuration(figure)));
}

function save(card) {
  const figure = card.dataset.id + Object.values(chosen).map((value) => "-" + value).join("");
  const link = element("a", { href: charts.get(card.dataset.id).toBase64Image("image/png", 1), download: figure + ".png" });
  link.click();
}

function makeCards() {
  const main = document.getElementById("charts");
  const sections = new Map();
  for (const figure of report.figures) {
    if (!sections.has(figure.section)) {
      const grid = element("div", { className: "grid" });
      main.append(element("h2", { textContent: figure.section }), grid);
      sections.set(figure.section, { grid, ids: new Set() });
    }
    const { grid, ids } = sections.get(figure.section);
    if (ids.has(figure.id)) continue;
    ids.add(figure.id);
    const button = element("button", { type: "button", textContent: "PNG", title: "Save this chart as PNG" });
    const select = element("select", { title: "Which cells" });
    const card = element("article", { className: "card" },
      element("header", {}, element("h3", { textContent: figure.title }), button), select,
      element("div", { className: "plot" }));
    card.dataset.id = figure.id;
    button.addEventListener("click", () => save(card));
    select.addEventListener("change", () => { views[figure.id] = select.value; drawCard(card); });
    grid.append(card);
  }
}

// ---- filters, table, theme ----
function makeFilters() {
  const form = document.getElementById("filters");
  for (const key of ["pass", "dtype", "causal"]) {
    const values = [...new Set(report.figures.map((figure) => figure[key]).filter(Boolean))];
    if (values.length === 0) continue;
    chosen[key] = values[0];
    const set = element("fieldset", {}, element("legend", { textContent: key }));
    for (const value of values) {
      const input = element("input", { type: "radio", name: key, value, checked: value === chosen[key] });
      input.addEventListener("change", () => { chosen[key] = value; drawAll(); });
      set.append(element("label", {}, input, element("span", { textContent: value })));
    }
    form.append(set);
  }
}

function drawAll() {
  document.querySelectorAll(".card").forEach(drawCard);
  for (const row of document.querySelectorAll("#cells tbody tr")) {
    row.hidden = ["causal", "dtype"].some((key) => chosen[key] && row.dataset[key] !== chosen[key]);
  }
}

function sortTable(head, column) {
  const heads = [...head.parentNode.children];
  const up = head.getAttribute("aria-sort") !== "ascending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = document.querySelector("#cells tbody");
  const value = (row) => row.children[column].textContent;
  const compare = (a, b) => {
    const x = value(a), y = value(b);
    if (x === "" || y === "") return (x === "") - (y === "");  // missing values sort last in both directions
    const order = Number.isNaN(+x) || Number.isNaN(+y) ? x.localeCompare(y) : x - y;
    return up ? order : -order;
  };
  body.append(...[...body.children].sort(compare));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  drawAll();
}

const system = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = system.matches ? "dark" : "light";
makeCards();
makeFilters();
drawAll();
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
document.querySelectorAll("#cells th").forEach((head, column) => head.addEventListener("click", () => sortTable(head, column)));
let before = "light";
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); });
addEventListener("afterprint", () => setTheme(before));
