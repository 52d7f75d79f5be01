// The page about a Pareto front: layouts of which none is better than another in all objectives at once.

const OBJECTIVES = {
  step_time_s: ["step time", seconds], needed_bytes: ["memory of the neediest rank", bytes],
  cost: ["cost of a step", (v) => (v === null ? "–" : `${number(v)} ${data.currency}`.trim())], energy_kwh: ["energy of a step", (v) => (v === null ? "–" : `${number(1000 * v)} Wh`)],
};
const front = data.pareto, others = data.others, spaces = data.spaces;
const spaceName = (p) => `${number(p.devices)} of ${p.cluster}`;
const spaceOf = (p) => spaces.findIndex((s) => s.cluster === p.cluster && s.devices === p.devices);
const fields = [...new Set(front.flatMap((p) => Object.keys(p.at)))].filter((f) => new Set([...front, ...others].map((p) => String(p.at[f]))).size > 1);
const short = (field) => words(field.replace(/^(parallel|training)\./, ""));
const layout = (p) => fields.filter((f) => p.at[f] !== undefined).map((f) => `${short(f)} ${p.at[f]}`).join(", ");
const hasIdle = (p) => p.cost !== null && p.cost_without_idle < p.cost;  // whole nodes are paid, and the layout leaves devices of them idle
const best = (key) => front.filter((p) => p[key] !== null).reduce((a, b) => (b[key] < a[key] ? b : a), front[0]);

// ---- head ----

page.append(make("h1", {}, `${data.model}: Pareto front`),
  make("p", {}, `Global batch ${number(data.global_batch_size)} x ${number(data.seq_length)} tokens. Each layout below was simulated and fits. None is better than another in ${data.objectives.map((o) => OBJECTIVES[o][0]).join(", ")} at once.`),
  ...[...data.chosen.map((t) => `Chosen: ${t}.`), ...data.left_out].map((t) => make("p", { class: "soft" }, t)),
  ...(data.complete ? [] : [make("p", { class: "bad" }, data.interrupted ? "The search was interrupted: better layouts may be missing." : "Not all that could be on the front were simulated: --events N simulates more.")]),
  cards([["layouts on the front", number(front.length)], ["simulated layouts that are not", number(others.length)],
    ...data.objectives.map((o) => [`least ${OBJECTIVES[o][0]}`, OBJECTIVES[o][1](best(o)[o])])]));

// ---- the front ----

const state = { x: data.objectives[0], y: data.objectives[1] };
const figure = make("div");

function choice(label, key) {
  const select = make("select", { "aria-label": label, onchange: () => { state[key] = select.value; draw(); } },
    data.objectives.map((o) => make("option", { value: o, selected: state[key] === o }, OBJECTIVES[o][0])));
  return make("label", {}, `${label} `, select);
}

function scale(key, values, from, to) {
  const low = smallest(values), high = largest(values), room = (high - low || high || 1) * 0.06;
  const least = Math.max(0, low - room), most = high + room;
  return { at: (v) => from + (to - from) * (v - least) / (most - least), marks: (count) => ticksOf(OBJECTIVES[key][1], least, most, count) };
}

function describe(p) {
  return [spaceName(p), layout(p), `data ${p.at["parallel.data"]}`, ...data.objectives.map((o) => `${OBJECTIVES[o][0]}: ${OBJECTIVES[o][1](p[o])}`),
    hasIdle(p) && `cost without idle devices: ${OBJECTIVES.cost[1](p.cost_without_idle)}`,
    `80 % range: ${seconds(p.step_time_low_s)} to ${seconds(p.step_time_high_s)}`, p.step_time_wider && `wider: ${p.step_time_wider}`,
    ...p.notes].filter(Boolean).join("\n");
}

function scatter() {
  const width = Math.max(320, Math.min(1350, innerWidth - 40)), height = 420, left = 84, bottom = 44;
  const placed = (points) => points.filter((p) => p[state.x] !== null && p[state.y] !== null);
  const all = placed([...others, ...front]);
  const x = scale(state.x, all.map((p) => p[state.x]), left, width - 18), y = scale(state.y, all.map((p) => p[state.y]), height - bottom, 12);
  const [xName, xShow] = OBJECTIVES[state.x], [yName, yShow] = OBJECTIVES[state.y];
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${yName} over ${xName}` });
  for (const v of y.marks(6))
    svg.append(make("line", { class: "axis", x1: left, x2: width - 18, y1: y.at(v), y2: y.at(v) }), make("text", { class: "soft", x: left - 8, y: y.at(v) + 4, "text-anchor": "end" }, yShow(v)));
  for (const v of x.marks(width > 700 ? 9 : 4))
    svg.append(make("text", { class: "soft", x: x.at(v), y: height - bottom + 18, "text-anchor": "middle" }, xShow(v)));
  svg.append(make("text", { class: "soft", x: (left + width - 18) / 2, y: height - 6, "text-anchor": "middle" }, xName), make("text", { class: "soft", x: 8, y: 12 }, yName));
  for (const p of placed(others))
    svg.append(make("circle", { cx: x.at(p[state.x]), cy: y.at(p[state.y]), r: 3, fill: "none", stroke: colour(spaceOf(p)), "stroke-opacity": 0.5, ...tipped(`not on the front\n${describe(p)}`) }));
  for (const p of placed(front))
    svg.append(make("circle", { cx: x.at(p[state.x]), cy: y.at(p[state.y]), r: 5, fill: colour(spaceOf(p)), ...tipped(describe(p)) }));
  return svg;
}

function draw() {
  figure.replaceChildren(legend(spaces.map((s, i) => [spaceName(s), colour(i)])), make("figure", {}, scatter()),
    make("p", { class: "soft small" }, "Filled dots are on the front. Circles were simulated and fit, but some dot is at least as good in every objective."));
}
section("The front", make("div", { class: "tools" }, choice("across", "x"), choice("up", "y")), figure);
draw();
addEventListener("resize", draw);

// ---- tables ----

section("Layouts on the front", sortableTable([
  { title: "place", text: spaceName, value: (p) => spaceOf(p), left: true },
  ...data.objectives.map((o) => ({ title: OBJECTIVES[o][0], text: (p) => OBJECTIVES[o][1](p[o]), value: (p) => p[o] })),
  ...(front.some(hasIdle) ? [{ title: "cost without idle devices", text: (p) => OBJECTIVES.cost[1](p.cost_without_idle), value: (p) => p.cost_without_idle }] : []),
  { title: "tokens/s", text: (p) => number(p.tokens_per_s), value: (p) => p.tokens_per_s },
  { title: "MFU", text: (p) => percent(p.mfu), value: (p) => p.mfu },
  { title: "data", text: (p) => String(p.at["parallel.data"]), value: (p) => p.at["parallel.data"] },
  ...fields.filter((f) => f !== "parallel.data").map((f) => ({ title: short(f), text: (p) => String(p.at[f]), value: (p) => p.at[f] })),
  ...(front.some((p) => p.notes.length > 0) ? [{ title: "notes", text: (p) => p.notes.join("; "), value: (p) => p.notes.join("; "), left: true }] : []),
], front, { column: 1, down: false }));

section("What became of every candidate",
  make("p", { class: "soft" }, "Each candidate is under exactly one reason."),
  sortableTable([
    { title: "place", text: spaceName, value: (s) => spaces.indexOf(s), left: true },
    { title: "candidates", text: (s) => number(s.candidates), value: (s) => s.candidates },
    ...Object.keys(data.reasons).filter((r) => spaces.some((s) => s.counts[r] > 0)).map((r) => ({ title: data.reasons[r], text: (s) => number(s.counts[r]), value: (s) => s.counts[r] })),
    { title: "device memory", text: (s) => bytes(s.device_memory_bytes), value: (s) => s.device_memory_bytes },
    { title: "price of a device hour", text: (s) => (s.device_hour_price === null ? "–" : `${number(s.device_hour_price)} ${s.currency}`), value: (s) => s.device_hour_price },
  ], spaces));
