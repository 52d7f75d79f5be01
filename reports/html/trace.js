// The page about traces of PyTorch's profiler: a simulated step beside a traced one, or a traced run beside an earlier one.

const twoRuns = data.baseline_traces !== undefined;
const [first, second] = twoRuns ? ["new", "baseline"] : ["simulated", "measured"];
const firstOf = (line) => line[`${first}_s`], secondOf = (line) => line[`${second}_s`];
const change = twoRuns ? "change" : "error", step = data.step;

// ---- head ----

const spread = step[`${change}_low`] === step[`${change}_high`] ? "" : `, ${signed(step[`${change}_low`])} to ${signed(step[`${change}_high`])} by the spread of the steps`;
page.append(make("h1", {}, twoRuns ? "Traces of two runs" : "A simulated step beside traces"),
  make("p", { class: "soft" }, "Times are per rank and step: medians of a rank's steps, means over the traced ranks. Collectives include waiting for other ranks."),
  cards([[`step time, ${first}`, seconds(firstOf(step))], [`step time, ${second}`, seconds(secondOf(step))],
    [`${change} of the step time${spread}`, signed(step[change]), data.verdict === "outside" ? "bad" : null],
    ...(data.tolerance === null ? [] : [[`tolerance of ${percent(data.tolerance)}`, data.verdict]]),
    ...["exposed_communication", "idle"].map((key) => [`${words(key)}, ${first} and ${second}`, `${seconds(firstOf(data.device[key]))}, ${seconds(secondOf(data.device[key]))}`])]),
  ...data.notes.map((note) => make("p", { class: "soft small" }, `${note}.`)));

// ---- where the time goes ----

const timeOf = (line, side) => (side === first ? firstOf(line) : secondOf(line));
function bars(kinds, lineOf, whole) {
  const rows = [first, second].map((side) => ({ label: side, short: side, parts: Object.fromEntries(kinds.map((kind) => [kind, timeOf(lineOf(kind), side)])), whole: whole(side) }));
  return [legend(kinds.map((kind, i) => [words(kind), colour(i)])), make("figure", {}, stackedBars(rows, kinds, seconds))];
}
section("What the device does", make("p", { class: "soft" }, "A moment in which a kernel computes counts as computing; exposed communication is what no computation hides."),
  ...bars(["computing", "exposed_communication", "idle"], (kind) => data.device[kind], (side) => timeOf(step, side)));
const byClass = Object.fromEntries(data.classes.map((line) => [line.class, line]));
const classes = [...data.classes].sort((a, b) => secondOf(b) - secondOf(a)).map((line) => line.class);
if (classes.length) section("Time by class", make("p", { class: "soft" }, "Sums of tasks or kernels. Those that run at once count each."), ...bars(classes, (kind) => byClass[kind], (side) => timeOf(step, side)));

// ---- tables ----

const column = (title, of, show = (value) => value, left = false) => ({ title, text: (line) => show(of(line)), value: of, left });
const calls = (line, side) => line[`${side}_calls`] ?? line[side === first ? "tasks" : "kernels"];
const difference = [column("difference", (l) => l.difference_s, seconds), column("of the step", (l) => l.share_of_step, signed)];
const sums = [column(`calls, ${first}`, (l) => calls(l, first), number), column(`calls, ${second}`, (l) => calls(l, second), number),
  column(first, firstOf, seconds), column(second, secondOf, seconds), ...difference];
function table(title, columns, lines, order) {
  if (lines.length) section(title, sortableTable(columns, lines, order));
}
table("Classes", [column("class", (l) => l.class, undefined, true), ...sums], data.classes, null);
table("Computations by phase", [column("phase", (l) => l.phase, undefined, true), ...sums], data.phases, null);
const orUnknown = (show) => (value) => (value === null || value === "" ? "?" : show(value));
table("Collectives", [column("kind", (l) => l.kind, undefined, true), column("group", (l) => l.group, orUnknown(String), true), column("ranks", (l) => l.ranks, orUnknown(number)),
  column("bytes", (l) => l.bytes, orUnknown(bytes)), column(`calls, ${first}`, (l) => calls(l, first), number), column(`calls, ${second}`, (l) => calls(l, second), number),
  column(`mean, ${first}`, (l) => l[`${first}_mean_s`], (v) => (v === null ? "–" : seconds(v))), column(`mean, ${second}`, (l) => l[`${second}_mean_s`], (v) => (v === null ? "–" : seconds(v)))],
data.collectives, null);
table("Kernels", [column("class", (l) => l.class, undefined, true), column("phase", (l) => l.phase, undefined, true), ...sums, { ...column("kernel", (l) => l.kernel, undefined, true), words: true }], data.kernels || [], null);
table("Kernels without a class", [{ ...column("kernel", (l) => l.kernel, undefined, true), words: true }, column("calls", (l) => l.calls, number), column(second, secondOf, seconds)], data.unknown, null);
const ranks = twoRuns ? [...data.new_traces.map((t) => ({ ...t, side: "new" })), ...data.baseline_traces.map((t) => ({ ...t, side: "baseline" }))] : data.traces.map((t) => ({ ...t, side: "measured" }));
table("Traces", [column("side", (t) => t.side, undefined, true), column("rank", (t) => t.rank, number), column("device", (t) => t.device, undefined, true), column("steps", (t) => t.steps.length, number),
  column("step time", (t) => t.measured_s, seconds), column("exposed communication", (t) => t.exposed_s, seconds), column("idle", (t) => t.idle_s, seconds),
  column("file", (t) => t.file, undefined, true)], ranks, null);
