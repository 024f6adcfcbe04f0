"use strict";
// The graph: a module is one node where it is closed, and a box around what it holds where it is open.
const MOST_SHOWN = 150;  // nodes at first
const READABLE = 0.75;  // the least zoom at first

const graph = { cy: null, modules: new Map(), open: new Set(), selected: null };

// Modules of two nodes or more, by path: { path, parent, nodes, children }.
function readModules(method) {
  const counts = new Map();
  for (const node of method.nodes) for (const path of pathsOf(node)) counts.set(path, (counts.get(path) || 0) + 1);
  graph.modules = new Map();
  for (const node of method.nodes) {
    const paths = pathsOf(node).filter((path) => counts.get(path) > 1);
    // A module that holds nothing but another is not shown.
    const kept = paths.filter((path, i) => i + 1 === paths.length || counts.get(path) !== counts.get(paths[i + 1]));
    node.groups = kept;
    kept.forEach((path, i) => {
      if (!graph.modules.has(path)) graph.modules.set(path, { path, parent: kept[i - 1], nodes: [] });
      graph.modules.get(path).nodes.push(node);
    });
  }
}

function pathsOf(node) {
  if (!node.module) return [];
  const parts = node.module.split(".");
  return parts.map((_, i) => parts.slice(0, i + 1).join("."));
}

// What stands for a node: the outermost of its modules that is closed, or itself.
const shownFor = (node) => node.groups.find((path) => !graph.open.has(path)) ?? node.id;
const shownCount = () => new Set(report.method.nodes.map(shownFor)).size;

// The outer modules are opened first, as long as there is room.
function openSome() {
  graph.open = new Set();
  const waiting = [...graph.modules.values()].sort((a, b) => a.path.split(".").length - b.path.split(".").length);
  for (const module of waiting) {
    if (module.parent !== undefined && !graph.open.has(module.parent)) continue;
    graph.open.add(module.path);
    if (shownCount() > MOST_SHOWN) graph.open.delete(module.path);
  }
}

const idOf = (path) => "module:" + path;
const shownId = (node) => { const shown = shownFor(node); return shown === node.id ? node.id : idOf(shown); };

function moduleLabel(module) {
  const calls = module.nodes.filter(isCall);
  const type = module.nodes.find((node) => node.module === module.path && node.module_type)?.module_type;
  return module.path + (type ? "\n" + type : "") + "\n" + calls.length + " nodes";
}

function sized(data) {
  const lines = data.label.split("\n");
  return { ...data, width: 16 + 6.3 * d3.max(lines, (line) => line.length), height: 12 + 14 * lines.length };
}

function nodeElement(node) {
  const parent = node.groups.at(-1);
  const label = node.op + "\n" + node.result;
  return { data: sized({ id: node.id, parent: parent && idOf(parent), label, node, colour: "" }) };
}

function moduleElement(module) {
  const open = graph.open.has(module.path);
  const label = open ? module.path : moduleLabel(module);
  const data = { id: idOf(module.path), parent: module.parent && idOf(module.parent), module, label, colour: "" };
  return { data: sized(data), classes: open ? "open" : "closed" };
}

function isShown(module) {
  const groups = module.nodes[0].groups;
  return groups.slice(0, groups.indexOf(module.path)).every((path) => graph.open.has(path));
}

function shownEdges() {
  const edges = new Map();
  for (const edge of report.method.edges) {
    const source = shownId(report.byId.get(edge.source)), target = shownId(report.byId.get(edge.target));
    if (source === target) continue;
    const key = source + " > " + target;
    if (!edges.has(key)) edges.set(key, { data: { id: key, source, target, values: [] } });
    edges.get(key).data.values.push(edge.value);
  }
  return [...edges.values()];
}

function layOut(fit = true) {
  const begin = performance.now();
  const nodes = report.method.nodes.filter((node) => shownFor(node) === node.id).map(nodeElement);
  const modules = [...graph.modules.values()].filter(isShown).map(moduleElement);
  const edges = shownEdges();
  const places = placesOf([...modules, ...nodes].map((item) => item.data), edges.map((edge) => edge.data));
  for (const item of [...modules, ...nodes]) item.position = places.get(item.data.id);
  graph.cy.batch(() => {
    graph.cy.elements().remove();
    graph.cy.add([...modules, ...nodes, ...edges]);
  });
  recolour();
  if (fit) fitGraph();
  graph.milliseconds = performance.now() - begin;
  element("shown").textContent = graph.cy.nodes(":childless").length + " of " + report.method.nodes.length + " shown";
}

// All of a small graph; of a large one the beginning, at a size that can be read.
function fitGraph() {
  graph.cy.fit(undefined, 24);
  if (graph.cy.zoom() > 1.2) graph.cy.zoom({ level: 1.2, renderedPosition: middle() });
  if (graph.cy.zoom() >= READABLE) return;
  const box = graph.cy.elements().boundingBox();
  graph.cy.zoom(READABLE);
  graph.cy.pan({ x: graph.cy.width() / 2 - READABLE * (box.x1 + box.x2) / 2, y: 24 - READABLE * box.y1 });
}
const middle = () => ({ x: graph.cy.width() / 2, y: graph.cy.height() / 2 });
const zoomBy = (factor) => graph.cy.zoom({ level: graph.cy.zoom() * factor, renderedPosition: middle() });

function graphStyle() {
  return [
    { selector: "node", style: {
      shape: "round-rectangle", width: "data(width)", height: "data(height)", label: "data(label)",
      "text-wrap": "wrap", "text-valign": "center", "font-size": 11, "font-family": "system-ui, sans-serif",
      color: colourOf("ink"), "background-color": "data(colour)", "border-width": 1, "border-color": colourOf("line") } },
    { selector: "node.open", style: {
      "background-color": colourOf("module"), "text-valign": "top", color: colourOf("quiet"), padding: "12px" } },
    { selector: "node.closed", style: { "border-width": 3, "border-style": "double", "border-color": colourOf("quiet") } },
    { selector: "node.hit", style: { "border-width": 4, "border-color": colourOf("hit") } },
    { selector: "edge", style: {
      width: 1.2, "line-color": colourOf("quiet"), "target-arrow-color": colourOf("quiet"), "arrow-scale": .7,
      "target-arrow-shape": "triangle", "curve-style": "bezier", opacity: .75 } },
  ];
}

function restyleGraph() {
  graph.cy.style(graphStyle());
  recolour();
}

const PLACES = { ggml: "ggml", outside: "outside", other: "other", input: "port", output: "port" };
const SCALES = {
  time: (nodes) => d3.sum(nodes, (node) => node.microseconds ?? 0),
  error: (nodes) => d3.max(nodes, (node) => (node.error === null ? 0 : errorSize(node.error))) ?? 0,
};

function recolour() {
  const shown = graph.cy.nodes(":childless");
  const held = (item) => (item.data("node") ? [item.data("node")] : item.data("module").nodes);
  const scale = SCALES[element("colour").value];
  if (scale) {
    const values = shown.map((item) => scale(held(item)));
    const finite = values.filter(Number.isFinite);
    const colour = d3.scaleSqrt([0, d3.max(finite) || 1], [colourOf("port"), colourOf("heat")]).clamp(true);
    shown.forEach((item, i) => { item.data("colour", colour(Number.isFinite(values[i]) ? values[i] : 1e300)); });
  } else {
    shown.forEach((item) => { item.data("colour", placeColour(held(item))); });
  }
  graph.cy.nodes(".open").forEach((item) => { item.data("colour", colourOf("module")); });
  mark(graph.selected);
}

// A module that is in two places has the colour of outside: that is what one looks for.
function placeColour(nodes) {
  const kinds = new Set(nodes.map((node) => node.kind));
  return colourOf(PLACES[["outside", "other", "ggml"].find((kind) => kinds.has(kind)) ?? "input"]);
}

function mark(id) {
  graph.selected = id;
  graph.cy.nodes(".hit").removeClass("hit");
  const node = id && report.byId.get(id);
  if (!node) return;
  const shown = shownFor(node);
  graph.cy.getElementById(shown === id ? id : "module:" + shown).addClass("hit");
}

function describe(title, pairs) {
  element("details").replaceChildren(make("h3", {}, title), definitions(pairs));
}

function moduleFacts(module) {
  const calls = module.nodes.filter(isCall);
  const times = calls.filter((node) => node.microseconds !== null);
  const weights = new Map(calls.flatMap((node) => node.weights.map((key) => [key, 0])));
  for (const weight of report.method.weights) if (weights.has(weight.key)) weights.set(weight.key, weight.bytes);
  return [
    ["module", module.path], ["in ggml", calls.filter((node) => node.kind === "ggml").length],
    ["outside", calls.filter((node) => node.kind === "outside").length],
    ["weights", bytesText(d3.sum(weights.values()))],
    ["time", times.length ? timeText(d3.sum(times, (node) => node.microseconds)) : ""],
  ];
}

// Opens what a node is in, and goes there.
function goTo(id) {
  const node = report.byId.get(id);
  if (!node) return;
  if (shownFor(node) !== id) {
    for (const path of node.groups) graph.open.add(path);
    layOut(false);
  }
  mark(id);
  describe(node.op, nodeFacts(node));
  graph.cy.zoom(Math.max(graph.cy.zoom(), 0.9));
  graph.cy.center(graph.cy.getElementById(id));
}

function toggle(module) {
  if (!graph.open.delete(module.path)) graph.open.add(module.path);
  layOut(false);
  graph.cy.center(graph.cy.getElementById("module:" + module.path));
}

function startGraph() {
  graph.cy = cytoscape({ container: element("cy"), style: graphStyle(), minZoom: 0.02, maxZoom: 4, boxSelectionEnabled: false });
  graph.cy.on("tap", "node", ({ target }) => {
    const node = target.data("node"), module = target.data("module");
    if (node) { mark(node.id); describe(node.op, nodeFacts(node)); } else { describe(module.path, moduleFacts(module)); }
  });
  graph.cy.on("dbltap", "node", ({ target }) => { if (target.data("module")) toggle(target.data("module")); });
  graph.cy.on("mouseover mousemove", "node, edge", ({ target, originalEvent }) => {
    const node = target.data("node"), module = target.data("module");
    const facts = module && moduleFacts(module).filter(([, value]) => value !== "").map((pair) => pair.join(": ")).join("\n");
    showTip(originalEvent, node ? nodeText(node) : facts ?? target.data("values").join("\n"));
  });
  graph.cy.on("mouseout viewport", hideTip);
  element("zoom-in").addEventListener("click", () => zoomBy(1.3));
  element("zoom-out").addEventListener("click", () => zoomBy(1 / 1.3));
  element("fit").addEventListener("click", () => graph.cy.fit(undefined, 24));
  element("expand-all").addEventListener("click", () => { graph.open = new Set(graph.modules.keys()); layOut(); });
  element("collapse-all").addEventListener("click", () => { graph.open = new Set(); layOut(); });
  element("colour").addEventListener("change", () => { showLegend(); recolour(); });
  element("cy").addEventListener("keydown", moveByKey);
  startSearch();
}

const MOVES = { ArrowLeft: { x: 80, y: 0 }, ArrowRight: { x: -80, y: 0 }, ArrowUp: { x: 0, y: 80 }, ArrowDown: { x: 0, y: -80 } };

function moveByKey(event) {
  if (MOVES[event.key]) graph.cy.panBy(MOVES[event.key]);
  else if (event.key === "+") zoomBy(1.3);
  else if (event.key === "-") zoomBy(1 / 1.3);
  else if (event.key === "f") graph.cy.fit(undefined, 24);
  else return;
  event.preventDefault();
}

function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const has = (texts) => words.every((word) => texts.join(" ").toLowerCase().includes(word));
  const found = [[], []];  // those that are called so are before those whose line or weights are
  for (const node of report.method.nodes) {
    const names = [node.id, node.op, node.name, node.module, node.module_type, node.result];
    if (has(names)) found[0].push(node);
    else if (has([...names, node.source, ...node.weights])) found[1].push(node);
  }
  return found.flat();
}

function startSearch() {
  const input = element("search"), list = element("found");
  let found = [], at = 0;
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); };
  const choose = (index) => { if (found[index]) goTo(found[index].id); close(); };
  const show = () => {
    list.replaceChildren(...found.slice(0, 100).map((node, i) => {
      const item = make("li", { role: "option", id: "found-" + i, "aria-selected": String(i === at) },
        [node.op, node.module || node.name, node.result].join("  ·  "));
      item.addEventListener("mousedown", (event) => { event.preventDefault(); choose(i); });
      return item;
    }));
    if (!found.length && input.value.trim()) list.append(make("li", {}, "nothing found"));
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.setAttribute("aria-activedescendant", found.length ? "found-" + at : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", () => { found = matches(input.value); at = 0; show(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const shown = Math.min(found.length, 100);
    if (event.key === "ArrowDown" && shown) { at = (at + 1) % shown; show(); }
    else if (event.key === "ArrowUp" && shown) { at = (at + shown - 1) % shown; show(); }
    else if (event.key === "Enter") choose(at);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

function showLegend() {
  const swatch = (name, text) => [make("span", { class: "swatch", style: "background: var(--" + name + ")" }), text];
  const kinds = [["ggml", "ggml"], ["outside", "ExecuTorch's kernels"], ["other", "another backend"], ["port", "input, output"]];
  const scale = element("colour").value !== "place";
  const shown = scale ? [["port", "none"], ["heat", "most " + element("colour").value]] : kinds;
  element("legend").replaceChildren(...shown.flatMap(([name, text]) => swatch(name, text)));
}

function showGraph() {
  readModules(report.method);
  const choices = ["place"];
  if (report.method.nodes.some((node) => node.microseconds !== null)) choices.push("time");
  if (report.method.nodes.some((node) => node.error !== null)) choices.push("error");
  element("colour").replaceChildren(...choices.map((name) => make("option", { value: name }, "by " + name)));
  graph.selected = null;
  element("details").replaceChildren(make("p", { class: "quiet" }, "Click a node, or search for one."));
  openSome();
  showLegend();
  layOut();
}
