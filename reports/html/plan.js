// The page about one plan.

const p = data.prediction;
const roles = Object.entries(data.roles).map(([index, role]) => ({ index: Number(index), ...role }));
const layout = data.plan.parallel, training = data.plan.training;

function degrees() {
  const all = [["tensor", layout.tensor], ["pipeline", layout.pipeline], ["data", layout.data], ["context", layout.context], ["expert", layout.expert]];
  return all.filter(([name, n]) => n > 1 || ["tensor", "pipeline", "data"].includes(name)).map(([name, n]) => `${name} ${n}`).join(" × ") + experts_cut();
}

// Experts are told of where they are cut over other ranks than everything else.
function experts_cut() {
  const experts = data.plan.model.moe && data.plan.model.moe.num_experts > 0;
  return experts && layout.expert_tensor !== layout.tensor ? ` (an expert on ${layout.expert_tensor})` : "";
}

const range = p.step_time_range;
const sharing = data.plan.cluster.override?.ranks_per_device ?? 1;
const ofDevice = `of ${bytes(data.device_memory_bytes)} per device${sharing > 1 ? `, which ${sharing} ranks share` : ""}`;
const launches = p.time_breakdown_s.launch >= 0.0005 * p.step_time_s;  // as simulate says it
page.append(make("h1", {}, data.name),
  make("p", { class: "soft" }, `${degrees()} on ${number(data.plan.cluster.devices)} × ${data.device} (${data.plan.cluster.preset}); ` +
    `global batch ${number(training.global_batch_size)} × ${number(training.seq_length)} tokens, micro-batch ${training.micro_batch_size}, ${training.precision}. One optimizer step, simulated; ${data.stack}.`),
  cards([[range.share ? `step time (${Math.round(100 * range.share)} %: ${seconds(range.low_s)} to ${seconds(range.high_s)})` : "step time", seconds(p.step_time_s)], ["tokens per second", number(p.tokens_per_s)],
    ["model TFLOP/s per device", number(p.model_tflops_per_device)], ["model FLOP utilisation", percent(p.mfu)],
    [`pipeline bubble${launches ? " (excluding waits for host launches)" : ""}`, percent(p.bubble_fraction)],
    p.fits ? [ofDevice, bytes(p.needed_bytes * sharing), null] : [`needed ${ofDevice}: does not fit`, bytes(p.needed_bytes * sharing), "bad"]]));
if (range.wider) page.append(make("p", { class: "soft small" }, `Beyond the records: ${range.wider}.`));
if (data.roles_in_all > roles.length)
  page.append(make("p", { class: "soft small" }, `Ranks that do the same are one role. ${roles.length} of ${data.roles_in_all} roles are shown, the critical one and the one that needs most memory among them.`));

// ---- where the time goes ----

const kinds = Object.keys(p.time_breakdown_s);
const used = kinds.filter((k) => roles.some((r) => r.time_breakdown_s[k] > 0));
section("Where the time goes",
  make("p", { class: "soft" }, `Of every role's compute stream. The critical role is that of ${data.roles[data.critical_role].label}.`),
  legend(used.map((k, i) => [words(k), colour(i)])),
  make("figure", {}, stackedBars(roles.map((r) => ({ label: r.label, short: `rank ${r.first_rank}`, parts: r.time_breakdown_s, whole: p.step_time_s })), used, seconds)));

// ---- timeline ----

const timelineOfRoles = timelineRows(data.timeline, data.timeline.lanes, data.roles);
section("Timeline",
  make("p", { class: "soft" }, data.timeline.merged
    ? "One row for each stream of a role. Neighbouring tasks of one pass of a micro-batch are drawn as one box."
    : "One row for each stream of a role; every task is a box."),
  timelineLegend(timelineOfRoles), ...timelineFigure(timelineOfRoles, data.timeline.step_ns));

// ---- memory ----

const memoryFigure = make("figure");
const memoryOf = (role) => memoryChart(role, data.kinds, data.timeline.step_ns, { name: sharing > 1 ? `a rank's share of ${data.device}` : data.device, bytes: data.device_memory_bytes / sharing });
const roleChoice = make("select", { "aria-label": "role", onchange: () => memoryFigure.replaceChildren(memoryOf(data.roles[roleChoice.value])) },
  roles.map((r) => make("option", { value: r.index, selected: r.index === data.neediest_role },
    `${r.label}: ${bytes(r.needed_bytes)}${r.index === data.neediest_role ? ", the most" : ""}`)));
memoryFigure.append(memoryOf(data.roles[data.neediest_role]));
section("Memory over the step",
  make("div", { class: "tools" }, make("label", {}, "role ", roleChoice)),
  legend(data.kinds.map((k, i) => [k, colour(i), i]).filter(([, , i]) => roles.some((r) => r.memory_over_time.some((s) => s[i + 1] > 0)))),
  memoryFigure,
  make("p", { class: "soft" }, `Bytes of one ${sharing > 1 ? "rank" : "device"} by kind, a tensor for as long as a pass has it: what is alive at once is less. The arena of the role that needs most, holes and alignment included, takes ${bytes(data.roles[data.neediest_role].arena_bytes)}.`));
section("Memory of the roles at their peaks",
  make("figure", {}, stackedBars(roles.map((r) => ({ label: r.label, short: `rank ${r.first_rank}`, parts: r.memory_bytes, whole: r.needed_bytes })), data.kinds, bytes,
    byteUnit(Math.max(...roles.map((r) => r.needed_bytes)))[1])));

// ---- what to know ----

const notes = [data.measured_products, ...p.notes].filter((n) => n && !n.startsWith("not verified: "));  // those have a part of their own
if (notes.length) section("Notes", make("ul", {}, notes.map((n) => make("li", {}, n))));
section("Unverified numbers",
  data.unverified.length
    ? [make("p", { class: "soft" }, "The prediction also rests on these numbers, which no source confirms."), make("ul", {}, data.unverified.map((f) => make("li", {}, f)))]
    : make("p", {}, "A source confirms every number about the cluster and its devices that the prediction uses."));
section("The plan", make("p", { class: "soft" }, "Completed: every default is printed."), make("details", {}, make("summary", {}, "show"), make("pre", {}, JSON.stringify(data.plan, null, 2))));
