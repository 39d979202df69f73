// A small layout for graphs by layers: every node stands below all that it reads.

// Nodes: [{ id, width, height }], edges: [{ from, to }].  Gives each node `x`, `y` (its centre), each
// edge its `bends`, in the layers that it crosses: `x`, and from `top` to `bottom`; and the size of
// the whole.
H.layered = (nodes, edges, { gapX = 18, gapY = 48 } = {}) => {
  const at = new Map(nodes.map((node) => [node.id, node]));
  const above = new Map(nodes.map((node) => [node.id, []]));
  const below = new Map(nodes.map((node) => [node.id, []]));
  for (const { from, to } of edges) {
    if (from === to || !at.has(from) || !at.has(to)) continue;
    above.get(to).push(from);
    below.get(from).push(to);
  }
  const layers = assigned(nodes, above, below, at);
  bent(layers, edges, above, below, at);
  ordered(layers, above, below, at);
  return placed(layers, above, below, at, gapX, gapY);
};

// Layers by the longest way from a node that reads nothing; a cycle is cut where it is closed.
function assigned(nodes, above, below, at) {
  const left = new Map(nodes.map((node) => [node.id, above.get(node.id).length]));
  let ready = nodes.filter((node) => !left.get(node.id));
  for (const node of nodes) node.layer = 0;
  let seen = 0;
  while (ready.length) {
    const next = [];
    for (const node of ready) {
      seen++;
      for (const id of below.get(node.id)) {
        const user = at.get(id);
        user.layer = Math.max(user.layer, node.layer + 1);
        left.set(id, left.get(id) - 1);
        if (!left.get(id)) next.push(user);
      }
    }
    ready = next;
  }
  // What reads nothing stands just above its first user, not at the top.
  for (const node of nodes) {
    const users = below.get(node.id);
    if (!above.get(node.id).length && users.length && seen === nodes.length) {
      node.layer = Math.max(0, Math.min(...users.map((id) => at.get(id).layer)) - 1);
    }
  }
  const layers = [];
  for (const node of nodes) (layers[node.layer] ||= []).push(node);
  const filled = layers.filter(Boolean);
  filled.forEach((layer, k) => layer.forEach((node) => (node.layer = k)));
  return filled;
}

// An edge that crosses layers has a place in each of them, so that it passes beside the nodes there;
// the edges from one node share their places.
function bent(layers, edges, above, below, at) {
  for (const edge of edges) {
    edge.bends = [];
    const [a, b] = [at.get(edge.from), at.get(edge.to)];
    if (!a || !b || b.layer <= a.layer + 1) continue;
    let last = a.id;
    for (let layer = a.layer + 1; layer < b.layer; layer++) {
      const id = `${a.id}~${layer}`;
      if (!at.has(id)) {
        const bend = { id, layer, width: 2, height: 0 };
        at.set(id, bend);
        above.set(id, [last]);
        below.set(id, []);
        below.get(last).push(id);
        layers[layer].push(bend);
      }
      edge.bends.push(at.get(id));
      last = id;
    }
    below.set(a.id, below.get(a.id).filter((id) => id !== b.id));
    above.set(b.id, above.get(b.id).map((id) => (id === a.id ? last : id)));
    below.get(last).push(b.id);
  }
}

// Within layers, nodes are sorted by the middle of their neighbours, a few times down and up.
function ordered(layers, above, below, at) {
  const number = () => layers.forEach((layer) => layer.forEach((node, k) => (node.rank = k / Math.max(1, layer.length - 1) || 0)));
  number();
  const sweep = (some, neighbours) => {
    for (const layer of some) {
      for (const node of layer) {
        const ranks = neighbours.get(node.id).map((id) => at.get(id).rank);
        node.wish = ranks.length ? ranks.reduce((a, b) => a + b, 0) / ranks.length : node.rank;
      }
      layer.sort((a, b) => a.wish - b.wish);
      layer.forEach((node, k) => (node.rank = layer.length > 1 ? k / (layer.length - 1) : node.wish));
    }
  };
  for (let round = 0; round < 4; round++) {
    sweep(layers.slice(1), above);
    sweep(layers.slice(0, -1).reverse(), below);
  }
}

// Positions: layers from the top, each node near the middle of its neighbours, none over another.
function placed(layers, above, below, at, gapX, gapY) {
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => node.height));
    let x = 0;
    for (const node of layer) {
      node.x = x + node.width / 2;
      node.y = y + height / 2;
      node.top = y;
      node.bottom = y + height;
      x += node.width + gapX;
    }
    y += height + gapY;
    const shift = (x - gapX) / 2;
    for (const node of layer) node.x -= shift;
  }
  const pull = (some, neighbours) => {
    for (const layer of some) {
      for (const node of layer) {
        const xs = neighbours.get(node.id).map((id) => at.get(id).x);
        if (xs.length) node.x = xs.reduce((a, b) => a + b, 0) / xs.length;
      }
      spread(layer, gapX);
    }
  };
  for (let round = 0; round < 3; round++) {
    pull(layers.slice(1), above);
    pull(layers.slice(0, -1).reverse(), below);
  }
  const all = layers.flat();
  const least = Math.min(0, ...all.map((node) => node.x - node.width / 2));
  for (const node of all) node.x -= least;
  return {
    width: Math.max(0, ...all.map((node) => node.x + node.width / 2)),
    height: Math.max(0, y - gapY),
  };
}

// Moves the nodes of a layer apart, and the whole back to where it wanted to be.
function spread(layer, gap) {
  const wished = layer.reduce((sum, node) => sum + node.x, 0);
  for (let k = 1; k < layer.length; k++) {
    const least = layer[k - 1].x + (layer[k - 1].width + layer[k].width) / 2 + gap;
    if (layer[k].x < least) layer[k].x = least;
  }
  const shift = (layer.reduce((sum, node) => sum + node.x, 0) - wished) / Math.max(1, layer.length);
  for (const node of layer) node.x -= shift;
}
