// A tensor on two axes.  The last dimension runs along columns, the one before along rows, the one
// before that along columns again, so a tensor of many dimensions is a table of tables.  Long axes
// are cut into blocks; the touched elements of a block are counted exactly.

const MOST_COLUMNS = 72;
const MOST_ROWS = 48;

// One axis: its dimensions, the slowest-varying first, and where its blocks begin and end.
function axis(dimensions, shape, most) {
  const sizes = dimensions.map((d) => shape[d]);
  const length = sizes.reduce((a, b) => a * b, 1);
  const inner = sizes.length ? sizes[sizes.length - 1] : 1;
  const outer = inner ? length / inner : 0;
  const starts = [];
  const gaps = new Set(); // blocks before which a new round of the inner dimension begins
  if (outer > 1 && outer < most && inner > 1) {
    const perRound = Math.max(1, Math.floor(most / outer));
    const step = Math.ceil(inner / perRound);
    for (let round = 0; round < outer; round++) {
      if (round) gaps.add(starts.length);
      for (let k = 0; k < inner; k += step) starts.push(round * inner + k);
    }
  } else {
    let step = Math.max(1, Math.ceil(length / most));
    if (step > inner && inner > 1) step = inner * Math.ceil(step / inner);
    for (let k = 0; k < length; k += step) starts.push(k);
  }
  return { dimensions, sizes, length, starts, gaps };
}

const end = (some, block) => (block + 1 < some.starts.length ? some.starts[block + 1] : some.length);

// The block in which a position of an axis lies.
function blockOf(some, position) {
  let lo = 0;
  let hi = some.starts.length - 1;
  while (lo < hi) {
    const middle = (lo + hi + 1) >> 1;
    if (some.starts[middle] <= position) lo = middle;
    else hi = middle - 1;
  }
  return lo;
}

// How many positions below `limit` have, in every dimension, a value of an evenly spaced run.
function countBelow(some, runs, limit) {
  if (limit >= some.length) return runs.reduce((product, run) => product * run.count, 1);
  let count = 0;
  let rest = limit;
  for (let k = 0; k < some.sizes.length; k++) {
    const inner = some.sizes.slice(k + 1).reduce((a, b) => a * b, 1);
    const digit = Math.floor(rest / inner);
    rest -= digit * inner;
    const after = runs.slice(k + 1).reduce((product, run) => product * run.count, 1);
    count += lessThan(runs[k], digit) * after;
    if (!holds(runs[k], digit)) return count;
  }
  return count;
}

const lessThan = ({ lo, step, count }, value) => Math.min(count, Math.max(0, Math.ceil((value - lo) / step)));
const holds = ({ lo, step, count }, value) =>
  value >= lo && value <= lo + step * (count - 1) && (value - lo) % step === 0;

class Grid {
  constructor(shape) {
    this.shape = shape;
    const columns = [];
    const rows = [];
    for (let d = shape.length - 1, toColumns = true; d >= 0; d--, toColumns = !toColumns) {
      (toColumns ? columns : rows).unshift(d);
    }
    this.columns = axis(columns, shape, MOST_COLUMNS);
    this.rows = axis(rows, shape, MOST_ROWS);
    this.count = shape.reduce((a, b) => a * b, 1);
  }

  get isBlocked() {
    return this.columns.starts.length < this.columns.length || this.rows.starts.length < this.rows.length;
  }

  // The cell of an element: its block of rows and its block of columns.
  cellOf(at) {
    const position = (some) => some.dimensions.reduce((sum, d) => sum * this.shape[d] + at[d], 0);
    return [blockOf(this.rows, position(this.rows)), blockOf(this.columns, position(this.columns))];
  }

  // The first element of a cell, and how many it has.
  elementOf(row, column) {
    const at = new Array(this.shape.length).fill(0);
    const fill = (some, position) => {
      for (let k = some.dimensions.length - 1; k >= 0; k--) {
        at[some.dimensions[k]] = position % some.sizes[k];
        position = Math.floor(position / some.sizes[k]);
      }
    };
    fill(this.rows, this.rows.starts[row]);
    fill(this.columns, this.columns.starts[column]);
    return at;
  }

  size(row, column) {
    const of = (some, block) => end(some, block) - some.starts[block];
    return of(this.rows, row) * of(this.columns, column);
  }

  // How many elements of a set lie in each cell: `use(row, column, count)`.
  counts(set, use) {
    for (const runs of boxesOf(set, this.shape.length)) {
      const one = runs.every((run) => run.count === 1);
      if (one) {
        const at = runs.map((run) => run.lo);
        if (at.every((value, d) => value >= 0 && value < this.shape[d])) use(...this.cellOf(at), 1);
        continue;
      }
      const rows = along(this.rows, runs);
      const columns = along(this.columns, runs);
      for (const [row, a] of rows) for (const [column, b] of columns) use(row, column, a * b);
    }
  }
}

// Blocks of an axis that contain positions, with the number of positions.
function along(some, runs) {
  const mine = some.dimensions.map((d) => runs[d]);
  const found = [];
  const least = mine.reduce((sum, run, k) => sum * some.sizes[k] + Math.max(0, run.lo), 0);
  let below = countBelow(some, mine, some.starts[blockOf(some, least)] ?? 0);
  for (let block = blockOf(some, least); block < some.starts.length; block++) {
    const upTo = countBelow(some, mine, end(some, block));
    if (upTo > below) found.push([block, upTo - below]);
    below = upTo;
  }
  return found;
}

// A set as boxes: for each, an evenly spaced run along every dimension.
function* boxesOf(set, rank) {
  const sides = new Array(rank).fill(null);
  const point = (value) => ({ lo: Number(value), step: 1, count: 1 });
  const groups = set.groups;
  function* from(k) {
    if (k === groups.length) {
      yield sides.slice();
      return;
    }
    const { dimensions, run, tuples } = groups[k];
    if (run) {
      sides[dimensions[0]] = run;
      yield* from(k + 1);
      return;
    }
    for (const tuple of tuples) {
      dimensions.forEach((dimension, n) => (sides[dimension] = point(tuple[n])));
      yield* from(k + 1);
    }
  }
  if (set.count) yield* from(0);
}

H.Grid = Grid;

// The sizes of a tensor, or null if they are unknown.
H.shapeOf = (leaf) => {
  const sizes = leaf && leaf[1];
  return sizes && sizes.every(Number.isSafeInteger) ? sizes : null;
};

// Is the number of elements a safe integer? Otherwise the tensor is not drawn.
H.canCount = (shape) => Number.isSafeInteger(shape.reduce((a, b) => a * b, 1));

// A tensor as text: `f32[8,128]{0,1}`.
H.leafText = (leaf) => {
  if (!leaf) return "?";
  const [element, sizes, , layout] = leaf;
  return sizes ? `${element}[${sizes.map((n) => n ?? "?").join(",")}]${layout || ""}` : element;
};
