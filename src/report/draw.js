"use strict";
// What the sections of the page are made of: elements, numbers, tables and charts. Texts of the
// data become text nodes and attribute values; nothing here makes markup of a text.

const make = (space) => (tag, attributes, ...children) => {
  const node = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (value !== undefined && value !== "") node.setAttribute(name, value);
  node.append(...children.flat(Infinity).filter((child) => child || child === 0));
  return node;
};
const html = make("http://www.w3.org/1999/xhtml");
const svg = make("http://www.w3.org/2000/svg");

const sum = (values) => values.reduce((total, value) => total + value, 0);
const finite = (value) => typeof value === "number" && Number.isFinite(value);
const count = (value) => (finite(value) ? value.toLocaleString("en-US") : "\u2013");
const fixed = (digits) => (value) => (finite(value) ? value.toFixed(digits) : "\u2013");
const measure = (value) =>
  !finite(value) || Math.abs(value) <= 1 ? fixed(3)(value)
    : value.toLocaleString("en-US", { maximumSignificantDigits: 5 });
const interval = (figure) =>
  finite(figure.low) && finite(figure.high)
    ? `${measure(figure.low)} to ${measure(figure.high)}` : "";
const two = (value) => String(value).padStart(2, "0");
const clock = (seconds) => {
  const whole = Math.round(seconds), hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
};
const duration = (seconds) => (seconds < 60 ? `${seconds.toFixed(1)} s` : clock(seconds));
const milliseconds = (seconds) => {
  const ms = 1000 * seconds;
  return ms.toFixed(ms < 10 ? 2 : ms < 1000 ? 1 : 0);
};
const bytes = (value) => (value < 10 * 2 ** 30
  ? `${(value / 2 ** 20).toFixed(0)} MiB` : `${(value / 2 ** 30).toFixed(1)} GiB`);
const short = (value, digits = 3) => {
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-3))
    return Number(value.toPrecision(digits)).toExponential();
  const [unit, name] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([u]) => size >= u) ?? [1, ""];
  return Number((value / unit).toPrecision(digits)) + name;
};

// ---- blocks

function section(id, title, lead, ...body) {
  const blocks = body.flat().filter(Boolean);
  if (blocks.length === 0) return;
  const name = html("h2", {}, title);
  document.querySelector("main").append(
    html("section", { id }, name, lead && html("p", { class: "lead" }, lead), blocks));
  document.querySelector("nav").append(html("a", { href: `#${id}` }, title));
}

const figure = (title, ...body) => html("figure", {}, html("figcaption", {}, title), body);
const isolated = (text) => html("bdi", {}, text); // its writing direction stays inside
const key = (colour) => html("i", { class: `key ${colour}` });
const legend = (entries) =>
  html("div", { class: "legend" },
    entries.map(([colour, text]) => html("span", {}, key(colour), isolated(text))));
const bar = (title, parts, value) =>
  html("div", { class: "row" }, html("div", {}, title),
    html("div", { class: "bar" }, parts.map(([colour, width]) =>
      html("b", { class: colour, style: `width:${width.toFixed(2)}%` }))),
    html("div", { class: "val" }, value));

const tile = (title, value, below) =>
  html("div", {}, html("dt", {}, title), html("dd", {}, value, html("small", {}, below)));

const textShown = 320; // characters at sight; the rest after a click

function foldedText(text) {
  if (text.length <= textShown) return html("p", { dir: "auto" }, text);
  const blank = text.lastIndexOf(" ", textShown);
  const end = blank > textShown - 40 ? blank : textShown;
  const cut = /[\uD800-\uDBFF]/.test(text[end - 1]) ? end - 1 : end; // between two characters
  return [html("p", { dir: "auto" }, `${text.slice(0, cut)}\u00a0\u2026`),
    html("details", {}, html("summary", {}, "more"),
      html("p", { dir: "auto" }, text.slice(cut)))];
}

// Columns: {title, number, show}; rows: arrays of values, each drawn by `show` of its column.
// `mark` gives a row its class. Sortable: by a click on a head, numbers best first.
function table(columns, rows, { sortable = false, mark = () => "", name } = {}) {
  const lines = rows.map((row) => ({ row, node: html("tr", { class: mark(row) },
    columns.map(({ number, show = isolated }, i) =>
      html("td", { class: number ? "n" : "" }, show(row[i], row)))) }));
  const body = html("tbody", {}, lines.map((line) => line.node));
  const heads = columns.map(({ title, number }, i) => {
    const button = html("button", { type: "button" }, title);
    const head = html("th", { class: number ? "n" : "" }, sortable ? button : title);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : Boolean(number);
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => (number ? a - b : String(a).localeCompare(String(b)));
      lines.sort((a, b) => order(a.row[i], b.row[i]) * (down ? -1 : 1));
      body.append(...lines.map((line) => line.node));
    });
    return head;
  });
  return html("table", { class: name }, html("thead", {}, html("tr", {}, heads)), body);
}
const wide = (...children) => html("div", { class: "wide" }, children);
const tall = (...children) => html("div", { class: "tall" }, children);

// ---- charts, in units of 1/12 text height

// Round steps (1, 2 or 5 times a power of ten) that cut [low, high] in at most `most` parts.
function axisStep(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  return (([1, 2, 5].find((factor) => factor * power >= rough * (1 - 1e-9)) ?? 10) * power);
}

function axisNumber(value, step) {
  if (Math.abs(value) < step * 1e-6) return "0";
  if (step < 1e-4 || step >= 1000) return short(value, 6);
  return value.toFixed(Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
}

// Counted: steps below the resolution of the numbers would never reach the end.
function axisValues(low, high, step) {
  const first = Math.ceil(low / step - 1e-9) * step;
  return Array.from({ length: 12 }, (_, i) => first + i * step)
    .filter((value) => value <= high + step * 1e-6);
}

// Axes from `low` to `high`, {x, y}, lines `yStep` apart; `whole`: there are no halves of an x.
function chart({ low, high, yStep, title, xLabel, whole = false, right = 12 }) {
  const width = 460, height = 230, left = 50, top = 14, bottom = 34;
  const x = (v) => left + ((v - low.x) / (high.x - low.x)) * (width - left - right);
  const y = (v) => height - bottom - ((v - low.y) / (high.y - low.y)) * (height - top - bottom);
  const line = (name, at) =>
    svg("line", { class: name, x1: left, x2: width - right, y1: at, y2: at });
  const label = (anchor, at, down, text) =>
    svg("text", { "text-anchor": anchor, x: at, y: down }, text);
  const xStep = Math.max(axisStep(low.x, high.x, 5), whole ? 1 : 0);
  const node = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title },
    axisValues(low.y, high.y, yStep).map((value) => [line("grid", y(value)),
      label("end", left - 6, y(value) + 4, axisNumber(value, yStep))]),
    line("axis", y(low.y)),
    axisValues(low.x, high.x, xStep).map((value) =>
      label("middle", x(value), height - 19, axisNumber(value, xStep))),
    label("end", width - right, height - 4, xLabel));
  return { node, x, y };
}

// Bars {from, to, tip, parts: [[colour, height]]}, parts one on the other.
function bars(list, { title, low, high, xLabel, whole }) {
  const highest = Math.max(...list.map((one) => sum(one.parts.map((part) => part[1]))));
  if (!(highest > 0 && highest < 1e100)) return undefined;
  const step = axisStep(0, highest, 4);
  const { node, x, y } = chart({ title, xLabel, whole, yStep: step, low: { x: low, y: 0 },
    high: { x: high, y: Math.ceil(highest / step) * step } });
  for (const { from, to, tip, parts } of list) {
    const room = x(to) - x(from);
    let base = 0;
    node.append(svg("g", {}, svg("title", {}, tip), parts.map(([colour, size]) => {
      const down = y(base);
      base += size;
      return size > 0 && svg("rect", { class: colour, x: x(from) + 0.06 * room, y: y(base),
        width: 0.88 * room, height: down - y(base) });
    }).filter(Boolean)));
  }
  return node;
}

// The last values of lines, moved apart where lines end close together.
function endTexts(ends, lowest) {
  const apart = 12.5, near = (a, b) => Math.abs(a.x - b.x) < 45;
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => ends.slice(0, i).filter((other) => near(end, other))
    .forEach((other) => { end.y = Math.max(end.y, other.y + apart); }));
  for (let i = ends.length - 1; i >= 0; --i) {
    ends[i].y = Math.min(ends[i].y, lowest);
    for (const other of ends.slice(i + 1))
      if (near(ends[i], other)) ends[i].y = Math.min(ends[i].y, other.y - apart);
  }
  return ends.map((end) => svg("text", { class: "value", x: end.x + 7, y: end.y }, end.text));
}

// Unbroken stretches of points that can be drawn: differences of larger numbers are not finite.
function stretches({ x, y }) {
  const list = [[]];
  x.forEach((at, i) => {
    if (finite(y[i]) && Math.abs(y[i]) < 1e100 && Math.abs(at) < 1e15)
      list.at(-1).push({ x: at, y: y[i] });
    else if (list.at(-1).length) list.push([]);
  });
  return list.filter((stretch) => stretch.length);
}

function curve({ title, x_label: xLabel, series }) {
  const drawn = series.map((one, s) => ({ ...one, colour: `c${s % 8}`, parts: stretches(one) }));
  const all = drawn.flatMap((one) => one.parts.flat());
  const notes = drawn.filter((one) => one.not_finite > 0).map((one) => html("small", {},
    isolated(one.name), `: ${count(one.not_finite)} of its values not finite. `));
  const shown = drawn.filter((one) => one.x.length > 0);
  const names = series.length > 1 && legend(shown.map((one) => [one.colour, one.name]));
  if (all.length === 0) return notes.length ? figure(title, notes) : undefined;
  const end = (pick, axis) => all.reduce((best, p) => pick(best, p[axis]), all[0][axis]);
  const low = { x: end(Math.min, "x"), y: end(Math.min, "y") };
  const high = { x: end(Math.max, "x"), y: end(Math.max, "y") };
  if (low.x === high.x) high.x += 1;
  if (low.y === high.y) high.y += Math.max(1e-6, Math.abs(low.y) * 0.1);
  const yStep = axisStep(low.y, high.y, 4), whole = xLabel === "step";
  low.y = Math.floor(low.y / yStep) * yStep;
  high.y = Math.ceil(high.y / yStep) * yStep;
  const { node, x, y } = chart({ title, xLabel, low, high, yStep, whole, right: 62 });
  const ends = [];
  for (const { colour, parts } of drawn) {
    if (parts.length === 0) continue;
    const last = parts.at(-1).at(-1);
    for (const stretch of parts) {
      const points = [...stretch, stretch.at(-1)]; // one point alone is a dot then
      node.append(svg("polyline", { class: colour,
        points: points.map((p) => `${x(p.x).toFixed(1)},${y(p.y).toFixed(1)}`).join(" ") }));
    }
    node.append(svg("circle", { class: colour, cx: x(last.x), cy: y(last.y), r: 3.5 }));
    ends.push({ x: x(last.x), y: y(last.y) + 4, text: short(last.y) });
  }
  node.append(...endTexts(ends, y(low.y) + 4));
  return figure(title, names || "", node, notes);
}
