// Values of maps.  A map is a list of nodes, each of which refers to earlier ones; its range
// variables run over intervals, and constraints `node in [lo, hi]` hold.

// Most points that are enumerated for variables that constraints or results connect.
const MOST = 1 << 18;

const floorDiv = (a, b) => (typeof a === "bigint" ? bigFloor(a, b) : Math.floor(a / b));

function bigFloor(a, b) {
  const q = a / b;
  return a % b !== 0n && a < 0n !== b < 0n ? q - 1n : q;
}

// The value of one node; `to` converts constants to the type of `values`: number or BigInt.
function valueOf(node, values, at, to) {
  const [sign, a, b] = node;
  switch (sign) {
    case "c": return to(a);
    case "d": return at.d[a];
    case "s": return at.s[a];
    case "r": return at.r[a];
    case "/": return floorDiv(values[a], values[b]);
    case "^": return -floorDiv(-values[a], values[b]);
    case "%": return values[a] - values[b] * floorDiv(values[a], values[b]);
    case "m": return node.slice(1).reduce((least, k) => (values[k] < least ? values[k] : least), values[a]);
    case "M": return node.slice(1).reduce((most, k) => (values[k] > most ? values[k] : most), values[a]);
    case "*": return node.slice(2).reduce((product, k) => product * values[k], values[a]);
    case "+": {
      let sum = to(a);
      for (let k = 2; k < node.length; k += 2) sum += values[node[k]] * to(node[k + 1]);
      return sum;
    }
    default: throw new Error(`unknown node ${sign}`);
  }
}

// A division is exact below this: a product of two values and a quotient stay safe integers.
const isSafe = (value) => Math.abs(value) < 2 ** 52;

const number = (value) => Number(value);
const big = (value) => BigInt(value);

// Computes values of nodes as numbers; false at the first one that is not safe as a number.
function fill(nodes, at, chosen, values) {
  for (const k of chosen) {
    values[k] = valueOf(nodes[k], values, at, number);
    if (!isSafe(values[k])) return false;
  }
  return true;
}

// Values of some nodes (all if `only` is not given).  Numbers where they are safe, else BigInts.
H.evaluate = (nodes, at, only) => {
  const values = new Array(nodes.length);
  if (fill(nodes, at, only || nodes.keys(), values)) return values;
  const exactly = { d: at.d.map(big), s: at.s.map(big), r: at.r.map(big) };
  for (const k of only || nodes.keys()) values[k] = valueOf(nodes[k], values, exactly, big);
  for (const k of only || nodes.keys()) {
    if (isSafe(Number(values[k]))) values[k] = Number(values[k]);
  }
  return values;
};

const parts = (node) => {
  switch (node[0]) {
    case "c": case "d": case "s": case "r": return [];
    case "+": return node.slice(2).filter((_, k) => k % 2 === 0);
    default: return node.slice(1);
  }
};

// For each node the range variables that it depends on.
function dependencies(nodes) {
  const found = [];
  for (const node of nodes) {
    if (node[0] === "s") found.push(new Set([node[1]]));
    else found.push(new Set(parts(node).flatMap((k) => [...found[k]])));
  }
  return found;
}

// Some nodes and all that they depend on, in ascending order.
function neededFor(nodes, wanted) {
  const needed = new Set(wanted);
  for (let k = nodes.length - 1; k >= 0; k--) {
    if (needed.has(k)) for (const part of parts(nodes[k])) needed.add(part);
  }
  return [...needed].sort((a, b) => a - b);
}

const inside = (value, lo, hi) => {
  if (typeof lo === "string" || typeof hi === "string" || typeof value === "bigint") {
    return BigInt(value) >= BigInt(lo) && BigInt(value) <= BigInt(hi);
  }
  return value >= lo && value <= hi;
};

// Results and constraints that share range variables, together: each group is enumerated alone.
function groupsOf(map, depends) {
  const leader = map.ranges.map((_, k) => k);
  const find = (k) => {
    while (leader[k] !== k) k = leader[k];
    return k;
  };
  const where = map.where || [];
  for (const node of [...map.results, ...where.map((w) => w[0])]) {
    const [first, ...rest] = depends[node];
    for (const other of rest) leader[find(other)] = find(first);
  }
  const groups = new Map();
  const fixed = { variables: [], results: [], where: [] };
  const of = (node) => {
    const [first] = depends[node];
    if (first === undefined) return fixed;
    const key = find(first);
    if (!groups.has(key)) groups.set(key, { variables: [], results: [], where: [] });
    return groups.get(key);
  };
  map.results.forEach((node, dimension) => of(node).results.push([dimension, node]));
  where.forEach((constraint) => of(constraint[0]).where.push(constraint));
  map.ranges.forEach((_, k) => groups.get(find(k))?.variables.push(k));
  return [fixed, ...groups.values()];
}

// A group of one result `c * s + k` without constraints is an evenly spaced run.
function run(map, group, at) {
  if (group.variables.length !== 1 || group.results.length !== 1 || group.where.length) return null;
  const [variable] = group.variables;
  const [lo, hi] = map.ranges[variable];
  if (!Number.isSafeInteger(lo) || !Number.isSafeInteger(hi)) return null;
  const [dimension, node] = group.results[0];
  if (!isLinear(map.nodes, node, variable)) return null;
  const needed = neededFor(map.nodes, [node]);
  const valueAt = (value) => {
    const s = at.s.slice();
    s[variable] = value;
    return H.evaluate(map.nodes, { ...at, s }, needed)[node];
  };
  const first = valueAt(lo);
  const step = hi > lo ? valueAt(lo + 1) - first : 0;
  if (typeof first !== "number" || !Number.isSafeInteger(first + step * (hi - lo))) return null;
  const count = step === 0 ? 1 : hi - lo + 1;
  const least = step < 0 ? first + step * (count - 1) : first;
  return { dimensions: [dimension], run: { lo: least, step: Math.abs(step) || 1, count } };
}

// Is a node a sum of a multiple of a variable and terms without range variables?
function isLinear(nodes, k, variable) {
  const node = nodes[k];
  if (node[0] === "s") return true;
  if (node[0] !== "+") return false;
  return parts(node).every((part) => {
    if (nodes[part][0] === "s") return nodes[part][1] === variable;
    return !dependsOnRanges(nodes, part);
  });
}

const dependsOnRanges = (nodes, k) => neededFor(nodes, [k]).some((n) => nodes[n][0] === "s");

// The distinct values of a group's results over all values of its variables, as independent sides;
// `null` if there are too many.
function enumerated(map, group, at, most) {
  const sides = group.variables.map((k) => map.ranges[k].map(Number));
  const total = sides.reduce((product, [lo, hi]) => product * (hi - lo + 1), 1);
  if (!(total <= most)) return null;
  group.valuesAt ||= evaluator(map, group);
  const s = at.s.slice();
  group.variables.forEach((k, v) => (s[k] = sides[v][0]));
  const valuesAt = group.valuesAt({ ...at, s });
  const results = group.results.map(([, node]) => node);
  const found = new Map();
  for (let left = total; left > 0; left--) {
    const values = valuesAt();
    if (group.where.every(([node, lo, hi]) => inside(values[node], lo, hi))) {
      if (results.length === 1) found.set(values[results[0]], null);
      else {
        const tuple = results.map((node) => values[node]);
        found.set(tuple.join(), tuple);
      }
    }
    for (let v = sides.length - 1; v >= 0; v--) { // the next values of the variables
      const k = group.variables[v];
      if (s[k] < sides[v][1]) {
        s[k]++;
        break;
      }
      s[k] = sides[v][0];
    }
  }
  const dimensions = group.results.map(([dimension]) => dimension);
  return results.length === 1 ? [sideOf(dimensions[0], [...found.keys()])] : sidesOf(dimensions, [...found.values()]);
}

// Values of one dimension: a run if they are one.
function sideOf(dimension, values) {
  const run = spaced(values);
  return run ? { dimensions: [dimension], run } : { dimensions: [dimension], tuples: values.map((value) => [value]) };
}

// Different tuples: dimension by dimension if they are all combinations of some values of each.
function sidesOf(dimensions, tuples) {
  const sides = dimensions.map((_, n) => [...new Set(tuples.map((tuple) => tuple[n]))]);
  const combinations = sides.reduce((product, values) => product * values.length, 1);
  if (!dimensions.length || combinations !== tuples.length) return [{ dimensions, tuples }];
  return sides.map((values, n) => sideOf(dimensions[n], values));
}

// Returns a function that evaluates the nodes of a group at the current values of its variables;
// nodes that do not depend on them are evaluated once.
function evaluator(map, group) {
  const wanted = [...group.results.map(([, node]) => node), ...group.where.map(([node]) => node)];
  const needed = neededFor(map.nodes, wanted);
  const depends = dependencies(map.nodes);
  const fixed = needed.filter((k) => !depends[k].size);
  const varying = needed.filter((k) => depends[k].size);
  return (here) => {
    const values = new Array(map.nodes.length);
    const isFixed = fill(map.nodes, here, fixed, values);
    return () => (isFixed && fill(map.nodes, here, varying, values) ? values : H.evaluate(map.nodes, here, needed));
  };
}

// Different values as an evenly spaced run, if they are one: windows at an edge are.
function spaced(values) {
  if (!values.length || !values.every(Number.isSafeInteger)) return null;
  values.sort((a, b) => a - b);
  const step = values.length > 1 ? values[1] - values[0] : 1;
  return values.every((value, k) => value === values[0] + k * step) ? { lo: values[0], step, count: values.length } : null;
}

const NOTHING = { count: 0, groups: [] };

// What an access touches from `at`; `null` also where a map would divide by zero.
H.touched = (...asked) => {
  try {
    return touched(...asked);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
};

// What an access touches from `at`: groups of dimensions whose values are independent of each
// other, with the number of elements.  `null` if it is unknown, or too large to enumerate.
function touched(access, at, runtime, most = MOST) {
  if (access.empty) return NOTHING;
  if (!access.nodes) return null;
  const read = runtime || (access.runtime || []).map(([, lo]) => lo);
  const here = { d: at, s: access.ranges.map(([lo]) => Number(lo)), r: read.map(Number) };
  if (!access.dims.every(([lo, hi], k) => inside(at[k], lo, hi))) return NOTHING;
  if (!(access.runtime || []).every(([, lo, hi], k) => inside(read[k], lo, hi))) return NOTHING;
  if (!access.ranges.every(([lo, hi]) => Number(lo) <= Number(hi))) return NOTHING;
  access.groups ||= groupsOf(access, dependencies(access.nodes));
  const groups = [];
  let count = 1;
  for (const group of access.groups) {
    if (!group.results.length && !group.where.length) continue;
    const alone = run(access, group, here);
    const found = alone ? [alone] : enumerated(access, group, here, most);
    if (found === null) return null;
    const size = found.reduce((product, side) => product * (side.run ? side.run.count : side.tuples.length), 1);
    if (!size) return NOTHING;
    if (group.results.length) groups.push(...found);
    count *= group.results.length ? size : 1;
  }
  return { count, groups };
}

// The elements of a set one by one, at most `most` of them; `null` if there are more.
H.elements = (set, rank, most) => {
  if (set.count > most) return null;
  if (!set.count) return [];
  let found = [new Array(rank).fill(0)];
  for (const { dimensions, run: side, tuples } of set.groups) {
    const values = tuples || Array.from({ length: side.count }, (_, k) => [side.lo + k * side.step]);
    found = found.flatMap((point) =>
      values.map((tuple) => {
        const next = point.slice();
        dimensions.forEach((dimension, k) => (next[dimension] = tuple[k]));
        return next;
      }),
    );
  }
  return found;
};

// The sides of a set where it is a box, as slices: `[3, 0:32, 1:9:2]`.
H.boxText = (set, rank) => {
  const sides = new Array(rank).fill("?");
  for (const { dimensions, run: side, tuples } of set.groups) {
    if (side) {
      const end = side.lo + side.step * (side.count - 1) + 1;
      const step = side.step > 1 && side.count > 1 ? `:${side.step}` : "";
      sides[dimensions[0]] = side.count === 1 ? String(side.lo) : `${side.lo}:${end}${step}`;
    } else if (tuples.length === 1) {
      dimensions.forEach((dimension, k) => (sides[dimension] = String(tuples[0][k])));
    } else return null;
  }
  return `[${sides.join(", ")}]`;
};
