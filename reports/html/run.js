// The page about a timeline file: a training, a simulation, or one beside the other.

const sides = data.sides, main = sides[0], other = sides[1] || null, layout = data.plan.parallel, training = data.plan.training;
const rolesOf = (side) => Object.values(side.roles), history = main.run;
const measured = main.performer === "measured";
const pair = Boolean(other), judged = pair && main.performer !== other.performer;
const [firstKey, secondKey, errorKey] = judged ? ["simulated_s", "executed_s", "error"] : ["new_s", "baseline_s", "change"];
const stepTimes = data.comparison.step_times, [firstTimes, secondTimes] = judged ? [stepTimes.simulated, stepTimes.executed] : [stepTimes.new, stepTimes.baseline];

/** The role of `side` that stands for a rank. */
function roleOf(side, rank) { return rolesOf(side).find((r) => r.ranks.includes(rank)); }
function heaviest(side) { return Math.max(...rolesOf(side).map((r) => r.arena_bytes)); }
function degrees() {
  return [["tensor", layout.tensor], ["pipeline", layout.pipeline], ["data", layout.data], ["context", layout.context], ["expert", layout.expert]]
    .filter(([name, n]) => n > 1 || ["tensor", "pipeline", "data"].includes(name)).map(([name, n]) => `${name} ${n}`).join(" × ") +
    (layout.zero_stage > 0 ? `, ZeRO ${layout.zero_stage}` : "");
}

// ---- head ----

function headline() {
  const steps = history ? history.steps : [], typical = secondTimes.median_s;
  const of = (times) => (times.steps > 1 ? `, median of ${times.steps}` : "");
  const list = pair
    ? [[`step time, ${other.what}${of(firstTimes)}`, seconds(firstTimes.median_s)], [`step time, ${main.what}${of(secondTimes)}`, seconds(typical)],
      [judged ? "error of the step time" : "change of the step time", signed(stepTimes[errorKey])]]
    : [[history ? `step time, step ${history.kept_step}` : "step time", seconds(main.step_time_s)]];
  if (!pair && secondTimes.steps > 1) list.push([`step time${of(secondTimes)}`, seconds(typical)]);
  if (!pair) list.push(["tokens per second", number(training.global_batch_size * training.seq_length / typical)]);
  if (steps.length > 1) list.push([`loss, step ${steps[0].step} to ${steps.at(-1).step}`, `${lossText(steps[0].loss)} → ${lossText(steps.at(-1).loss)}`]);
  list.push(["arena, heaviest rank", bytes(heaviest(main))]);
  if (pair) list.push([judged ? "error of the arena" : "change of the arena", signed(data.comparison.memory[errorKey])]);
  return list;
}

const deed = { measured: "really trained", predicted: "simulated" };
page.append(make("h1", {}, data.name),
  make("p", { class: "soft" }, `${degrees()}; global batch ${number(training.global_batch_size)} × ${number(training.seq_length)} tokens, micro-batch ${training.micro_batch_size}, ${training.precision}. ` +
    (pair ? `One optimizer step: ${sides.map((s) => `${s.what}, ${s.performer === s.what ? "" : `${s.performer} `}on ${number(s.devices)} devices of ${s.cluster}`).join("; ")}.`
      : `One optimizer step, ${deed[main.performer]} on ${number(main.devices)} devices of ${main.cluster}.`)),
  cards(headline()));
if (pair && data.rows_in_all > data.rows.length)
  page.append(make("p", { class: "soft small" }, `${data.rows.length} of ${data.rows_in_all} kinds of ranks are shown, those that differ most and the heaviest among them.`));
if (!pair && main.roles_in_all > rolesOf(main).length)
  page.append(make("p", { class: "soft small" }, `${rolesOf(main).length} of ${main.roles_in_all} ranks are shown, the heaviest among them.`));

for (const note of data.comparison.notes) page.append(make("p", { class: "soft small" }, `${note[0].toUpperCase()}${note.slice(1)}.`));
if (data.comparison.differences.length) {
  const [firstWord, secondWord] = judged ? ["simulated", "executed"] : ["new", "baseline"];
  const column = (title, text) => ({ title, text, value: text, left: true });
  section("The plans differ", sortableTable([column("field", (d) => d.field), column(other.what, (d) => d[firstWord] || "–"), column(main.what, (d) => d[secondWord] || "–")],
    data.comparison.differences, { column: 0, down: false }));
}

// ---- steps ----

const told = sides.filter((s) => s.run && s.run.steps.length > 1);
if (told.length) {
  const named = (side, what) => (told.length > 1 ? `${what}, ${side.what}` : what);
  const curves = told.flatMap((side, i) => [
    { name: named(side, "training"), colour: colour(2 * i), points: side.run.steps.map((s) => [s.step, s.loss]) },
    ...(side.run.steps.some((s) => s.mtp_loss !== undefined) ? [{ name: named(side, "modules of multi-token prediction"), colour: colour(4 + i), points: side.run.steps.map((s) => [s.step, s.mtp_loss]) }] : []),
    ...(side.run.evaluations.length ? [{ name: named(side, "evaluation"), colour: colour(2 * i + 1), dots: true, points: side.run.evaluations.map((e) => [e.step, e.loss]) }] : [])]);
  const skipped = told.flatMap((side) => side.run.steps.filter((s) => s.grad_norm === null));
  section("Loss", legend(curves.map((c) => [c.name, c.colour])), make("figure", {}, lineChart(curves, "step", lossText)),
    skipped.length ? make("p", { class: "bad" }, `${skipped.length} updates were skipped: their gradients were not finite.`) : null);
  const times = told.map((side, i) => ({ name: named(side, "measured"), colour: colour(2 * i), points: side.run.steps.map((s) => [s.step, s.step_time_s]) }));
  if (judged) times.push({ name: "predicted", colour: colour(1), dashed: true, points: [main.run.steps[0].step, main.run.steps.at(-1).step].map((at) => [at, other.step_time_s]) });
  section("Time of every step", legend(times.map((t) => [t.name, t.colour])),
    make("figure", {}, lineChart(times, "step", seconds, told.map((s) => ({ x: s.run.kept_step, text: `the step of this page: ${s.run.kept_step}` })))),
    make("p", { class: "soft small" }, `The dotted line is step ${main.run ? main.run.kept_step : told[0].run.kept_step}, which the rest of this page is about.`));
}

// ---- where the time goes ----

/** Every shown rank, of each side. Rows of a pair are ranks that are alike on both: the roles of the sides may differ. */
const ranksShown = data.rows || rolesOf(main).map((role) => ({ rank: role.first_rank, label: role.label }));
const lanes = ranksShown.flatMap((row) => sides.map((side) => ({ side, role: roleOf(side, row.rank), label: row.label, short: `rank ${row.rank}` })))
  .map((l) => (pair ? { ...l, label: `${l.label}, ${l.side.what}`, short: `${l.short} ${l.side.what.slice(0, 4)}.` } : l));
const ORDER = ["forward", "recompute", "backward", "weight", "reduce", "gather", "optimizer", "tensor_comm", "context_comm", "expert_comm", "data_comm", "pipeline_comm", "host_copy", "waiting"];
const SHARE_PAINT = { ...PAINT, tensor_comm: 1, context_comm: 9, expert_comm: 7, data_comm: 3, pipeline_comm: 8, host_copy: 7 };  // as in the timeline
const shares = ORDER.filter((k) => lanes.some((l) => l.role.time_shares_s[k] > 0));
const painted = {};  // no two shares of one page alike: the first has the colour, the next one that is free
for (const kind of shares) {
  const free = [SHARE_PAINT[kind], ...Array(COLOURS).keys()].find((c) => !Object.values(painted).includes(c));
  painted[kind] = kind === "waiting" ? null : free ?? SHARE_PAINT[kind];
}
const sharePaint = (kind) => (kind === "waiting" ? "var(--line)" : colour(painted[kind]));
section("Where the time goes",
  make("p", { class: "soft" }, "What a rank computes, else what it sends or receives while nothing computes, else waiting: for others, or for its turn on a shared processor."),
  legend(shares.map((k) => [words(k), sharePaint(k)])),
  make("figure", {}, stackedBars(lanes.map((l) => ({ label: l.label, short: l.short, parts: l.role.time_shares_s, whole: l.side.step_time_s })), shares, seconds, 1, sharePaint)));

// ---- timeline ----

const rows = lanes.flatMap((l) => {
  const drawn = l.side.timeline.lanes.find((lane) => l.side.roles[lane.role] === l.role);
  return timelineRows(l.side.timeline, [drawn], l.side.roles, () => l.label, () => l.short);
});
section("Timeline",
  make("p", { class: "soft" }, (sides.some((s) => s.timeline.merged) ? "One row for each stream of a rank. Neighbouring tasks of one pass of a micro-batch are drawn as one box." : "One row for each stream of a rank; every task is a box.") +
    (pair ? " Both steps begin at the left." : "")),
  timelineLegend(rows), ...timelineFigure(rows, Math.max(...sides.map((s) => s.timeline.step_ns))));

// ---- memory ----

const memoryFigure = make("figure");
const heaviestLane = lanes.reduce((a, b) => (b.role.arena_bytes > a.role.arena_bytes ? b : a));
const showMemory = (lane) => memoryFigure.replaceChildren(memoryChart(lane.role, data.kinds, lane.side.timeline.step_ns));
const laneChoice = make("select", { "aria-label": "rank", onchange: () => showMemory(lanes[laneChoice.value]) },
  lanes.map((l, i) => make("option", { value: i, selected: l === heaviestLane }, `${l.label}: ${bytes(l.role.arena_bytes)}${l === heaviestLane ? ", the heaviest" : ""}`)));
showMemory(heaviestLane);
const usedKinds = data.kinds.map((k, i) => [k, colour(i), i]).filter(([, , i]) => lanes.some((l) => l.role.memory_over_time.some((s) => s[i + 1] > 0)));
section("Memory over the step",
  make("div", { class: "tools" }, make("label", {}, "rank ", laneChoice)), legend(usedKinds), memoryFigure,
  make("p", { class: "soft" }, `Live bytes by kind: the plan's tensors at the times of this timeline. The arena, holes and alignment included, is ${measured ? "what the rank allocated" : "as planned"}: ${bytes(heaviest(main))} on the heaviest rank` +
    (history ? `; its backend handed out ${bytes(history.peak_memory_bytes)} in all.` : ".")));

// ---- operations ----

const tasksOf = (line) => (line.tasks ? number(line.tasks) : "");
const errorOf = (line) => (line[errorKey] === null ? "–" : signed(line[errorKey]));
function operations(title, lines, note) {
  const all = { value: (l) => l.what, text: (l) => l.what, title: title.toLowerCase(), left: true };
  const columns = pair
    ? [all, { title: "tasks", text: tasksOf, value: (l) => l.tasks },
      { title: other.what, text: (l) => seconds(l[firstKey]), value: (l) => l[firstKey] }, { title: main.what, text: (l) => seconds(l[secondKey]), value: (l) => l[secondKey] },
      { title: judged ? "error" : "change", text: errorOf, value: (l) => l[errorKey] },
      { title: judged ? "off by" : "differs by", text: (l) => seconds(Math.abs(l[firstKey] - l[secondKey])), value: (l) => Math.abs(l[firstKey] - l[secondKey]) }]
    : [all, { title: "tasks", text: tasksOf, value: (l) => l.tasks }, { title: "time", text: (l) => seconds(l[secondKey]), value: (l) => l[secondKey] },
      { title: "of the step", text: (l) => percent(l[secondKey] / main.step_time_s), value: (l) => l[secondKey] }];
  return lines.length ? section(title, note ? make("p", { class: "soft" }, note) : null, sortableTable(columns, lines, { column: pair ? 5 : 2, down: true })) : null;
}
const c = data.comparison;
operations("Kind of operation", [...c.kinds, c.waiting], `Per rank and step, from the arrival of the last participant to the end; tasks are of all ranks. ${pair ? "Most different first; a click on a title sorts." : "A click on a title sorts."}`);
operations("Collective", c.collectives);
operations("Stage", c.stages);
operations("Time that ranks compute", c.ranks);
operations("Operation", c.operations);
const unmatched = c.tasks[judged ? "only_simulated" : "only_new"] + c.tasks[judged ? "only_executed" : "only_baseline"];
if (unmatched > 0 && c.tasks.joined_by === "rank") page.append(make("p", { class: "bad" }, `${number(unmatched)} tasks are in one of the two only. Their time counts on that side, with none on the other.`));
section("The plan", make("p", { class: "soft" }, "Completed: every default is printed."), make("details", {}, make("summary", {}, "show"), make("pre", {}, JSON.stringify(data.plan, null, 2))));
