// Graph layout by dagre: operands are above their users, and no edge crosses a node.

// Nodes: [{ id, width, height }], edges: [{ from, to }].  Gives each node `x`, `y` (its centre), each
// edge its `ways`: where it leads straight down, at `x` from `top` to `bottom`, through what is left of
// its first layer, those that it crosses, and its last; and the size of the whole.
H.layout = (nodes, edges, { nodesep = 18, ranksep = 30 } = {}) => {
  const graph = new dagre.Graph().setGraph({ nodesep, ranksep, edgesep: 8 });
  // Of layouts that cross as few edges, dagre takes one that has the first operand on the left if the
  // last edge is told first; a name that were a number would come in the order of numbers.
  const named = (id) => `n${id}`;
  for (const { id, width, height } of nodes) graph.setNode(named(id), { width, height });
  for (const { from, to } of [...edges].reverse()) graph.setEdge(named(from), named(to), {});
  dagre.layout(graph);
  const half = new Map(); // of each layer's height, by its middle, on which dagre sets all in it
  for (const node of nodes) {
    ({ x: node.x, y: node.y } = graph.node(named(node.id)));
    half.set(node.y, Math.max(half.get(node.y) || 0, node.height / 2));
  }
  for (const edge of edges) {
    const [v, w] = [named(edge.from), named(edge.to)];
    const [from, to] = [graph.node(v), graph.node(w)];
    const between = graph.edge(v, w).points.filter(({ y }) => half.has(y));
    edge.ways = [from, ...between, to].map(({ x, y }) => ({ x, top: y - half.get(y), bottom: y + half.get(y) }));
    edge.ways[0].top = from.y + from.height / 2;
    edge.ways.at(-1).bottom = to.y - to.height / 2;
  }
  return fitted(nodes, edges);
};

// Moves all to the right of 0; dagre counts the nodes alone.
function fitted(nodes, edges) {
  const ways = edges.flatMap((edge) => edge.ways);
  const least = Math.min(...nodes.map((node) => node.x - node.width / 2), ...ways.map(({ x }) => x));
  for (const one of [...nodes, ...ways]) one.x -= least;
  return {
    width: Math.max(...nodes.map((node) => node.x + node.width / 2), ...ways.map(({ x }) => x)),
    height: Math.max(...nodes.map((node) => node.y + node.height / 2)),
  };
}
