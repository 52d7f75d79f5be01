"use strict";
// What both pages draw with: elements, quantities for people, axes, tips. No library, no request.

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const COLOURS = 10;  // as many as a step has shares of time

function colour(i) { return `var(--c${((i % COLOURS) + COLOURS) % COLOURS})`; }
function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/** make("p", {class: "soft"}, "text", child): an element with attributes and children; texts are never read as HTML. */
function make(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const SVG_TAGS = new Set(["svg", "g", "path", "rect", "line", "circle", "text", "polyline"]);

function section(title, ...children) {
  const part = make("section", {}, make("h2", {}, title), ...children);
  page.append(part);
  return part;
}

// ---- quantities ----

function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
}
function seconds(s) {
  if (!Number.isFinite(s)) return "–";
  if (s === 0) return "0 s";
  const [unit, name] = s >= 1 ? [1, "s"] : s >= 1e-3 ? [1e-3, "ms"] : s >= 1e-6 ? [1e-6, "µs"] : [1e-9, "ns"];
  return `${number(s / unit)} ${name}`;
}
/** A time on an axis that is cut every `step` seconds: as many digits as tell neighbours apart. */
function secondsOf(s, step) {
  const [unit, name] = s >= 1 ? [1, "s"] : s >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  return s === 0 ? "0 s" : `${(s / unit).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit) - 1e-6))))} ${name}`;
}
function bytes(b) {
  if (!Number.isFinite(b)) return "–";
  let i = 0;
  while (b >= 1024 && i < 5) { b /= 1024; ++i; }
  return `${number(b)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][i]}`;
}
/** A loss that grows out of all bounds stays readable. */
function lossText(v) { return v === null ? "no number" : Math.abs(v) < 1e6 ? number(v) : v.toExponential(1); }
function percent(x, digits = 1) { return Number.isFinite(x) ? `${(100 * x).toFixed(digits)} %` : "–"; }
function signed(x) { return Number.isFinite(x) ? `${x >= 0 ? "+" : "−"}${Math.abs(100 * x).toFixed(1)} %` : "–"; }
function words(key) { return key.replace(/_/g, " "); }

const FIGURES = {
  step_time_s: ["step time", seconds, true], tokens_per_s: ["tokens/s", number, false], samples_per_s: ["samples/s", number, false],
  model_tflops_per_device: ["model TFLOP/s per device", number, false],
  hardware_tflops_per_device: ["hardware TFLOP/s per device", number, false],
  mfu: ["MFU", percent, false], hfu: ["HFU", percent, false], bubble_fraction: ["bubble", percent, true],
  needed_bytes: ["memory per device", bytes, true],
  training_days: ["days of training", number, true], device_hours: ["device hours", number, true], cost: ["cost", number, true],
};
const GOAL_FIGURES = ["training_days", "device_hours", "cost"];  // of studies with a goal

// ---- tip ----

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 4))}px`;
}
function hideTip() { tip.hidden = true; }
function tipped(text) { return { onpointermove: (e) => showTip(e, text), onpointerleave: hideTip }; }

// ---- parts ----

function cards(list) {
  return make("div", { class: "cards" }, list.map(([label, value, kind]) =>
    make("div", { class: "card" }, make("b", { class: kind || null }, value), make("span", {}, label))));
}

function legend(entries) {
  return make("div", { class: "legend" }, entries.map(([name, fill]) => make("span", {}, make("i", { style: `background:${fill}` }), name)));
}

/** Round steps that cut [low, high] into about `count`. */
function ticks(low, high, count = 5) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-6; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}

/** The same of numbers that `show` writes: bytes are cut at round numbers of their unit. */
function ticksOf(show, low, high, count) {
  const unit = show === bytes ? byteUnit(high)[1] : 1;
  return ticks(low / unit, high / unit, count).map((v) => v * unit);
}

/** Stacked horizontal bars: rows of {label, short, parts: {kind: value}, whole}; the scale is cut at round multiples of `unit`; `paint(kind)` is its colour. */
function stackedBars(rows, kinds, show, unit = 1, paint = (kind) => colour(kinds.indexOf(kind))) {
  const width = Math.max(320, Math.min(1350, innerWidth - 40));
  const left = 20 + Math.min(width < 700 ? 80 : 330, 6.6 * Math.max(...rows.map((r) => (width < 700 ? r.short : r.label).length))), bar = 20, gap = 8;
  const most = Math.max(...rows.map((r) => kinds.reduce((s, k) => s + (r.parts[k] || 0), 0)), 1e-30);
  const svg = make("svg", { viewBox: `0 0 ${width} ${rows.length * (bar + gap) + 34}`, role: "img" });
  const scale = (width - left - 16) / most;
  for (const t of ticks(0, most / unit, width > 700 ? 6 : 3).map((cut) => cut * unit)) {
    const x = left + t * scale;
    svg.append(make("line", { class: "axis", x1: x, x2: x, y1: 6, y2: rows.length * (bar + gap) + 8 }),
      make("text", { class: "soft", x, y: rows.length * (bar + gap) + 24, "text-anchor": x > width - 30 ? "end" : "middle" }, show(t)));
  }
  rows.forEach((row, i) => {
    let x = left;
    const y = 8 + i * (bar + gap);
    svg.append(make("text", { x: left - 8, y: y + 14, "text-anchor": "end" }, width < 700 ? row.short : row.label));
    kinds.forEach((kind) => {
      const value = row.parts[kind] || 0;
      if (value <= 0) return;
      svg.append(make("rect", { x, y, width: Math.max(0.5, value * scale), height: bar, fill: paint(kind),
        ...tipped(`${row.label}\n${words(kind)}: ${show(value)} (${percent(value / (row.whole || most))})`) }));
      x += value * scale;
    });
  });
  return svg;
}

/** Of lists longer than a call may have arguments. */
function smallest(list) { return list.reduce((a, b) => Math.min(a, b), Infinity); }
function largest(list) { return list.reduce((a, b) => Math.max(a, b), -Infinity); }

/**
 * Lines over whole numbers: [{name, colour, points: [[x, y]], dots}]; what is no number is a gap, `dots` are not joined.
 * `marks`: [{x, text}] upright.
 */
function lineChart(lines, xName, show, marks = []) {
  const width = Math.max(320, Math.min(1350, innerWidth - 40)), height = 260, bottom = 40;
  const points = lines.flatMap((l) => l.points).filter(([, v]) => Number.isFinite(v));
  if (!points.length) return make("p", { class: "soft" }, "No finite value.");
  const xs = lines.flatMap((l) => l.points.map(([at]) => at)), ys = points.map(([, v]) => v), first = smallest(xs), last = Math.max(largest(xs), first + 1);
  const least = smallest(ys), most = largest(ys), room = (most - least || Math.abs(most) || 1) * 0.08;
  const low = least >= 0 && least < 0.5 * most ? 0 : least - room, high = most + room;
  const rows = ticks(low, high, 5).map((v) => [v, show(v)]), left = Math.max(78, 16 + 7 * largest(rows.map(([, text]) => text.length)));
  const x = (v) => left + (width - left - 16) * (v - first) / (last - first), y = (v) => 10 + (height - bottom - 10) * (high - v) / (high - low);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const [v, text] of rows)
    svg.append(make("line", { class: "axis", x1: left, x2: width - 16, y1: y(v), y2: y(v) }), make("text", { class: "soft", x: left - 8, y: y(v) + 4, "text-anchor": "end" }, text));
  for (const v of new Set(ticks(first, last, width > 700 ? 10 : 4).map(Math.round)))
    svg.append(make("text", { class: "soft", x: x(v), y: height - bottom + 16, "text-anchor": "middle" }, number(v)));
  svg.append(make("text", { class: "soft", x: (left + width - 16) / 2, y: height - 6, "text-anchor": "middle" }, xName));
  for (const mark of marks)
    svg.append(make("line", { x1: x(mark.x), x2: x(mark.x), y1: 10, y2: height - bottom, stroke: "var(--soft)", "stroke-dasharray": "3 4", ...tipped(mark.text) }));
  for (const line of lines) {
    let d = "", open = false;
    for (const [at, v] of line.points) {
      if (Number.isFinite(v)) d += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(v).toFixed(1)}`;
      open = Number.isFinite(v);
    }
    if (!line.dots) svg.append(make("path", { d, fill: "none", stroke: line.colour, "stroke-width": 2, "stroke-dasharray": line.dashed ? "6 4" : null }));
    const few = line.points.length <= 60, every = Math.ceil(line.points.length / 3000);  // a long run's points tell their values now and then
    for (const [at, v] of line.points.filter((_, i) => i % every === 0))
      if (Number.isFinite(v) && !line.dashed)
        svg.append(make("circle", { cx: x(at), cy: y(v), r: line.dots ? 4.5 : few ? 3 : 6, fill: line.dots || few ? line.colour : "transparent", ...tipped(`${line.name}\n${xName} ${at}: ${show(v)}`) }));
  }
  return svg;
}

/** Columns: [{title, text(row), value(row), left, words}]; sorts by a click on a title. */
function sortableTable(columns, rows, order = null) {
  const body = make("tbody");
  let by = order ? order.column : -1, down = order ? order.down : false;
  function draw() {
    const sorted = [...rows];
    if (by >= 0) sorted.sort((a, b) => {
      const [x, y] = [columns[by].value(a), columns[by].value(b)];
      const missing = (v) => v === null || v === undefined || Number.isNaN(v);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.replaceChildren(...sorted.map((row) => make("tr", {}, columns.map((c) => make("td",
      { class: [c.left ? "left" : "", c.words ? "words" : "", c.mark ? c.mark(row) : ""].join(" ").trim() || null }, c.text(row))))));
    heads.forEach((h, i) => h.setAttribute("aria-sort", i === by ? (down ? "descending" : "ascending") : "none"));
    heads.forEach((h, i) => { h.firstChild.textContent = columns[i].title + (i === by ? (down ? " ▾" : " ▴") : ""); });
  }
  const heads = columns.map((c, i) => make("th", { class: c.left ? "left" : null }, make("button", { type: "button", onclick: () => {
    down = by === i ? !down : false;
    by = i;
    draw();
  } }, c.title)));
  draw();
  return make("div", { class: "scroll tall" }, make("table", {}, make("thead", {}, make("tr", {}, heads)), body));
}
