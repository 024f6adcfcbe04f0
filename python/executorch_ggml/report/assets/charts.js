"use strict";
// Tables and charts below the graph.
const say = (text) => make("p", { class: "quiet" }, text);

function showCharts() {
  showOutside();
  showTime();
  showMemory();
  showWeights();
  showError();
}

function linkTo(id, text) {
  const link = make("a", { href: "#graph-section" }, text);
  link.addEventListener("click", () => goTo(id));
  return link;
}

function fill(value, most) {
  return make("span", { class: "fill", style: "width: " + (most > 0 ? 100 * value / most : 0).toFixed(1) + "%" });
}

function showOutside() {
  const rows = report.method.refusals;
  if (!rows.length) { element("outside").replaceChildren(say("Nothing: ggml computes all of this method.")); return; }
  const list = (row) => {
    const links = make("span");
    row.nodes.slice(0, 20).forEach((id) => links.append(linkTo(id, report.byId.get(id).name || id), " "));
    if (row.nodes.length > 20) links.append("and " + (row.nodes.length - 20) + " more");
    return links;
  };
  element("outside").replaceChildren(
    table([
      { title: "op", value: (row) => row.op },
      { title: "why", value: (row) => row.reason },
      { title: "nodes", number: true, value: (row) => String(row.count) },
      { title: "time of a run", number: true, value: (row) => timeText(row.microseconds) },
      { title: "passes to and from ggml", number: true, value: (row) => bytesText(row.boundary_bytes) },
      { title: "which", value: list },
    ], rows),
    say("On the CPU what passes is read in place; another device copies it in each call."));
}

// What a hierarchy by module is made of: leaves are nodes.
function moduleTree(nodes, value) {
  const root = { name: "all", children: new Map() };
  for (const node of nodes) {
    let place = root;
    for (const path of pathsOf(node)) {
      if (!place.children.has(path)) place.children.set(path, { name: path, children: new Map() });
      place = place.children.get(path);
    }
    place.children.set("node:" + node.id, { name: node.op, node, value: value(node) });
  }
  return d3.hierarchy(root, (item) => item.children && [...item.children.values()]).sum((item) => item.value ?? 0);
}

function svgIn(parent, height) {
  const width = Math.max(600, element("graph-section").clientWidth - 40);
  const svg = d3.select(parent).append("svg").attr("viewBox", [0, 0, width, height]).attr("height", height);
  return { svg, width, height };
}

const nodeColour = (node) => colourOf(node ? PLACES[node.kind] : "module");

// An icicle: a module over what it holds, as wide as its share. A click shows that alone.
function icicle(parent, tree, text) {
  const ROW = 26;
  const { svg, width } = svgIn(parent, ROW * (tree.height + 1));
  d3.partition().size([1, tree.height + 1])(tree);
  let focus = tree;
  const cells = svg.selectAll("g").data(tree.descendants().filter((item) => item.value > 0)).join("g");
  const left = (item) => (Math.max(item.x0, focus.x0) - focus.x0) / (focus.x1 - focus.x0) * width;
  const wide = (item) => Math.max(0, (Math.min(item.x1, focus.x1) - Math.max(item.x0, focus.x0)) / (focus.x1 - focus.x0) * width);
  const rects = cells.append("rect").attr("class", "cell").attr("height", ROW - 2).attr("rx", 2)
    .attr("fill", (item) => nodeColour(item.data.node));
  const labels = cells.append("text").attr("x", 5).attr("y", 17);
  const draw = () => {
    cells.attr("transform", (item) => `translate(${left(item)},${item.y0 * ROW})`);
    rects.attr("width", (item) => Math.max(0, wide(item) - 1));
    labels.text((item) => {
      const room = Math.floor((wide(item) - 10) / 7);
      const name = item.data.name + "  " + text(item.value);
      return room < 3 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
    });
  };
  cells.on("mousemove", (event, item) => showTip(event, item.data.node
    ? nodeText(item.data.node)
    : item.data.name + "\n" + text(item.value) + ", " + (100 * item.value / tree.value).toFixed(1) + " %"));
  cells.on("mouseleave", hideTip);
  cells.on("click", (event, item) => {
    if (item.data.node) { goTo(item.data.node.id); return; }
    focus = focus === item && item.parent ? item.parent : item;
    draw();
  });
  draw();
}

function showTime() {
  const timed = report.method.nodes.filter((node) => node.microseconds !== null);
  const box = element("time");
  if (!timed.length) { box.replaceChildren(say("Not measured: --profile runs the program and measures it.")); return; }
  const total = d3.sum(timed, (node) => node.microseconds);
  box.replaceChildren(make("h3", {}, "By module"));
  icicle(box, moduleTree(timed, (node) => node.microseconds), timeText);
  const ops = d3.rollups(timed, (nodes) => ({ time: d3.sum(nodes, (node) => node.microseconds), count: nodes.length }),
    (node) => node.kind + " " + node.op).map(([key, row]) => ({ op: key.slice(key.indexOf(" ") + 1), kind: key.split(" ")[0], ...row }));
  ops.sort((a, b) => b.time - a.time);
  box.append(make("h3", {}, "By op"), make("div", { class: "scroll", id: "time-by-op" }, table([
    { title: "op", value: (row) => row.op },
    { title: "computed by", value: (row) => (row.kind === "ggml" ? "ggml" : row.kind === "outside" ? "ExecuTorch" : "another backend") },
    { title: "nodes", number: true, value: (row) => String(row.count) },
    { title: "time", number: true, value: (row) => timeText(row.time) },
    { title: "share", number: true, value: (row) => (100 * row.time / total).toFixed(1) + " %" },
    { title: "", value: (row) => fill(row.time, ops[0].time) },
  ], ops)));
}

function showMemory() {
  const box = element("memory");
  const arenas = report.method.arenas;
  if (!arenas.length) { box.replaceChildren(say("No memory is planned.")); return; }
  const choice = make("select", { id: "arena", "aria-label": "Arena" });
  arenas.forEach((arena, i) => choice.append(make("option", { value: i }, arena.name + ": " + bytesText(arena.bytes))));
  choice.value = String(d3.maxIndex(arenas, (arena) => arena.bytes));
  const chart = make("div", { id: "arena-chart" });
  const draw = () => drawArena(chart, arenas[Number(choice.value)]);
  choice.addEventListener("change", draw);
  box.replaceChildren(choice, chart);
  draw();
}

// A value is a rectangle: from the step that computes it to the last that reads it, at its offset.
function drawArena(chart, arena) {
  const live = new Array(arena.steps.length + 1).fill(0);
  for (const block of arena.blocks) { live[block.first] += block.size; live[block.last + 1] -= block.size; }
  for (let i = 1; i < live.length; ++i) live[i] += live[i - 1];
  live.pop();
  const peak = d3.maxIndex(live);
  chart.replaceChildren(say(
    `${bytesText(arena.bytes)} planned for ${arena.sizes}; at most ${bytesText(live[peak] ?? 0)} hold values at a time, ` +
    `at step ${peak} (${arena.steps[peak] ?? "none"}).`));
  const { svg, width, height } = svgIn(chart, 340);
  const x = d3.scaleLinear([0, Math.max(1, arena.steps.length)], [70, width - 10]);
  const y = d3.scaleLinear([0, Math.max(1, arena.bytes)], [height - 28, 8]);
  const axis = (call, transform) => svg.append("g").attr("class", "axis").attr("transform", transform).call(call);
  axis(d3.axisBottom(x).ticks(Math.min(10, arena.steps.length)).tickFormat(d3.format("d")), `translate(0,${height - 28})`);
  axis(d3.axisLeft(y).ticks(6).tickFormat(bytesText), "translate(70,0)");
  svg.selectAll("rect.block").data(arena.blocks).join("rect").attr("class", "cell block")
    .attr("x", (block) => x(block.first)).attr("width", (block) => Math.max(1, x(block.last + 1) - x(block.first)))
    .attr("y", (block) => y(block.offset + block.size)).attr("height", (block) => Math.max(1, y(block.offset) - y(block.offset + block.size)))
    .attr("fill", (block) => nodeColour(report.byId.get(block.node) ?? { kind: "input" }))
    .on("mousemove", (event, block) => showTip(event, `${block.label}\n${bytesText(block.size)} at ${block.offset}, ` +
      `steps ${block.first} to ${block.last}\n${report.byId.has(block.node) ? nodeText(report.byId.get(block.node)) : ""}`))
    .on("mouseleave", hideTip)
    .on("click", (event, block) => goTo(block.node));
  const line = d3.line().x((_, i) => x(i + 0.5)).y((bytes) => y(bytes)).curve(d3.curveStep);
  svg.append("path").attr("d", line(live)).attr("fill", "none").attr("stroke", colourOf("heat")).attr("stroke-width", 1.5)
    .attr("pointer-events", "none");
  chart.append(say("Rectangles are values, by step of the run and place in the arena; the line is how much holds values."));
}

function showWeights() {
  const weights = report.method.weights;
  const box = element("weights");
  if (!weights.length) { box.replaceChildren(say("None in the program's file or its graph.")); return; }
  const type = (weight) => weight.dtype + (weight.storage ? ", " + weight.storage : "");
  const types = d3.rollups(weights, (rows) => ({ bytes: d3.sum(rows, (row) => row.bytes), count: rows.length }), type)
    .map(([name, row]) => ({ name, ...row })).sort((a, b) => b.bytes - a.bytes);
  const total = d3.sum(types, (row) => row.bytes);
  box.replaceChildren(make("div", { id: "weights-by-type" }, table([
    { title: "type, storage", value: (row) => row.name },
    { title: "tensors", number: true, value: (row) => String(row.count) },
    { title: "size", number: true, value: (row) => bytesText(row.bytes) },
    { title: "share", number: true, value: (row) => (total ? 100 * row.bytes / total : 0).toFixed(1) + " %" },
    { title: "", value: (row) => fill(row.bytes, types[0].bytes) },
  ], types)));
  if (total > 0) treemap(box, weights, types.map((row) => row.name), type);
}

function treemap(box, weights, names, type) {
  const { svg, width, height } = svgIn(box, 380);
  const leaves = names.map((name) => ({ name, children: weights.filter((weight) => type(weight) === name) }));
  const tree = d3.hierarchy({ children: leaves }).sum((item) => item.bytes ?? 0).sort((a, b) => b.value - a.value);
  d3.treemap().size([width, height]).paddingInner(1).paddingOuter(3)(tree);
  const colour = d3.scaleOrdinal(names, d3.schemeTableau10);
  const cells = svg.selectAll("g").data(tree.leaves()).join("g").attr("transform", (item) => `translate(${item.x0},${item.y0})`);
  cells.append("rect").attr("class", "cell").attr("width", (item) => item.x1 - item.x0).attr("height", (item) => item.y1 - item.y0)
    .attr("fill", (item) => colour(type(item.data))).attr("fill-opacity", .35);
  cells.append("text").attr("x", 4).attr("y", 15).text((item) => {
    const room = Math.floor((item.x1 - item.x0 - 8) / 6.6);
    return item.y1 - item.y0 < 18 || room < 4 ? "" : item.data.key.length > room ? item.data.key.slice(0, room - 1) + "…" : item.data.key;
  });
  cells.on("mousemove", (event, { data }) => showTip(event, [data.key, `${data.dtype} [${data.shape.join(", ")}]`,
    bytesText(data.bytes), data.storage && "stored as " + data.storage, data.part || "outside of ggml"].filter(Boolean).join("\n")));
  cells.on("mouseleave", hideTip);
  cells.on("click", (event, { data }) => {
    const reader = report.method.nodes.find((node) => node.part === data.part && node.weights.includes(data.key));
    if (reader) goTo(reader.id);
  });
}

function showError() {
  const nodes = report.method.nodes.filter((node) => node.error !== null);
  const box = element("error");
  if (!nodes.length) { box.replaceChildren(say("Not measured: --against MODEL runs the model in eager PyTorch beside it.")); return; }
  const finite = nodes.map((node) => errorSize(node.error)).filter((error) => Number.isFinite(error) && error > 0);
  const { svg, width, height } = svgIn((box.replaceChildren(), box), 260);
  const least = Math.min(1e-8, d3.min(finite) ?? 1e-8);
  const x = d3.scaleLinear([0, nodes.length], [60, width - 10]);
  const y = d3.scaleLog([least, Math.max(1e-5, d3.max(finite) ?? 1e-5) * 2], [height - 28, 8]).clamp(true);
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - 28})`).call(d3.axisBottom(x).ticks(Math.min(10, nodes.length)).tickFormat(d3.format("d")));
  svg.append("g").attr("class", "axis").attr("transform", "translate(60,0)").call(d3.axisLeft(y).ticks(6, ".0e"));
  svg.selectAll("circle").data(nodes).join("circle").attr("r", 4).attr("fill", colourOf("accent"))
    .attr("cx", (_, i) => x(i + 0.5)).attr("cy", (node) => y(Math.max(least, Math.min(errorSize(node.error), 1e300))))
    .style("cursor", "pointer")
    .on("mousemove", (event, node) => showTip(event, nodeText(node))).on("mouseleave", hideTip)
    .on("click", (event, node) => goTo(node.id));
  const worst = [...nodes].sort((a, b) => errorSize(b.error) - errorSize(a.error));
  box.append(say("In the order of computation: the largest difference from eager over eager's largest magnitude."),
    make("div", { class: "scroll", id: "error-by-node" }, table([
      { title: "node", value: (node) => linkTo(node.id, node.op) },
      { title: "module", value: (node) => node.module || node.name },
      { title: "error", number: true, value: (node) => errorText(node.error) },
    ], worst)));
}
