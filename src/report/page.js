"use strict";
// The sections of the page, each where its data are there; docs/watching.md lists the fields.
const report = JSON.parse(document.getElementById("report").textContent);
const runs = report.runs ?? [];
const classes = report.classes ?? [];
const gold = report.evaluation !== undefined;
const several = runs.length > 1;
const first = runs[0] ?? { metrics: [], stages: [], ranks: [] };

// Every name once, in the order in which they first occur.
const unique = (names) => [...new Set(names)];

// ---- summary

function tiles() {
  if (several) return [];
  const known = first.metrics.filter((one) => finite(one.value));
  const headlines = known.filter((one) => one.headline);
  const shown = headlines.length ? headlines : known.slice(0, 6);
  if (shown.length) return shown.map((one) => tile(one.title, measure(one.value), interval(one)));
  if (!report.documents) return [];
  const labels = sum(classes.map((c) => c.predicted));
  return [tile("documents", count(report.documents), "labelled"),
    tile("classes used", count(classes.filter((c) => c.predicted).length),
      `of ${count(classes.length)}`),
    tile("labels per document", fixed(2)(labels / report.documents), "mean")];
}

function summary() {
  const shown = tiles();
  document.title = report.title;
  document.querySelector("header").append(html("p", { class: "brand" }, "gpuhpc report"),
    html("h1", {}, report.title), shown.length ? html("dl", { class: "tiles" }, shown) : "",
    ...(report.warnings ?? []).map((text) => html("p", { class: "warn", role: "note" }, text)));
}

// ---- metrics

const percent = (value) => 100 * Math.min(1, Math.max(0, value));
const inside = (value) => !finite(value) || (value >= 0 && value <= 1);

// A dot with its interval on the axis from 0 to 1; a number alone when it lies elsewhere.
function metricRow(one) {
  const drawn = [one.value, one.low, one.high].every(inside);
  const marks = [0, 25, 50, 75, 100].map((at) => html("i", { style: `left:${at}%` }));
  const [low, high, value] = [one.low, one.high, one.value].map(percent);
  if (finite(one.low) && finite(one.high))
    marks.push(html("span", { class: "whisker", style: `left:${low}%;width:${high - low}%` }));
  if (finite(one.value)) marks.push(html("span", { class: "point", style: `left:${value}%` }));
  const missing = one.group === "Ranking of the classes" ? "needs scores" : "not available";
  return html("div", { class: "row metric" },
    html("div", { class: "name" }, one.title, html("small", {}, one.about)),
    html("div", { class: drawn ? "track drawn" : "track" }, drawn ? marks : ""),
    html("div", { class: "val" }, finite(one.value) ? `${measure(one.value)} ` : "",
      html("small", {}, finite(one.value) ? interval(one) : missing)));
}

function metrics() {
  if (several || first.metrics.length === 0) return;
  const scale = html("div", { class: "row metric" }, html("div"), html("div", { class: "scale" },
    [0, .25, .5, .75, 1].map((at) => html("span", { style: `left:${100 * at}%` },
      String(at).replace("0.", ".")))), html("div"));
  const samples = report.evaluation?.bootstrap_samples;
  const against = gold
    ? `Against the gold labels of ${count(report.evaluation.documents)} documents.` : "";
  const lead = against + (samples > 0 ? ` The dot is the value, the band around it the 95% interval\
 from ${count(samples)} bootstrap resamples of the documents.` : "");
  const groups = unique(first.metrics.map((one) => one.group)).map((group) => [
    group && html("h3", {}, group),
    first.metrics.filter((one) => one.group === group).map(metricRow)]);
  const drawn = first.metrics.some((one) => finite(one.value) && inside(one.value));
  section("metrics", "Metrics", lead, drawn && scale, groups.flat(2));
}

// Runs side by side: the best value of each measure in bold, and the options that differ.
function comparison() {
  if (!several) return;
  const all = runs.flatMap((run) => run.metrics);
  const heads = runs.map((run) => ({ title: run.name, number: true, show: (cell) => cell }));
  const rows = unique(all.map((one) => one.name)).map((name) => {
    const values = runs.map((run) => run.metrics.find((one) => one.name === name)?.value);
    const best = (/loss|perplexity|^ece_|^aurc$/.test(name) ? Math.min : Math.max)(...values.filter(finite));
    return [all.find((one) => one.name === name).title, ...values.map((value) =>
      finite(value) ? html("span", { class: value === best ? "best" : "" }, measure(value)) : "")];
  });
  const options = (report.differences ?? []).map((one) => [one.option, ...one.values]);
  section("runs", "Runs", "",
    rows.length && figure("Metrics, the best of each row in bold",
      wide(table([{ title: "measure" }, ...heads], rows))),
    options.length && figure("Options that differ",
      wide(table([{ title: "option" }, ...runs.map((run) => ({ title: run.name }))], options))));
}

// ---- labels

// Of the measured documents where there is gold, so that both bars count the same ones.
const goldOf = (id) => report.evaluation?.classes[id].gold;
const madeOf = (id) => report.evaluation?.classes[id].predicted ?? classes[id].predicted;

// A class with several parents is unfolded under the first one that shows it; elsewhere it is one
// line. Bars compare siblings: the longest of a group fills its column.
function treeNodes(siblings, under, unfolded) {
  const longest = Math.max(1, ...siblings.map((id) =>
    Math.max(madeOf(id), goldOf(id) ?? 0)));
  return siblings.map((id) => {
    const c = classes[id], right = goldOf(id);
    const drawn = (colour, value) =>
      html("b", { class: colour, style: `width:${(100 * value) / longest}%` });
    const line = html("span", { class: "node" }, html("span", { class: "mark" }),
      html("span", {}, isolated(c.title), c.parents.filter((p) => p !== under).map((p) =>
        html("span", { class: "also" }, ` also in ${classes[p].title}`))),
      html("span", { class: "pair" }, drawn("c0", madeOf(id)), gold ? drawn("c8", right) : ""),
      html("span", { class: "counts" }, count(madeOf(id)),
        gold ? html("small", {}, ` / ${count(right)}`) : ""));
    if (c.children.length === 0 || unfolded.has(id)) return html("div", { class: "leaf" }, line);
    unfolded.add(id);
    return html("details", {}, html("summary", {}, line), treeNodes(c.children, id, unfolded));
  });
}

function taxonomy() {
  const roots = classes.flatMap((c, id) => (c.parents.length ? [] : [id]));
  const counts = gold ? "predicted (blue) / gold (grey)" : "predicted";
  section("taxonomy", "Taxonomy",
    `Documents in each class: ${counts}; bars compare siblings. Click a class to unfold it.`,
    roots.length && html("div", { class: "tree" }, treeNodes(roots, -1, new Set())));
}

function histogram(title, { correct, wrong }) {
  const width = 1 / correct.length;
  const list = correct.map((right, b) => ({ from: b * width, to: (b + 1) * width,
    tip: `${fixed(2)(b * width)} to ${fixed(2)((b + 1) * width)}: ` +
      (gold ? `${count(right)} right, ${count(wrong[b])} wrong` : count(right)),
    parts: [["c0", right], ["c1", wrong[b]]] }));
  const node = bars(list, { title, low: 0, high: 1, xLabel: "score" });
  return node && figure(title, gold ? legend([["c0", "right"], ["c1", "wrong"]]) : "", node);
}

function scores() {
  if (!report.histograms) return;
  const shown = [histogram("Best class of each document", report.histograms.best),
    histogram("All predicted classes", report.histograms.predicted),
    report.reliability && curve(report.reliability), report.risk && curve(report.risk)]
    .filter(Boolean);
  section("scores", "Scores", gold
    ? "How sure the predictions are, and how often they are right at that."
    : "How sure the predictions are.", shown.length && html("div", { class: "charts" }, shown));
}

// A square root keeps small shares visible.
function heatCell(value, total, kind, tip) {
  const share = total > 0 ? value / total : 0, strength = Math.sqrt(share);
  const heat = kind === "out" ? "heat-out" : "heat";
  const ink = strength > 0.6 ? ";color:var(--heat-ink)" : "";
  return html("td", { class: value ? kind : `${kind} zero`, title: tip,
    style: value ? `background:rgb(var(--${heat})/${strength.toFixed(2)})${ink}` : "" },
  value === 0 ? "\u00b7" : share < 0.005 ? "" : (100 * share).toFixed(0));
}

function confusionTable({ parent, classes: members, counts, confused }) {
  const k = members.length, at = (i, j) => counts[i * (k + 1) + j];
  const title = (i) => classes[members[i]].title;
  const places = [...members.keys()];
  const trouble = places.map((i) => sum(places.filter((j) => j !== i)
    .map((j) => at(i, j) + at(j, i))));
  const shown = [...places].sort((a, b) => trouble[b] - trouble[a]).slice(0, 10)
    .sort((a, b) => a - b);
  const cut = shown.length < k;
  const head = (text) => html("th", { scope: "col", title: text }, html("span", {}, text));
  const rows = shown.map((i) => {
    const total = sum(counts.slice(i * (k + 1), (i + 1) * (k + 1)));
    const of = (value) => `${Number(value.toPrecision(4))} of ${count(total)} documents`;
    const cells = shown.map((j) => heatCell(at(i, j), total, i === j ? "found" : "",
      `${of(at(i, j))} of ${title(i)} predicted as ${title(j)}`));
    const rest = sum(places.filter((j) => !shown.includes(j)).map((j) => at(i, j)));
    if (cut) cells.push(heatCell(rest, total, "out", of(rest)));
    const tip = `${title(i)}: ${count(total)} documents`;
    return html("tr", {}, html("th", { scope: "row", title: tip }, title(i)), cells,
      heatCell(at(i, k), total, "out", of(at(i, k))));
  });
  const name = [parent < 0 ? "roots " : `in ${classes[parent].title} `,
    html("small", {}, `${count(Math.round(confused))} taken for a sibling`)];
  return figure(name, wide(html("table", { class: "heat" }, html("thead", {}, html("tr", {},
    html("th"), shown.map((j) => head(title(j))), cut ? head("other siblings") : "",
    head("none of them"))), html("tbody", {}, rows))));
}

function confusion() {
  const groups = (report.evaluation?.confusion ?? []).map(confusionTable);
  section("confusion", "Confusion", "Where documents of a gold class (row) went, in percent of the\
 row: found (diagonal), taken for a sibling, or given none of them. The worst groups first.",
  groups.length && html("div", { class: "groups" }, groups));
}

const countColumns = [...["gold", "predicted", "right"].map((title) =>
  ({ title, number: true, show: count })), ...["precision", "recall", "F1"].map((title) =>
  ({ title, number: true, show: fixed(3) }))];
const countCells = (c) => [c.gold, c.predicted, c.correct, c.precision, c.recall, c.f1];

function countTables() {
  if (!gold) return;
  const levels = report.evaluation.levels.map((level, k) => [k + 1, ...countCells(level)]);
  section("levels", "Levels", "Level 1 holds the roots. Document-class pairs.",
    levels.length && wide(table([{ title: "level" }, ...countColumns], levels)));
  const named = (title, row) => {
    const parents = classes[row.at(-1)].parents.map((p) => classes[p].title).join(", ");
    return html("span", {}, isolated(title), parents ? html("small", {}, ` in ${parents}`) : "");
  };
  const rows = classes.map((c, id) => [c.title, ...countCells(report.evaluation.classes[id]), id]);
  const columns = [{ title: "class", show: named }, ...countColumns];
  const shown = table(columns, rows, { sortable: true });
  const filter = html("input", { class: "filter", type: "search", placeholder: "find a class",
    "aria-label": "find a class" });
  filter.addEventListener("input", () => {
    for (const row of shown.tBodies[0].rows)
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(filter.value.toLowerCase());
  });
  section("classes", "Classes", "Click a column to sort by it.", filter, tall(shown));
}

// The classes of a set that none of its other classes lies below: the ends of its paths.
const deepest = (set) => set.filter((c) => !classes[c].children.some((d) => set.includes(d)));

// From a root down to `end`, through parents that are in `set` where there are such.
function pathTo(end, set) {
  const path = [end];
  for (let parents = classes[end].parents; parents.length; parents = classes[path[0]].parents)
    path.unshift(parents.find((p) => set.includes(p)) ?? parents[0]);
  return path;
}

function example(one) {
  const item = (name, mark, spoken, path, score) => html("li", {},
    mark && html("span", { class: `mark ${name}`, role: "img", "aria-label": spoken,
      title: spoken }, mark),
    html("span", { class: "path" }, path), score && html("span", { class: "score" }, score));
  // Ancestors that only lead to the others are grey.
  const steps = (end, set, counts) => pathTo(end, set).flatMap((c, i) => {
    const title = isolated(classes[c].title), bad = gold && !one.gold.includes(c);
    return [i ? html("em", {}, " \u203a ") : "", !counts(c) ? html("em", {}, title)
      : bad ? html("span", { class: "bad", title: "not in gold" }, title) : title];
  });
  const predicted = (c) => one.predicted.includes(c);
  const items = deepest(one.predicted).map((end) => {
    const right = one.gold.includes(end), score = one.scores[one.predicted.indexOf(end)];
    return item(right ? "c0" : "c1", gold && (right ? "\u2713" : "\u2717"),
      right ? "right" : "wrong", steps(end, one.predicted, predicted),
      finite(score) && score.toFixed(2));
  });
  if (items.length === 0)
    items.push(item("c8", "\u2013", "nothing", html("em", {}, "nothing predicted")));
  const missed = deepest(one.gold).filter((end) => !predicted(end)).map((end) =>
    item("c8", "+", "missed", steps(end, one.gold, (c) => one.gold.includes(c) && !predicted(c)),
      "missed"));
  return html("article", { class: "doc" }, html("small", {}, isolated(one.id)),
    foldedText(one.text), html("ul", {}, items, missed));
}

function examples() {
  const shown = (report.examples ?? []).map(example);
  const marks = ": \u2713 right, \u2717 wrong, + gold that was missed";
  const lead = `${shown.length} documents drawn at random, with their predicted paths\
${gold ? marks : ""}. The number is the score of the last class.`;
  section("examples", "Examples", lead, shown.length && html("div", { class: "docs" }, shown));
}

// ---- what a job wants to be looked at

function samples() {
  (report.samples ?? []).forEach(({ title, about = "", columns, rows }, i) => {
    const numbers = columns.map((_, c) => rows.every((row) => typeof row[c] !== "string"));
    const drawn = columns.map((name, c) => ({ title: name, number: numbers[c],
      show: (cell) => (numbers[c] ? measure(cell) : isolated(cell ?? "\u2013")) }));
    section(`samples-${i + 1}`, title, about,
      wide(table(drawn, rows, { name: "texts" })));
  });
}

// ---- training

function training() {
  const shown = (report.curves ?? []).map(curve).filter(Boolean);
  section("training", "Training", several ? "Losses of the training, norms and tokens per second are\
 means over the twentieth of the run that ends at the point." : "",
  shown.length && html("div", { class: "charts" }, shown));
}

const parts = {
  data: ["c3", "data: batches made ready"],
  compute: ["c0", "compute: forward and backward"],
  sum: ["c1", "sum over ranks, what compute does not hide"],
  update: ["c2", "agreement and update"],
  other: ["c8", "other"],
};
const total = (split) => sum(split.parts.map((part) => part.seconds));
const share = (part, split) => `${((100 * part.seconds) / total(split)).toFixed(1)} %`;
const partName = (name) => (parts[name] ? [key(parts[name][0]), name] : name);

function stepsOfOne(split) {
  const tip = (name, ms) => `${name} ${Number(ms.toPrecision(3))} ms`;
  const list = split.first.map((step, b) => {
    const sizes = split.parts.map((part) => [part.name, 1000 * part.bars[b]]);
    return { from: step - 1, to: split.last[b], parts: sizes.map(([n, ms]) => [parts[n][0], ms]),
      tip: `steps ${step} to ${split.last[b]}: ${sizes.map(([n, ms]) => tip(n, ms)).join(", ")}` };
  });
  const title = "Milliseconds per step";
  const node = bars(list, { title, xLabel: "step", whole: true, low: list[0].from,
    high: list.at(-1).to });
  const rows = split.parts.map((part) => [part.name, part.seconds, part.seconds,
    share(part, split)]);
  rows.push(["a step", total(split), total(split), "100.0 %"]);
  return html("div", { class: "charts" },
    figure(title, legend(split.parts.map((part) => parts[part.name])), node ?? ""),
    figure(`Mean of ${count(split.count)} steps`, wide(table([
      { title: "part", show: (name) => html("span", {}, partName(name)) },
      { title: "ms per step", number: true, show: (s) => milliseconds(s / split.count) },
      { title: "seconds", number: true, show: fixed(1) },
      { title: "share", number: true, show: (text) => text },
    ], rows, { mark: ([name]) => (name === "a step" ? "total" : "") }))));
}

function stepsOfSeveral(list) {
  const mean = ({ steps }) => total(steps) / steps.count;
  const longest = Math.max(...list.map(mean));
  const used = Object.keys(parts).filter((name) =>
    list.some(({ steps }) => steps.parts.some((part) => part.name === name)));
  const stack = list.map((run) => bar(isolated(run.name), run.steps.parts.map((part) =>
    [parts[part.name][0], (100 * part.seconds) / run.steps.count / longest]),
  `${milliseconds(mean(run))} ms`));
  const cell = ({ steps }, name) => {
    const part = name === "a step" ? { seconds: total(steps) }
      : steps.parts.find((one) => one.name === name);
    return part ? html("span", {}, `${milliseconds(part.seconds / steps.count)} `,
      html("small", {}, share(part, steps))) : "";
  };
  const rows = [...used, "a step"].map((name) => [name, ...list.map((run) => cell(run, name))]);
  return [legend(used.map((name) => parts[name])), html("div", {}, stack), wide(table(
    [{ title: "ms per step", show: (name) => html("span", {}, partName(name)) },
      ...list.map((run) => ({ title: run.name, number: true, show: (node) => node }))], rows,
    { mark: ([name]) => (name === "a step" ? "total" : "") }))];
}

function steps() {
  const list = runs.filter((run) => run.steps && total(run.steps) > 0);
  section("steps", "Steps", "Where the time of the training steps went, on rank 0.",
    list.length && (several ? stepsOfSeveral(list) : stepsOfOne(list[0].steps)));
}

function ranks() {
  const rows = runs.flatMap((run) => run.ranks.map((rank) => ({ ...rank, run: run.name })));
  const slow = (rank) => rank.times_slower > 1;
  const host = (name, row) => html("span", {}, isolated(name), slow(row.at(-1)) &&
    html("em", {}, `slow: ${fixed(1)(row.at(-1).times_slower)} times as long a token`));
  const number = (title, name, show) => ({ title, name, number: true, show });
  const columns = [...(several ? [{ title: "run", name: "run" }] : []),
    number("rank", "rank", count), { title: "host", name: "host", show: host },
    { title: "device", name: "device" }, number("steps", "steps", count),
    number("tokens", "tokens", count),
    ...["data", "compute", "sum", "update", "other"].map((name) =>
      number(name, `${name}_seconds`, fixed(1))),
    number("in all", "wall_seconds", fixed(1)), number("peak memory", "peak_memory", bytes)];
  const shown = table(columns, rows.map((rank) => [...columns.map((c) => rank[c.name]), rank]),
    { mark: (row) => (slow(row.at(-1)) ? "slow" : "") });
  section("ranks", "Ranks", "Seconds of the whole training on each rank. In a step all wait for the\
 slowest: its own sum is short, that of the others long.",
  rows.length && (rows.length > 32 ? tall(shown) : wide(shown)));
}

// ---- time and facts

function time() {
  const all = runs.flatMap((run) => run.stages);
  if (all.length === 0) return;
  if (several) {
    const rows = unique(all.map((stage) => stage.name)).map((name) => [name, ...runs.map((run) =>
      run.stages.find((stage) => stage.name === name)?.seconds)]);
    rows.push(["in all", ...runs.map((run) => sum(run.stages.map((stage) => stage.seconds)))]);
    const show = (seconds) => (finite(seconds) ? duration(seconds) : "");
    section("time", "Time", "Stage by stage.", wide(table([{ title: "stage" },
      ...runs.map((run) => ({ title: run.name, number: true, show }))], rows,
    { mark: (row) => (row === rows.at(-1) ? "total" : "") })));
    return;
  }
  const longest = Math.max(...all.map((stage) => stage.seconds)) || 1;
  const reused = all.some((stage) => stage.reused)
    ? " A reused stage was finished in an earlier run; its bar is the time it took then." : "";
  section("time", "Time", `${clock(sum(all.map((stage) => stage.seconds)))} in all, stage by stage, \
with the most memory that a rank held.${reused}`, html("div", {}, all.map((stage) => bar(isolated(stage.name),
    [[stage.reused ? "c0 reused" : "c0", (100 * stage.seconds) / longest]],
    `${duration(stage.seconds)}${stage.memory ? `, ${bytes(stage.memory)}` : ""}\
${stage.gpu_memory ? `, GPU ${bytes(stage.gpu_memory)}` : ""}${stage.reused ? " (reused)" : ""}`))));
}

function facts() {
  const list = (report.facts ?? []).flatMap(([name, value]) =>
    [html("dt", {}, name), html("dd", {}, value)]);
  section("run", "Run", "", list.length && html("dl", { class: "facts" }, list),
    report.config && html("details", {}, html("summary", {},
      "All options as resolved (config.ini)"), html("pre", {}, report.config)));
}

for (const draw of [summary, metrics, comparison, taxonomy, scores, confusion, countTables,
  examples, samples, training, steps, ranks, time, facts]) draw();
