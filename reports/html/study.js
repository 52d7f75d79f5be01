// The page about a study: what varied, what came out, what was published.

const study = data.study, points = study.points || [], view = study.view || {};
const axes = study.axes.map((a) => ({ name: a.field || a.name, values: a.values.map((v) => (a.field ? (v !== null && typeof v === "object" ? JSON.stringify(v) : v) : v.label)) }));
const rows = data.rows, solved = rows.filter((r) => r.status === "ok" || r.status === "too large");
const figures = Object.keys(FIGURES).filter((f) => study.goal || !GOAL_FIGURES.includes(f));
const ofDevices = (r) => r.tokens_per_s / r.layout.devices;
const goal = study.goal || null;
const worth = (r) => (goal ? -(r.cost ?? r.device_hours) : r.model_tflops_per_device);  // what a device does for the model is comparable across models and clusters
const late = (r) => r.in_time === false;
const costly = rows.some((r) => r.cost !== undefined) ? "cost" : "device_hours";  // what a goal ranks by
const preferred = goal ? `the plan of ${costly === "cost" ? "least cost" : "fewest device hours"}` : "the plan with most model FLOP/s of a device";
const short = (name) => words(name.replace(/^(parallel|training|cluster|model)\./, ""));
const place = (at) => axes.map((a) => `${short(a.name)} ${at[a.name]}`).join(", ");
const same = (a, b) => axes.every((x) => a[x.name] === b[x.name]);

/** The 80 % range of a row's figure: days, hours and cost grow with the step time, rates fall. Others have none. */
const GROWING = ["step_time_s", ...GOAL_FIGURES], FALLING = ["tokens_per_s", "samples_per_s", "model_tflops_per_device", "hardware_tflops_per_device", "mfu", "hfu"];
function range(row, figure) {
  const value = row[figure], low = row.step_time_low_s / row.step_time_s, high = row.step_time_high_s / row.step_time_s;
  if (!Number.isFinite(value * low * high)) return null;
  return GROWING.includes(figure) ? [value * low, value * high] : FALLING.includes(figure) ? [value / high, value / low] : null;
}
function rangeText(row, figure) {
  const ends = range(row, figure);
  return ends ? ends.map((end) => FIGURES[figure][1](end)).join(" to ") : "";
}

/** Published figures with their predictions. */
const pairs = points.flatMap((point) => figures.filter((f) => point[f] !== undefined).map((figure) => {
  const row = rows.find((r) => same(r.at, point.at));
  const predicted = row ? row[figure] : undefined;
  return { point, figure, row, published: point[figure], predicted, error: predicted / point[figure] - 1 };
}));
const fits = points.filter((p) => p.fits !== undefined).map((point) => ({ point, row: rows.find((r) => same(r.at, point.at)) }));

function mean(list) { return list.reduce((a, b) => a + b, 0) / list.length; }

/** Only these values of axes are drawn: axis to label. */
const only = { ...(view.at || {}) };
const drawn = (at) => Object.entries(only).every(([name, label]) => at[name] === label);

// ---- head ----

const winner = solved.filter((r) => r.status === "ok" && !late(r)).sort((a, b) => worth(b) - worth(a))[0];
const judged = pairs.filter((p) => Number.isFinite(p.error) && p.figure === (pairs.some((q) => q.figure === "step_time_s") ? "step_time_s" : p.figure));
const errors = judged.map((p) => Math.abs(p.error));
const count = (status) => rows.filter((r) => r.status === status).length;
page.append(make("h1", {}, study.name), ...(study.notes ? [make("p", {}, study.notes)] : []),
  cards([["plans predicted", number(solved.length)], ["do not fit the device", number(count("too large"))],
    ["cannot be", number(count("infeasible") + count("refused") + count("failed"))],
    ...(winner ? [[`step time of the winner${range(winner, "step_time_s") ? ` (80 %: ${rangeText(winner, "step_time_s")})` : ""}`, seconds(winner.step_time_s)], ["model TFLOP/s per device", number(winner.model_tflops_per_device)]] : []),
    ...(winner && goal ? [["days of training", number(winner.training_days)], winner.cost !== undefined ? ["cost", number(winner.cost)] : ["device hours", number(winner.device_hours)]] : []),
    ...(errors.length ? [[`mean error of ${errors.length} published ${judged[0].figure === "step_time_s" ? "step times" : "figures"}`, percent(mean(errors))]] : [])]),
  winner ? make("p", {}, make("b", {}, goal ? `For ${number(goal.tokens)} tokens${goal.days ? ` in ${number(goal.days)} days` : ""}, ${preferred} that fits: ` : "Most model FLOP/s of a device among the plans that fit: "), `${place(winner.at)}.`)
    : make("p", { class: "bad" }, solved.some((r) => r.status === "ok") ? `No plan of this study that fits is done in ${number(goal.days)} days.` : solved.length ? "No plan of this study fits its devices." : "No plan of this study can be: the table of all plans has the reasons."));
if (winner && winner.step_time_wider) page.append(make("p", { class: "soft small" }, `Beyond the records: ${winner.step_time_wider}.`));

// ---- curves ----

function numeric(values) { return values.every((v) => typeof v === "number"); }
/** The best row of those: most model FLOP/s of a device, a plan that fits before one that does not. */
function best(list) { return [...list].sort((a, b) => (a.status === "too large") - (b.status === "too large") || late(a) - late(b) || worth(b) - worth(a))[0]; }

/** What curves run over unless the study says it: the axis with most numbers, else the last. A line between two clusters would mean nothing. */
function runsOver() {
  const counted = axes.filter((a) => a.values.length > 1 && numeric(a.values));
  return counted.length ? counted.reduce((most, a) => (a.values.length > most.values.length ? a : most)).name : axes[axes.length - 1].name;
}

const NONE = "(all)";
const over = view.x || runsOver(), others = axes.filter((a) => a.name !== over);
const state = {
  x: over,
  series: view.series || (others.length ? (others.find((a) => a.values.length > 1) || others[0]).name : NONE),
  y: view.y || (goal ? costly : "step_time_s"),
};

function choice(label, key, options, redraw) {
  const select = make("select", { "aria-label": label, onchange: () => { state[key] = select.value; redraw(); } },
    options.map(([value, text]) => make("option", { value, selected: state[key] === value }, text)));
  return make("label", {}, `${label} `, select);
}

function curves() {
  const [, show] = FIGURES[state.y], axis = axes.find((a) => a.name === state.x), group = axes.find((a) => a.name === state.series);
  const names = group && group !== axis ? group.values : [NONE];
  const lines = names.map((name, i) => ({ name, colour: colour(i), dots: axis.values.map((value, index) => {
    const here = (r) => drawn(r.at) && r.at[axis.name] === value && (name === NONE || r.at[group.name] === name);
    const row = best(solved.filter(here));
    const published = pairs.filter((p) => p.figure === state.y && here(p.point));
    return { value, index, row, y: row ? row[state.y] : null, published };
  }) }));
  const width = Math.max(320, Math.min(1350, innerWidth - 40)), left = 78, right = 18;
  const slant = slanted(axis.values, (width - left - right) / axis.values.length), bottom = 46 + slant, height = 334 + bottom;
  const ends = (d) => (d.row && range(d.row, state.y)) || [];
  const all = lines.flatMap((l) => l.dots.flatMap((d) => [d.y, ...ends(d), ...d.published.map((p) => p.published)])).filter(Number.isFinite);
  if (!all.length) return [make("p", { class: "soft" }, "Nothing was predicted here.")];
  const least = Math.min(...all), high = Math.max(...all) * 1.06 || 1, spread = least > 0 && high / least > 30;
  const low = spread ? least / 1.3 : 0;
  const y = (v) => 12 + (height - bottom - 12) * (1 - (spread ? Math.log(v / low) / Math.log(high / low) : v / high));
  const place1 = (i) => left + (width - left - right) * (axis.values.length === 1 ? 0.5 : (i + 0.35) / (axis.values.length - 0.3));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const marks = spread ? logTicks(low, high) : ticksOf(show, 0, high, 6);
  for (const t of marks)
    svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: y(t), y2: y(t) }), make("text", { class: "soft", x: left - 8, y: y(t) + 4, "text-anchor": "end" }, show(t)));
  axis.values.forEach((v, i) => {
    svg.append(axisLabel(String(v), place1(i), height - bottom + 20, slant));
  });
  svg.append(make("text", { class: "soft", x: (left + width - right) / 2, y: height - 7, "text-anchor": "middle" }, short(axis.name)));
  for (const line of lines) {
    const drawn = line.dots.filter((d) => Number.isFinite(d.y));
    svg.append(make("polyline", { points: drawn.map((d) => `${place1(d.index)},${y(d.y)}`).join(" "), fill: "none", stroke: line.colour, "stroke-width": 2, "stroke-opacity": numeric(axis.values) ? 1 : 0.4 }));
    for (const d of drawn.filter((d) => ends(d).length))
      svg.append(make("line", { x1: place1(d.index), x2: place1(d.index), y1: y(ends(d)[0]), y2: y(ends(d)[1]), stroke: line.colour, "stroke-width": 1.5 }));
    for (const d of drawn)
      svg.append(make("circle", { cx: place1(d.index), cy: y(d.y), r: 4.5, fill: d.row.status === "ok" ? line.colour : "var(--panel)", stroke: line.colour, "stroke-width": 2,
        ...tipped(`${place(d.row.at)}\npredicted ${FIGURES[state.y][0]}: ${show(d.y)}${ends(d).length ? `\n80 % range: ${rangeText(d.row, state.y)}` : ""}${d.row.step_time_wider ? `\nbeyond the records: ${d.row.step_time_wider}` : ""}${d.row.status === "ok" ? "" : "\ndoes not fit the device"}`) }));
    for (const d of line.dots) for (const p of d.published) {
      const cx = place1(d.index), cy = y(p.published);
      svg.append(make("path", { d: `M${cx - 6} ${cy - 6}L${cx + 6} ${cy + 6}M${cx - 6} ${cy + 6}L${cx + 6} ${cy - 6}`, stroke: names[0] === NONE ? "var(--ink)" : line.colour, "stroke-width": 2.5 }),
        make("circle", { cx, cy, r: 9, fill: "transparent", ...tipped(`${p.point.name || place(p.point.at)}\npublished: ${show(p.published)}\npredicted for this plan: ${show(p.predicted)} (${signed(p.error)})\n${p.point.source}`) }));
    }
  }
  const notes = [];
  if (lines.some((l) => l.dots.some((d) => ends(d).length))) notes.push("Vertical lines hold 80 % of outcomes.");
  if (pairs.some((p) => p.figure === state.y)) notes.push("Crosses are published figures.");
  if (lines.some((l) => l.dots.some((d) => d.row && d.row.status !== "ok"))) notes.push("Hollow dots do not fit the device.");
  if (axes.length > (names[0] === NONE ? 1 : 2)) notes.push("Over the other axes " + preferred + " is taken, one that fits before one that does not.");
  return [names[0] === NONE ? null : legend(lines.map((l) => [`${short(group.name)} ${l.name}`, l.colour])), make("figure", {}, svg), make("p", { class: "soft small" }, notes.join(" "))].filter(Boolean);
}

/** Height that labels need when they are too long to lie side by side; 0 when they are not. */
function slanted(values, room) {
  const longest = Math.max(...values.map((v) => String(v).length)) * 6.6;
  return longest > room - 6 ? Math.min(110, longest * 0.6) : 0;
}
function axisLabel(text, x, y, slant) {
  return make("text", slant ? { class: "soft", x, y: y - 4, "text-anchor": "end", transform: `rotate(-35 ${x} ${y - 4})` } : { class: "soft", x, y, "text-anchor": "middle" }, text);
}

function logTicks(low, high) {
  const out = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); ++e) for (const m of [1, 2, 5]) if (m * 10 ** e >= low && m * 10 ** e <= high) out.push(m * 10 ** e);
  return out;
}

/** What the three figures draw, chosen axis by axis. */
function narrowing() {
  const choices = axes.filter((a) => a.values.length > 1);
  return make("div", { class: "tools" }, choices.length ? make("span", {}, "Drawn:") : [], choices.map((a) => {
    const select = make("select", { "aria-label": `only ${short(a.name)}`, onchange: () => {
      if (select.value === "") delete only[a.name];
      else only[a.name] = a.values[Number(select.value)];
      drawAll();
    } }, make("option", { value: "" }, "all"), a.values.map((v, i) => make("option", { value: i, selected: only[a.name] === v }, String(v))));
    return make("label", {}, `${short(a.name)} `, select);
  }));
}

const curveFigure = make("div");
let drawHeat = () => {};
function drawCurves() { curveFigure.replaceChildren(...curves()); }
function drawAll() {
  drawCurves();
  timesFigure.replaceChildren(...times());
  drawHeat();
}
section("Curves",
  narrowing(),
  make("div", { class: "tools" },
    choice("of", "y", figures.filter((f) => solved.some((r) => r[f] !== undefined)).map((f) => [f, FIGURES[f][0]]), drawCurves),
    choice("over", "x", axes.map((a) => [a.name, short(a.name)]), () => { drawCurves(); timesFigure.replaceChildren(...times()); }),
    choice("a line for each", "series", [[NONE, "nothing"], ...axes.map((a) => [a.name, short(a.name)])], drawCurves)),
  curveFigure);
drawCurves();

// ---- where the time goes ----

const timesFigure = make("div");
function times() {
  const axis = axes.find((a) => a.name === state.x);
  const list = axis.values.map((value) => ({ value, row: best(solved.filter((r) => drawn(r.at) && r.at[axis.name] === value)) })).filter((e) => e.row);
  const kinds = Object.keys(list.length ? list[0].row.time_breakdown_s : {}).filter((k) => list.some((e) => e.row.time_breakdown_s[k] > 0));
  const shares = ({ value, row }) => ({ label: `${short(axis.name)} ${value}`, short: String(value), whole: 1, parts: Object.fromEntries(kinds.map((k) => [k, row.time_breakdown_s[k] / row.step_time_s])) });
  if (!list.length) return [make("p", { class: "soft" }, "Nothing was predicted here.")];
  return [legend(kinds.map((k, i) => [words(k), colour(i)])), make("figure", {}, stackedBars(list.map(shares), kinds, (x) => percent(x, 0), 0.01))];
}
section("Where the time goes",
  make("p", { class: "soft" }, "Shares of the step on the critical role's compute stream, for the best plan at each value of the axis that the curves run over."), timesFigure);
timesFigure.replaceChildren(...times());

// ---- heat map ----

const wide = axes.filter((a) => a.values.length > 1);
if (wide.length >= 2) {
  const wanted = (name, other) => (wide.find((a) => a.name === name && name !== other) || wide.find((a) => a.name !== other)).name;
  state.columns = wanted(view.x, null);
  state.lines = wanted(view.series, state.columns);
  state.heat = view.y || (goal ? costly : "model_tflops_per_device");
  const heatFigure = make("div", { class: "scroll" });
  drawHeat = () => heatFigure.replaceChildren(heatMap());
  section("Map of two axes",
    make("div", { class: "tools" },
      choice("colour", "heat", figures.map((f) => [f, FIGURES[f][0]]), drawHeat),
      choice("rows", "lines", wide.map((a) => [a.name, short(a.name)]), drawHeat),
      choice("columns", "columns", wide.map((a) => [a.name, short(a.name)]), drawHeat)),
    heatFigure,
    make("p", { class: "soft small" }, `Every cell is ${preferred} over the other axes, one that fits before one that does not. Dashed frames do not fit the device${goal && goal.days ? ", or are not in time" : ""}; empty cells cannot be: hover tells why. The border marks the best cell.`));
  drawHeat();
}

function heatMap() {
  const across = axes.find((a) => a.name === state.columns), down = axes.find((a) => a.name === state.lines), [, show, lowWins] = FIGURES[state.heat];
  const cells = down.values.map((dv) => across.values.map((av) => {
    const here = rows.filter((r) => drawn(r.at) && r.at[down.name] === dv && r.at[across.name] === av);
    return { row: best(here.filter((r) => solved.includes(r))), refused: here.find((r) => !solved.includes(r)), dv, av };
  }));
  const values = cells.flat().map((c) => c.row && c.row[state.heat]).filter(Number.isFinite), low = Math.min(...values), high = Math.max(...values);
  const top = cells.flat().filter((c) => c.row && c.row.status === "ok" && !late(c.row)).sort((a, b) => (lowWins ? 1 : -1) * (a.row[state.heat] - b.row[state.heat]))[0];
  const left = 24 + 7 * Math.max(short(down.name).length, ...down.values.map((v) => String(v).length)), w = Math.max(64, Math.min(130, (Math.min(1350, innerWidth - 40) - left) / across.values.length)), h = 34;
  const slant = slanted(across.values, w), width = left + across.values.length * w + 10, height = down.values.length * h + 52 + slant;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, style: `width:${width}px;max-width:none`, role: "img" });
  across.values.forEach((v, i) => svg.append(axisLabel(String(v), left + (i + 0.5) * w, down.values.length * h + 22, slant)));
  svg.append(make("text", { class: "soft", x: left + across.values.length * w / 2, y: height - 10, "text-anchor": "middle" }, short(across.name)));
  cells.forEach((line, j) => {
    svg.append(make("text", { class: "soft", x: left - 8, y: j * h + 28, "text-anchor": "end" }, `${down.values[j]}`));
    line.forEach((c, i) => {
      const x = left + i * w, y = j * h + 6;
      if (!c.row) {
        svg.append(make("rect", { x: x + 1, y, width: w - 2, height: h - 2, fill: "transparent", stroke: "var(--line)",
          ...tipped(c.refused ? `${place(c.refused.at)}\n${c.refused.status}: ${c.refused.reason}` : "not computed") }));
        return;
      }
      const share = high > low ? (c.row[state.heat] - low) / (high - low) : 1, strong = lowWins ? 1 - share : share, fitting = c.row.status === "ok" && !late(c.row);
      const matches = pairs.filter((p) => p.figure === state.heat && drawn(p.point.at) && p.point.at[down.name] === c.dv && p.point.at[across.name] === c.av);
      svg.append(make("rect", { x: x + 1, y, width: w - 2, height: h - 2, rx: 3, fill: `color-mix(in srgb, var(--heat1) ${Math.round(100 * strong)}%, var(--heat0))`,
        stroke: top && c.row === top.row ? "var(--ink)" : fitting ? "none" : "var(--bad)", "stroke-width": 2, "stroke-dasharray": fitting ? null : "4 3",
        ...tipped(`${place(c.row.at)}\n${FIGURES[state.heat][0]}: ${show(c.row[state.heat])}${fitting ? "" : late(c.row) ? "\nnot in time" : "\ndoes not fit the device"}${matches.map((m) => `\npublished: ${show(m.published)} (${signed(m.error)})`).join("")}`) }),
        make("text", { x: x + w / 2, y: y + 20, "text-anchor": "middle", style: `pointer-events:none;fill:${strong > 0.55 ? "var(--paper)" : "var(--ink)"}` }, show(c.row[state.heat]) + (matches.length ? " ×" : "")));
    });
  });
  svg.append(make("text", { class: "soft", x: left - 8, y: height - 10, "text-anchor": "end" }, short(down.name)));
  return svg;
}

// ---- published ----

if (pairs.length || fits.length) {
  const part = section("Published beside predicted", scatter());
  part.append(sortableTable([
    { title: "run", left: true, text: (p) => p.point.name || place(p.point.at), value: (p) => p.point.name || place(p.point.at) },
    { title: "figure", left: true, text: (p) => FIGURES[p.figure] ? FIGURES[p.figure][0] : words(p.figure), value: (p) => p.figure },
    { title: "published", text: (p) => FIGURES[p.figure][1](p.published), value: (p) => p.published },
    { title: "predicted", text: (p) => (p.predicted === undefined ? (p.row ? p.row.status : "–") : FIGURES[p.figure][1](p.predicted)), value: (p) => p.predicted },
    { title: "error", text: (p) => signed(p.error), value: (p) => p.error, mark: (p) => (Math.abs(p.error) > 0.15 ? "bad" : "") },
    { title: "source", left: true, words: true, text: (p) => p.point.source, value: (p) => p.point.source },
  ], pairs));
  if (fits.length)
    part.append(make("p", {}, `Whether the plan fits was published for ${fits.length}; ${fits.filter((f) => f.row && f.row.fits === f.point.fits).length} are predicted so: ` +
      fits.map((f) => `${f.point.name || place(f.point.at)} ${f.point.fits ? "fits" : "ran out of memory"}, predicted ${f.row && f.row.needed_bytes ? `${bytes(f.row.needed_bytes)} of ${bytes(f.row.device_memory_bytes)}` : f.row ? f.row.status : "–"}`).join("; ") + "."));
}

function scatter() {
  const shown = pairs.filter((p) => p.figure === "step_time_s" && Number.isFinite(p.predicted));
  if (shown.length < 2) return null;
  const side = Math.min(440, innerWidth - 40), left = 64, bottom = 40, all = shown.flatMap((p) => [p.published, p.predicted]);
  const low = Math.min(...all) / 1.25, high = Math.max(...all) * 1.25, at = (v) => Math.log(v / low) / Math.log(high / low);
  const x = (v) => left + (side - left - 12) * at(v), y = (v) => side - bottom - (side - bottom - 12) * at(v);
  const svg = make("svg", { viewBox: `0 0 ${side} ${side}`, style: `width:${side}px`, role: "img" });
  let before = -Infinity;
  const marks = logTicks(low, high);
  for (const t of marks.length > 2 ? marks : ticks(low, high, 5)) {
    if (x(t) - before < 44) continue;
    before = x(t);
    svg.append(make("line", { class: "axis", x1: left, x2: side - 12, y1: y(t), y2: y(t) }), make("line", { class: "axis", x1: x(t), x2: x(t), y1: 12, y2: side - bottom }),
      make("text", { class: "soft", x: left - 6, y: y(t) + 4, "text-anchor": "end" }, seconds(t)), make("text", { class: "soft", x: x(t), y: side - bottom + 16, "text-anchor": "middle" }, seconds(t)));
  }
  const rule = (factor, dash) => make("line", { x1: x(Math.max(low, low / factor)), y1: y(Math.max(low, low / factor) * factor), x2: x(Math.min(high, high / factor)), y2: y(Math.min(high, high / factor) * factor), stroke: "var(--soft)", "stroke-dasharray": dash });
  svg.append(rule(1, null), rule(1.1, "3 4"), rule(1 / 1.1, "3 4"));
  for (const p of shown)
    svg.append(make("circle", { cx: x(p.published), cy: y(p.predicted), r: 5, fill: "var(--c0)", stroke: "var(--panel)", ...tipped(`${p.point.name || place(p.point.at)}\npublished ${seconds(p.published)}\npredicted ${seconds(p.predicted)} (${signed(p.error)})`) }));
  svg.append(make("text", { class: "soft", x: (left + side) / 2, y: side - 6, "text-anchor": "middle" }, "published step time"),
    make("text", { class: "soft", x: -side / 2, y: 14, transform: "rotate(-90)", "text-anchor": "middle" }, "predicted"));
  return make("figure", {}, svg, make("figcaption", { class: "small" }, "Dotted: 10 % away."));
}

// ---- all plans ----

const wins = section("All plans");
const filter = make("input", { type: "search", placeholder: "filter", "aria-label": "filter", oninput: () => drawTable() });
const onlyFit = make("input", { type: "checkbox", onchange: () => drawTable() });
onlyFit.checked = rows.some((r) => r.status === "ok" && !late(r));
wins.append(make("div", { class: "tools" }, filter, make("label", {}, onlyFit, goal && goal.days ? " only plans that fit and are in time" : " only plans that fit")));
const tablePlace = make("div");
wins.append(tablePlace);
const figureColumn = (f) => ({ title: FIGURES[f][0], text: (r) => (r[f] === undefined ? "–" : FIGURES[f][1](r[f])), value: (r) => r[f] });
const columns = [
  ...axes.map((a, i) => ({ title: short(a.name), left: i === 0 || !numeric(a.values), text: (r) => String(r.at[a.name]), value: (r) => axes[i].values.indexOf(r.at[a.name]) })),
  ...(goal ? GOAL_FIGURES.filter((f) => rows.some((r) => r[f] !== undefined)).map(figureColumn) : []),
  figureColumn("step_time_s"),
  { title: "80 % range", text: (r) => rangeText(r, "step_time_s") || "–", value: (r) => r.step_time_high_s },
  { title: "tokens/s per device", text: (r) => (r.layout && r.tokens_per_s ? number(ofDevices(r)) : "–"), value: (r) => (r.tokens_per_s ? ofDevices(r) : undefined) },
  figureColumn("model_tflops_per_device"), figureColumn("mfu"), figureColumn("bubble_fraction"), figureColumn("needed_bytes"),
  { title: "outcome", left: true, text: (r) => (r.status === "ok" && late(r) ? "ok, too late" : r.status), value: (r) => r.status, mark: (r) => (r.status === "ok" && !late(r) ? "good" : "bad") },
  ...(rows.some((r) => r.step_time_wider) ? [{ title: "beyond the records", left: true, words: true, text: (r) => r.step_time_wider || "", value: (r) => r.step_time_wider || "" }] : []),
  { title: "reason", left: true, words: true, text: (r) => r.reason, value: (r) => r.reason },
];
function drawTable() {
  const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = rows.filter((r) => (!onlyFit.checked || (r.status === "ok" && !late(r))) && wanted.every((w) => `${place(r.at)} ${r.status} ${r.reason}`.toLowerCase().includes(w)));
  tablePlace.replaceChildren(sortableTable(columns, shown, goal ? { column: columns.findIndex((c) => c.title === FIGURES[costly][0]), down: false } : { column: columns.findIndex((c) => c.title === FIGURES.model_tflops_per_device[0]), down: true }));
}
drawTable();
