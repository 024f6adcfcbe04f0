"use strict";
// Where nodes are drawn: each open module is laid out by itself, and is one large node in the module around it.
const RUN = 60;  // nodes that dagre is given at once: its time grows faster than their number
const PADDING = 14;
const TITLE = 20;
const GAP = 34;

// `items` have id, parent, width and height; those that are open modules are the parents of others.
function placesOf(items, edges) {
  const byId = new Map(items.map((item) => [item.id, item]));
  const levels = d3.group(inOrder(items), (item) => item.parent);
  const lifted = d3.group(edges.map((edge) => liftedEdge(edge, byId)), (edge) => edge.level);
  const places = new Map();
  const boxes = new Map();
  const measure = (level) => {
    for (const item of levels.get(level) ?? []) {
      boxes.set(item.id, levels.has(item.id) ? measure(item.id) : { width: item.width, height: item.height });
    }
    return placeLevel(levels.get(level) ?? [], lifted.get(level) ?? [], boxes, places);
  };
  measure(undefined);
  const settle = (level, x, y) => {
    for (const item of levels.get(level) ?? []) {
      const place = places.get(item.id), box = boxes.get(item.id);
      place.x += x;
      place.y += y;
      if (levels.has(item.id)) settle(item.id, place.x - box.width / 2 + PADDING, place.y - box.height / 2 + TITLE);
    }
  };
  settle(undefined, 0, 0);
  return places;
}

// In the order of computation: a module where the first of its nodes is.
function inOrder(items) {
  const order = new Map(report.method.nodes.map((node, i) => [node.id, i]));
  const first = (item) => order.get(item.module ? item.module.nodes[0].id : item.id);
  return [...items].sort((a, b) => first(a) - first(b));
}

// An edge between what holds its ends, within the innermost module that holds both.
function liftedEdge(edge, byId) {
  const chain = (id) => { const ids = []; for (let at = id; at !== undefined; at = byId.get(at).parent) ids.unshift(at); return ids; };
  const from = chain(edge.source), to = chain(edge.target);
  let depth = 0;
  while (from[depth] === to[depth]) depth += 1;
  return { level: from[depth - 1], source: from[depth], target: to[depth] };
}

// Many nodes are cut into runs in the order of computation, one under the other.
function placeLevel(items, edges, boxes, places) {
  const runs = [];
  const count = items.length <= 1.5 * RUN ? 1 : Math.ceil(items.length / RUN);
  const length = Math.ceil(items.length / count);
  for (let i = 0; i < items.length; i += length) runs.push(placeRun(items.slice(i, i + length), edges, boxes, places));
  const width = d3.max(runs, (run) => run.width) ?? 0;
  let y = 0;
  for (const run of runs) {
    for (const id of run.ids) {
      places.get(id).x += (width - run.width) / 2;
      places.get(id).y += y;
    }
    y += run.height + GAP;
  }
  return { width: width + 2 * PADDING, height: y - GAP + PADDING + TITLE };
}

function placeRun(items, edges, boxes, places) {
  const drawn = new dagre.graphlib.Graph();
  drawn.setGraph({ nodesep: 14, ranksep: GAP });
  drawn.setDefaultEdgeLabel(() => ({}));
  for (const item of items) drawn.setNode(item.id, { ...boxes.get(item.id) });
  for (const edge of edges) if (drawn.hasNode(edge.source) && drawn.hasNode(edge.target)) drawn.setEdge(edge.source, edge.target);
  dagre.layout(drawn);
  for (const id of drawn.nodes()) places.set(id, { x: drawn.node(id).x, y: drawn.node(id).y });
  return { ids: drawn.nodes(), width: drawn.graph().width, height: drawn.graph().height };
}
