// What pages about one step draw: its timeline, and memory over it.

const PAINT = { forward: 0, recompute: 6, backward: 2, weight: 5, reduce: 3, optimizer: 4, gather: 7 };
const STREAM_PAINT = { tensor: 1, data: 3, send: 5, recv: 8, host: 7 };

function boxColour(timeline, stream, phase) {
  return stream === "compute" ? PAINT[timeline.phases[phase]] ?? 8 : STREAM_PAINT[stream] ?? 8;
}

/** Rows of a timeline's lanes, one for each stream; `label` and `short` name a role. */
function timelineRows(timeline, lanes, roles, label = (role) => role.label, short = (role) => `rank ${role.first_rank}`) {
  return lanes.flatMap((lane) => lane.streams.map((s, i) => ({ timeline, label: label(roles[lane.role]), short: short(roles[lane.role]), first: i === 0, ...s })));
}

/** A canvas of `rows` over `step` nanoseconds, to be zoomed and moved. */
function timelineFigure(rows, step) {
  const rowHeight = 16, top = 24, height = top + rows.length * rowHeight + 8;
  const canvas = make("canvas", { tabindex: 0, "aria-label": "timeline" });
  let from = 0, to = step;
  const left = () => (canvas.clientWidth < 700 ? 92 : 270);

  function draw() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.clearRect(0, 0, width, height);
    const x0 = left(), scale = (width - x0 - 8) / (to - from), paint = Array.from({ length: COLOURS }, (_, i) => css(`--c${i}`));
    g.font = "11px system-ui, sans-serif";
    g.strokeStyle = css("--line");
    g.fillStyle = css("--soft");
    const cuts = ticks(from * 1e-9, to * 1e-9, width > 700 ? 8 : 3), cut = cuts.length > 1 ? cuts[1] - cuts[0] : (to - from) * 1e-9;
    for (const t of cuts) {
      const x = x0 + (t * 1e9 - from) * scale;
      g.beginPath(); g.moveTo(x, 16); g.lineTo(x, height - 4); g.stroke();
      const label = secondsOf(t, cut);
      g.fillText(label, Math.min(x + 3, width - 4 - g.measureText(label).width), 12);
    }
    rows.forEach((row, i) => {
      const y = top + i * rowHeight;
      if (row.first && i) { g.beginPath(); g.moveTo(0, y - 1); g.lineTo(width, y - 1); g.stroke(); }
      g.fillStyle = row.first ? css("--ink") : css("--soft");
      g.fillText(row.first ? (width < 700 ? row.short : row.label) : row.stream, row.first ? 6 : 18, y + 11, x0 - 12);
      let painted = -1, last = -1;
      for (const [start, length, phase] of row.boxes) {
        if (start > to || start + length < from) continue;
        const x = x0 + (Math.max(start, from) - from) * scale, end = x0 + (Math.min(start + length, to) - from) * scale;
        const c = boxColour(row.timeline, row.stream, phase);
        if (end < painted && c === last) continue;  // hidden under the pixel before
        g.fillStyle = paint[c];
        g.fillRect(x, y + 1, Math.max(0.6, end - x - (end - x > 3 ? 0.6 : 0)), rowHeight - 3);
        [painted, last] = [x + 0.6, c];
      }
    });
  }

  function zoom(factor, at) {
    const span = Math.min(step, Math.max(step * 1e-5, (to - from) * factor));
    const centre = from + (to - from) * at;
    from = Math.max(0, Math.min(step - span, centre - span * at));
    to = from + span;
    draw();
  }
  function pan(share) {
    const span = to - from;
    from = Math.max(0, Math.min(step - span, from + span * share));
    to = from + span;
    draw();
  }
  const share = (clientX) => {
    const box = canvas.getBoundingClientRect();
    return Math.max(0, Math.min(1, (clientX - box.left - left()) / (box.width - left() - 8)));
  };

  const fingers = new Map();
  let pinch = 0;
  canvas.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey && !e.shiftKey) return;  // the plain wheel scrolls the page
    e.preventDefault();
    zoom((e.deltaY || e.deltaX) > 0 ? 1.25 : 0.8, share(e.clientX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (e) => { fingers.set(e.pointerId, e.clientX); canvas.setPointerCapture(e.pointerId); hideTip(); });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (e) => { fingers.delete(e.pointerId); pinch = 0; });
  canvas.addEventListener("pointermove", (e) => {
    if (fingers.size === 0) return hover(e);
    const before = fingers.get(e.pointerId);
    fingers.set(e.pointerId, e.clientX);
    if (fingers.size === 1) return pan((before - e.clientX) / (canvas.clientWidth - left()));
    const [a, b] = [...fingers.values()], apart = Math.abs(a - b);
    if (pinch > 0 && apart > 0) zoom(pinch / apart, share((a + b) / 2));
    pinch = apart;
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("keydown", (e) => {
    const act = { "+": () => zoom(0.7, 0.5), "-": () => zoom(1.4, 0.5), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), 0: () => zoom(1e9, 0) }[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  function hover(e) {
    const box = canvas.getBoundingClientRect(), row = rows[Math.floor((e.clientY - box.top - top) / rowHeight)];
    if (!row || e.clientX < box.left + left()) return hideTip();
    const at = from + (to - from) * share(e.clientX), near = (to - from) / canvas.clientWidth;
    const hit = row.boxes.find(([start, length]) => at >= start - near && at <= start + length + near);
    if (!hit) return hideTip();
    const [start, length, phase, task, layer, batch] = hit;
    const where = [batch >= 0 ? `micro-batch ${batch}` : "", layer >= 0 ? `layer ${layer}` : ""].filter(Boolean).join(", ");
    showTip(e, `${row.label}, ${row.stream}\n${row.timeline.phases[phase]}${where ? ": " + where : ""}` +
      `${task >= 0 ? "\n" + row.timeline.tasks[task] : ""}\n${secondsOf(start * 1e-9, length * 1e-9)} to ${secondsOf((start + length) * 1e-9, length * 1e-9)}: ${seconds(length * 1e-9)}`);
  }

  const tools = make("div", { class: "tools" },
    make("button", { type: "button", onclick: () => zoom(0.5, 0.5) }, "zoom in"), make("button", { type: "button", onclick: () => zoom(2, 0.5) }, "zoom out"),
    make("button", { type: "button", onclick: () => pan(-0.5) }, "←"), make("button", { type: "button", onclick: () => pan(0.5) }, "→"),
    make("button", { type: "button", onclick: () => zoom(1e9, 0) }, "whole step"),
    make("span", { class: "soft small" }, "ctrl + wheel or pinch to zoom, drag to move, hover for details"));
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return [tools, make("figure", {}, canvas)];
}

function timelineLegend(rows) {
  const seen = new Map(), streams = { tensor: "tensor-, context- or expert-parallel", data: "data-parallel", send: "send", recv: "receive", host: "host copies" };
  for (const row of rows)
    for (const box of row.boxes) seen.set(row.stream === "compute" ? row.timeline.phases[box[2]] : streams[row.stream] || row.stream, boxColour(row.timeline, row.stream, box[2]));
  return legend([...seen].map(([name, c]) => [name, colour(c)]));
}

/// The unit that an axis up to so many bytes is numbered in.
const byteUnit = (most) => [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, size]) => most >= size) || ["B", 1];

/** Live bytes of a role over `step` nanoseconds by kind; `device` {name, bytes}, where there is one, is what they must fit. */
function memoryChart(role, kinds, step, device = null) {
  const samples = role.memory_over_time, width = Math.max(320, Math.min(1350, innerWidth - 40)), height = 300, left = 74, bottom = 28;
  const most = Math.max(1, ...samples.map((s) => s.slice(1).reduce((a, b) => a + b, 0)));
  const near = device && device.bytes <= 8 * most;  // else what is used would be a line on the ground
  const top = near ? Math.max(device.bytes * 1.06, most * 1.04) : most * 1.15;
  const [unit, size] = byteUnit(top);
  const x = (ns) => left + (width - left - 10) * ns / step, y = (b) => 10 + (height - bottom - 10) * (1 - b / top);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const g of ticks(0, top / size, 5))
    svg.append(make("line", { class: "axis", x1: left, x2: width - 10, y1: y(g * size), y2: y(g * size) }),
      make("text", { class: "soft", x: left - 6, y: y(g * size) + 4, "text-anchor": "end" }, `${number(g)} ${unit}`));
  for (const t of ticks(0, step * 1e-9, width > 700 ? 8 : 3))
    svg.append(make("text", { class: "soft", x: Math.min(x(t * 1e9), width - 22), y: height - 8, "text-anchor": "middle" }, seconds(t)));
  const base = samples.map(() => 0);
  kinds.forEach((kind, k) => {
    if (!samples.some((s) => s[k + 1] > 0)) return;
    const low = [...base];
    samples.forEach((s, i) => { base[i] += s[k + 1]; });
    const steps = (levels) => samples.map((s, i) => [x(s[0]), x(i + 1 < samples.length ? samples[i + 1][0] : step), y(levels[i])]);
    const up = steps(base).map(([a, b, h]) => `L${a} ${h}L${b} ${h}`).join(""), down = steps(low).reverse().map(([a, b, h]) => `L${b} ${h}L${a} ${h}`).join("");
    svg.append(make("path", { d: `M${up.slice(1)}${down}Z`, fill: colour(k), ...tipped(`${kind}\nat the peak: ${bytes(role.memory_bytes[kind])}`) }));
  });
  if (!near) {
    if (device) svg.append(make("text", { x: width - 14, y: 20, "text-anchor": "end" }, `${device.name}: ${bytes(device.bytes)}, far above`));
    return svg;
  }
  const line = y(device.bytes);
  svg.append(make("line", { x1: left, x2: width - 10, y1: line, y2: line, stroke: "var(--bad)", "stroke-width": 1.5, "stroke-dasharray": "6 4" }),
    make("text", { x: width - 14, y: line - 5, "text-anchor": "end" }, `${device.name}: ${bytes(device.bytes)}`));
  return svg;
}
