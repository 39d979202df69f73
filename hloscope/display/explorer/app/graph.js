// The neighbourhood of an instruction: operands above it, users below it, called computations
// inside it; an edge has the shape of its value.  Nodes beyond a limit are counted, not drawn.

const MOST_AROUND = 9; // on each side, at the first step
const MOST_BEYOND = 3; // of each of these, at the second
const MOST_INSIDE = 42; // of all that an instruction calls
const MOST_CALLED = 4;
const LABEL = 18; // room below a node for the shape that it gives
const TIP = 8; // of an edge leads straight down
const CHARACTER = 6.7;
const SVG = "http://www.w3.org/2000/svg";

const KINDS = [
  ["source", /^(parameter|constant|iota|rng|infeed|recv)/],
  ["movement", /^(copy|transpose|reshape|bitcast|broadcast|slice|concatenate|pad|reverse|gather|scatter|dynamic-|dynamic_|tuple|get-tuple-element|get_tuple_element|result|return)/],
  ["reduction", /^(reduce|sort|select-and-scatter|cumsum|scan|all-|collective|dot|convolution|custom-call|custom_call|cholesky|fft|triangular)/],
  ["call", /^(fusion|call|while|conditional|if|case|map|async|composite)/],
];

H.kindOf = (opcode) => KINDS.find(([, pattern]) => pattern.test(opcode))?.[0] || "compute";

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// An element of SVG with attributes; strings become text.
function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

H.svg = svg;

function nodeOf(program, k) {
  const opcode = short(program.opcodeOf(k), 26);
  const name = short(program.name[k], 26);
  const shape = short(program.typeText(k).replace(/\{[^}]*\}/g, ""), 30); // stands below it
  const width = Math.max(64, CHARACTER * Math.max(opcode.length * 1.05, name.length * 0.94) + 20, CHARACTER * shape.length * 0.94);
  return { id: k, k, opcode, name, shape, width, height: 40 + LABEL };
}

const more = (id, count) => ({ id, more: count, width: 72, height: 24 });

// The neighbours of an instruction in its computation.
function around(program, k) {
  const nodes = new Map([[k, nodeOf(program, k)]]);
  const edges = [];
  const step = (from, neighbours, most, sign) => {
    const all = [...new Set(neighbours)];
    const shown = all.length > most + 1 ? all.slice(0, most) : all;
    for (const other of shown) {
      if (!nodes.has(other)) nodes.set(other, nodeOf(program, other));
      edges.push(sign < 0 ? { from: other, to: from } : { from, to: other });
    }
    if (shown.length < all.length) {
      const id = `${sign}:${from}`;
      nodes.set(id, more(id, all.length - shown.length));
      edges.push(sign < 0 ? { from: id, to: from } : { from, to: id });
    }
    return shown;
  };
  const operands = step(k, program.readsOf(k), MOST_AROUND, -1);
  const users = step(k, program.usersOf(k), MOST_AROUND, 1);
  if (operands.length <= 5) for (const o of operands) step(o, program.readsOf(o), MOST_BEYOND, -1);
  if (users.length <= 5) for (const u of users) step(u, program.usersOf(u), MOST_BEYOND, 1);
  return { nodes: [...nodes.values()], edges: unique(edges) };
}

const unique = (edges) => [...new Map(edges.map((edge) => [`${edge.from}>${edge.to}`, edge])).values()];

// A computation as a graph: its root and what the root depends on, up to a limit of nodes.
function inside(program, c, most) {
  const [, start, count, root] = program.computations[c];
  const chosen = new Set();
  const queue = root < 0 ? [] : [root];
  while (queue.length && chosen.size < most) {
    const k = queue.shift();
    if (chosen.has(k)) continue;
    chosen.add(k);
    queue.push(...program.readsOf(k).filter((o) => o >= start && o < start + count));
  }
  const ordered = [...chosen].sort((a, b) => a - b);
  const nodes = ordered.map((k) => nodeOf(program, k));
  const edges = ordered.flatMap((k) =>
    program.readsOf(k).filter((o) => chosen.has(o)).map((o) => ({ from: o, to: k })),
  );
  if (count > chosen.size) nodes.push(more(`in:${c}`, count - chosen.size));
  return { nodes, edges: unique(edges) };
}

class Graph {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.element = H.el("div", "graph");
  }

  show(k) {
    const { program } = this;
    const { nodes, edges } = around(program, k);
    const box = nodes[0];
    const inner = this.#inner(box, [...new Set(program.calledBy(k))]);
    const size = H.layout(nodes, edges);
    const margin = 14;
    const width = size.width + 2 * margin;
    const height = size.height + 2 * margin;
    const scale = Math.max(0.7, Math.min(1, (this.element.clientWidth - 8) / width));
    const picture = svg("svg", {
      viewBox: `${-margin} ${-margin} ${width} ${height}`,
      width: width * scale,
      height: height * scale,
      role: "img",
    });
    picture.append(arrowhead());
    this.#draw(picture, nodes, edges, k);
    for (const { graph, x, y, title } of inner) {
      const group = svg("g", { transform: `translate(${box.x - box.width / 2 + x} ${box.y - box.height / 2 + y})` });
      if (title) group.append(svg("text", { class: "more", x: graph.width / 2, y: -8, "text-anchor": "middle" }, title));
      this.#draw(group, graph.nodes, graph.edges, k);
      picture.append(group);
    }
    H.clear(this.element, picture);
    this.element.style.setProperty("--tall", `${Math.ceil(height * scale) + 10}px`);
    // What it reads is seen whole, if it reads anything: its operands are at the top.
    const operands = edges.filter(({ to }) => to === k).map(({ from }) => nodes.find(({ id }) => id === from));
    const top = Math.min(...[box, ...operands].map((node) => node.y - node.height / 2));
    this.element.scrollTop = (top + margin) * scale - TIP;
    this.element.scrollLeft = (box.x + margin) * scale - this.element.clientWidth / 2;
  }

  // Enlarges a node by the graphs of the computations that it calls, side by side.
  #inner(box, called) {
    const shown = called.slice(0, MOST_CALLED).map((c) => {
      const graph = inside(this.program, c, Math.ceil(MOST_INSIDE / Math.min(called.length, MOST_CALLED)));
      return { ...graph, ...H.layout(graph.nodes, graph.edges, { nodesep: 12, ranksep: 24 }), title: short(this.program.computations[c][0], 26) };
    }).filter((graph) => graph.nodes.length);
    if (!shown.length) return [];
    const isOne = called.length === 1;
    const widths = shown.map((graph) => Math.max(graph.width, isOne ? 0 : graph.title.length * CHARACTER));
    const width = widths.reduce((sum, one) => sum + one + 24, -24);
    box.width = Math.max(box.width, width + 20);
    box.height = Math.max(...shown.map((graph) => graph.height)) + (isOne ? 54 : 72) + LABEL;
    if (called.length > MOST_CALLED) box.name += `, ${called.length - MOST_CALLED} more computations`;
    let x = (box.width - width) / 2;
    return shown.map((graph, n) => {
      const place = { graph, x: x + (widths[n] - graph.width) / 2, y: isOne ? 48 : 66, title: isOne ? "" : graph.title };
      x += widths[n] + 24;
      return place;
    });
  }

  #draw(into, nodes, edges, selected) {
    for (const edge of edges) into.append(this.#edge(edge.ways));
    for (const node of nodes) into.append(this.#node(node, node.k === selected));
  }

  // From below the label of a node, straight past what stands in between, to the top of another.
  #edge(ways) {
    let path = "";
    ways.forEach(({ x, top, bottom }, n) => {
      const last = ways[n - 1];
      const half = last && (top + last.bottom) / 2;
      path += last ? ` C${last.x},${half} ${x},${half} ${x},${top - TIP}` : `M${x},${top}`;
      path += ` V${n < ways.length - 1 ? bottom : bottom - 3}`;
    });
    return svg("path", { class: "edge", d: path, "marker-end": "url(#arrow)" });
  }

  #node(node, isSelected) {
    const left = node.x - node.width / 2;
    const top = node.y - node.height / 2;
    if (node.more) {
      return svg("text", { class: "more", x: node.x, y: node.y + 4, "text-anchor": "middle" }, `+ ${H.number(node.more)} more`);
    }
    const classes = `node ${H.kindOf(node.opcode)}${isSelected ? " selected" : ""}`;
    const group = svg("g", { class: classes, tabindex: 0, role: "button" });
    const name = this.program.name[node.k];
    group.append(
      svg("title", {}, `${name} = ${this.program.typeText(node.k)} ${this.program.opcodeOf(node.k)}`),
      svg("rect", { x: left, y: top, width: node.width, height: node.height - LABEL, rx: 7 }),
      svg("text", { class: "opcode", x: node.x, y: top + 16, "text-anchor": "middle" }, node.opcode),
      svg("text", { class: "name", x: node.x, y: top + 31, "text-anchor": "middle" }, node.name),
      svg("text", { class: "edge-label", x: node.x, y: top + node.height - 5, "text-anchor": "middle" }, node.shape),
    );
    group.addEventListener("click", () => this.choose(node.k));
    group.addEventListener("keydown", (event) => event.key === "Enter" && this.choose(node.k));
    return group;
  }
}

function arrowhead() {
  const marker = { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" };
  return svg("defs", {}, svg("marker", marker, svg("path", { class: "arrow", d: "M0,0.5 L7,4 L0,7.5 Z" })));
}

H.Graph = Graph;
