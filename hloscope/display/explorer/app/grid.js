// The picture of a tensor: a canvas of cells.  Every one has the number of lit elements in it.

const SIDE = { least: 3, most: 15 };
const GAP = 3;
const HEIGHT = 260;
const FLAT = { rows: 8, height: 10 }; // cells of so few rows are at least so high, to be pointed at
const FEW = 3; // so few lit cells get a ring

// Cached colours of the style: reading one makes the browser compute all styles again.
const colours = new Map();

function css(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

// Pictures to draw.  Those in view are drawn once in the next frame, however often they changed
// before it; the others when the browser is idle.
const waiting = new Set();
const idle = (use) => (window.requestIdleCallback || setTimeout)(use, window.requestIdleCallback ? { timeout: 200 } : 30);
let isAsked = false;

function later(picture) {
  waiting.add(picture);
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    for (const one of waiting) if (!one.canvas.isConnected) waiting.delete(one);
    const seen = [...waiting].filter((one) => {
      const { top, bottom } = one.canvas.getBoundingClientRect();
      return bottom > top && bottom > 0 && top < window.innerHeight;
    });
    for (const one of seen) one.draw();
    if (waiting.size) idle(next);
  });
}

function next() {
  const [one] = waiting;
  one?.draw();
  if (waiting.size) idle(next);
}

// Draws all waiting pictures at once, before the page is printed.
H.drawNow = () => [...waiting].forEach((one) => one.draw());

// Draw pictures in other colours.
H.recolour = (pictures) => {
  colours.clear();
  for (const one of pictures) one.draw();
};

class Picture {
  // `over(at, event)` is called while the pointer is over an element, `press(at)` when it is chosen.
  constructor(shape, { over, press, width = 360 }) {
    this.grid = new H.Grid(shape);
    this.marks = [];
    this.canvas = H.el("canvas", "grid");
    this.canvas.setAttribute("role", "img");
    this.#measure(width);
    if (this.grid.count) {
      this.canvas.addEventListener("pointermove", (event) => over(this.#under(event), event));
      this.canvas.addEventListener("pointerleave", (event) => over(null, event));
      this.canvas.addEventListener("click", (event) => {
        const cell = this.#under(event);
        if (cell) press(cell.at);
      });
    }
  }

  #measure(width) {
    const { rows, columns } = this.grid;
    const across = columns.starts.length;
    const room = width - columns.gaps.size * GAP;
    const side = Math.max(SIDE.least, Math.min(SIDE.most, Math.floor(room / Math.max(1, across))));
    this.side = side;
    this.lefts = positions(columns, side);
    const tallest = rows.starts.length > FLAT.rows ? side : Math.max(side, FLAT.height);
    this.height = Math.min(tallest, Math.max(SIDE.least, Math.floor(HEIGHT / Math.max(1, rows.starts.length))));
    this.tops = positions(rows, this.height);
    this.width = (this.lefts.at(-1) ?? 0) + side;
    this.tall = (this.tops.at(-1) ?? 0) + this.height;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, (this.width + 1) * scale);
    this.canvas.height = Math.max(1, (this.tall + 1) * scale);
    this.canvas.style.width = `${this.width + 1}px`;
    this.canvas.style.height = `${this.tall + 1}px`;
    this.scale = scale;
  }

  #under(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = last(this.lefts, event.clientX - box.left);
    const row = last(this.tops, event.clientY - box.top);
    if (column < 0 || row < 0) return null;
    return { row, column, at: this.grid.elementOf(row, column), size: this.grid.size(row, column) };
  }

  // Light sets: [{ set, colour, at? }]; a set is null if it is unknown.  A cell that several
  // sets light has the colour of the first.
  light(marks) {
    this.marks = marks;
    later(this);
    const across = this.lefts.length;
    this.counts ||= new Float64Array(across * this.tops.length);
    this.owners ||= new Uint32Array(this.counts.length);
    if (this.litCells) this.counts.fill(0);
    this.litCells = 0;
    marks.forEach(({ set }, n) => {
      if (!set) return;
      this.grid.counts(set, (row, column, count) => {
        const cell = row * across + column;
        if (!this.counts[cell]) {
          this.litCells++;
          this.owners[cell] = n;
        }
        this.counts[cell] += count;
      });
    });
  }

  get line() {
    if (this.side > 4 && this.height > 4) return 1;
    return this.scale > 1 ? 0.5 : 0; // half a pixel would be a paler one
  }

  // Draws the cells as areas, then the lines between them.  The canvas is not cleared: in a printed
  // PDF each clearing nests a form in a form, and viewers refuse deep nesting.
  draw() {
    waiting.delete(this);
    const context = this.canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = css("--panel");
    context.fillRect(0, 0, this.width + 1, this.tall + 1);
    context.fillStyle = css("--cell");
    context.fillRect(0, 0, this.width, this.tall);
    for (const { row, rows, column, columns, colour, share } of this.litAreas()) {
      context.fillStyle = css(colour);
      context.globalAlpha = 0.45 + 0.55 * share;
      const [x, y] = [this.lefts[column], this.tops[row]];
      context.fillRect(x, y, this.lefts[column + columns - 1] + this.side - x, this.tops[row + rows - 1] + this.height - y);
    }
    context.globalAlpha = 1;
    this.#lines(context);
    if (this.litCells && this.litCells <= FEW && Math.max(this.side, this.height) < 9) this.#rings(context);
    for (const { at, colour } of this.marks) {
      if (!at || !this.grid.count) continue;
      const [row, column] = this.grid.cellOf(at);
      context.strokeStyle = css(colour);
      context.lineWidth = 2;
      context.strokeRect(this.lefts[column] - 0.5, this.tops[row] - 0.5, this.side, this.height);
    }
  }

  // Adjacent cells of one colour and share as areas: runs within a row, joined with equal runs of
  // the rows below.
  litAreas() {
    const across = this.lefts.length;
    const done = [];
    let open = new Map(); // areas that reach the row before, by where they begin
    for (let row = 0; this.litCells && row < this.tops.length; row++) {
      const here = new Map();
      for (let column = 0; column < across; ) {
        const cell = row * across + column;
        if (!this.counts[cell]) {
          column++;
          continue;
        }
        const owner = this.owners[cell];
        const share = this.#share(row, column);
        let columns = 1;
        while (column + columns < across && this.#isLike(row, column + columns, owner, share)) columns++;
        const above = open.get(column);
        const grows = above && above.columns === columns && above.owner === owner && above.share === share;
        const area = grows ? above : { row, rows: 0, column, columns, owner, share, colour: this.marks[owner].colour };
        area.rows++;
        if (!grows) done.push(area);
        here.set(column, area);
        column += columns;
      }
      open = here;
    }
    return done;
  }

  #isLike(row, column, owner, share) {
    const cell = row * this.lefts.length + column;
    return this.counts[cell] > 0 && this.owners[cell] === owner && this.#share(row, column) === share;
  }

  // The share of a cell's elements that is lit.
  #share(row, column) {
    return Math.min(1, this.counts[row * this.lefts.length + column] / this.grid.size(row, column));
  }

  #lines(context) {
    const { line } = this;
    context.fillStyle = css("--panel");
    this.lefts.forEach((x, k) => {
      const end = x + this.side - line;
      context.fillRect(end, 0, (this.lefts[k + 1] ?? this.width) - end, this.tall);
    });
    this.tops.forEach((y, k) => {
      const end = y + this.height - line;
      context.fillRect(0, end, this.width, (this.tops[k + 1] ?? this.tall) - end);
    });
  }

  // Draws a ring around a few small lit cells, so that they are found.
  #rings(context) {
    for (const { row, rows, column, columns, colour } of this.litAreas()) {
      for (let r = row; r < row + rows; r++) for (let c = column; c < column + columns; c++) this.#ring(context, r, c, colour);
    }
  }

  #ring(context, row, column, colour) {
    context.strokeStyle = css(colour);
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(this.lefts[column] + this.side / 2, this.tops[row] + this.height / 2, 8, 0, 2 * Math.PI);
    context.stroke();
  }

  // How many lit elements a cell has, and all cells together.
  litIn(row, column) {
    return this.litCells ? this.counts[row * this.lefts.length + column] : 0;
  }

  get litElements() {
    return this.litCells ? this.counts.reduce((sum, count) => sum + count, 0) : 0;
  }
}

function positions(axis, side) {
  let at = 0;
  return axis.starts.map((_, block) => {
    if (axis.gaps.has(block)) at += GAP;
    const here = at;
    at += side;
    return here;
  });
}

// Index of the last of some ascending numbers that is at most a value.
function last(numbers, value) {
  if (value < 0 || !numbers.length) return -1;
  let k = numbers.length - 1;
  while (k > 0 && numbers[k] > value) k--;
  return k;
}

H.Picture = Picture;
