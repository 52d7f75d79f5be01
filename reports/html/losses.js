// The page about a file of `train --metrics`: losses, gradients and speed, step by step.

const steps = data.steps, evaluations = data.evaluations, first = steps[0], last = steps.at(-1);
const curve = (key) => steps.map((s) => [s.step, s[key]]);

const head = [["steps", number(steps.length)]];
if (steps.length) head.push([`loss, step ${first.step} to ${last.step}`, `${lossText(first.loss)} → ${lossText(last.loss)}`]);
if (evaluations.length) head.push([`evaluation loss, after step ${evaluations.at(-1).step}`, lossText(evaluations.at(-1).loss)],
  ["its perplexity", number(Math.exp(evaluations.at(-1).loss))]);
if (steps.length) head.push(["tokens", number(last.tokens)], ["tokens per second, last step", number(last.tokens_per_s)]);
const teraflops = (perSecond) => `${number(perSecond / 1e12)} TFLOP/s`;
const speeds = steps.filter((s) => s.model_flops_per_s_per_device !== undefined);
if (speeds.length) head.push(["per device, last step", teraflops(speeds.at(-1).model_flops_per_s_per_device)]);
if (data.elapsed_s !== null) head.push(["time elapsed", seconds(data.elapsed_s)]);
page.append(make("h1", {}, data.name), make("p", { class: "soft" }, "A training, as its file of metrics says."), cards(head));

const curves = [{ name: "training", colour: colour(0), points: curve("loss") },
  ...(steps.some((s) => s.mtp_loss !== undefined) ? [{ name: "modules of multi-token prediction", colour: colour(2), points: curve("mtp_loss") }] : []),
  ...(evaluations.length ? [{ name: "evaluation", colour: colour(1), dots: true, points: evaluations.map((e) => [e.step, e.loss]) }] : [])];
const skipped = steps.filter((s) => s.skipped);
section("Loss", legend(curves.map((c) => [c.name, c.colour])), make("figure", {}, lineChart(curves, "step", lossText)),
  skipped.length ? make("p", { class: "bad" }, `${skipped.length} updates were skipped: their gradients were not finite.`) : null);
for (const [key, title, show] of [["grad_norm", "Norm of the gradients", lossText], ["learning_rate", "Learning rate", (v) => (v === 0 ? "0" : v.toExponential(1))],
  ["tokens_per_s", "Tokens per second", number]])
  if (steps.length) section(title, make("figure", {}, lineChart([{ name: title.toLowerCase(), colour: colour(0), points: curve(key) }], "step", show)));
if (speeds.length) section("Model FLOPs per device", make("figure", {}, lineChart([{ name: "TFLOP/s", colour: colour(0),
  points: speeds.map((s) => [s.step, s.model_flops_per_s_per_device]) }], "step", teraflops)));
