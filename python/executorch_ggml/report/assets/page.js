"use strict";
// The data, the choice of a method, and what graph.js and charts.js share.
const report = {
  data: JSON.parse(document.getElementById("data").textContent),
  method: null,
  byId: new Map(),
};

const element = (id) => document.getElementById(id);
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

function bytesText(bytes) {
  if (bytes < 1024) return bytes + " B";
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  do { bytes /= 1024; unit += 1; } while (bytes >= 1024 && unit < units.length - 1);
  return bytes.toPrecision(3) + " " + units[unit];
}

function timeText(microseconds) {
  if (microseconds === null || microseconds === undefined) return "not measured";
  if (microseconds < 1000) return microseconds.toFixed(1) + " µs";
  return (microseconds / 1000).toPrecision(4) + " ms";
}

// Numbers that JSON cannot say come as text.
const errorText = (error) => (typeof error === "number" ? error.toExponential(2) : String(error));
const errorSize = (error) => (typeof error === "number" ? error : Infinity);

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function definitions(pairs) {
  const list = make("dl");
  for (const [name, value] of pairs) {
    if (value === "" || value === null || value === undefined) continue;
    list.append(make("dt", {}, name), make("dd", {}, String(value)));
  }
  return list;
}

function table(columns, rows) {
  const head = make("tr");
  for (const column of columns) head.append(make("th", column.number ? { class: "number" } : {}, column.title));
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    for (const column of columns) {
      const cell = make("td", column.number ? { class: "number" } : {});
      cell.append(column.value(row));
      line.append(cell);
    }
    body.append(line);
  }
  return make("table", {}, make("thead", {}, head), body);
}

function showTip(event, text) {
  const tip = element("tip");
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8)) + "px";
}
const hideTip = () => { element("tip").hidden = true; };

const placeText = (node) => (node.kind === "outside" ? "ExecuTorch's kernel" : node.part);

function joinedText(node) {
  const kernel = report.method.nodes.find((other) => other.id === node.joined_to);
  return kernel ? "in that of " + kernel.op + " (" + kernel.name + "), whose kernel computes it" : "";
}

function nodeFacts(node) {
  return [
    ["op", node.op], ["result", node.result], ["computed by", placeText(node)], ["ATen node", node.name],
    ["module", node.module + (node.module_type ? " (" + node.module_type + ")" : "")], ["source", node.source],
    ["attributes", node.attributes], ["weights", node.weights.join("\n")],
    ["weights' size", node.weight_bytes ? bytesText(node.weight_bytes) : ""], ["outside because", node.reason],
    ["time", node.microseconds === null ? joinedText(node) : timeText(node.microseconds)],
    ["error", node.error === null ? "" : errorText(node.error)],
  ].filter(([, value]) => value && value !== "");
}
const nodeText = (node) => nodeFacts(node).map(([name, value]) => name + ": " + value).join("\n");

const isCall = (node) => node.kind !== "input" && node.kind !== "output";

function showFacts(method) {
  const calls = method.nodes.filter(isCall);
  const count = (kind) => calls.filter((node) => node.kind === kind).length;
  const facts = [
    ["file", bytesText(report.data.bytes)], ["in ggml", count("ggml")], ["outside", count("outside")],
    ["other delegates", count("other") || ""], ["weights", bytesText(d3.sum(method.weights, (weight) => weight.bytes))],
    ["planned memory", bytesText(d3.sum(method.arenas, (arena) => arena.bytes))],
    ["a run", method.microseconds === null ? "" : timeText(method.microseconds)],
  ];
  element("facts").replaceChildren(...facts.filter(([, value]) => value !== "").map(([name, value]) => (
    make("div", { "data-fact": name }, make("dt", {}, name), make("dd", {}, String(value))))));
}

function showMethod(index) {
  report.method = report.data.methods[index];
  report.byId = new Map(report.method.nodes.map((node) => [node.id, node]));
  showFacts(report.method);
  showGraph();
  showCharts();
}

function start() {
  const choice = element("method");
  report.data.methods.forEach((method, index) => choice.append(make("option", { value: index }, method.name)));
  element("method-choice").hidden = report.data.methods.length < 2;
  choice.addEventListener("change", () => showMethod(Number(choice.value)));
  element("notes").replaceChildren(...report.data.notes.map((note) => make("li", {}, note)));
  startGraph();
  if (report.data.methods.length) showMethod(0);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { restyleGraph(); showCharts(); });
}
addEventListener("DOMContentLoaded", start);
