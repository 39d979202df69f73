// The picture of a tensor: a canvas of cells.  Every one has the number of lit elements in it.

const SIDE = { least: 3, most: 15 };
const GAP = 3;
const HEIGHT = 260;
const FEW = 3; // so few lit cells get a ring

// Colours of the style, asked for once: a question would have all styles worked out anew.
const colours = new Map();

function css(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

// Pictures that are not drawn yet.  They are drawn with the next frame, however often they change
// before it, and those that can be seen first; the others when there is time.
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

// Draw what waits now: before the page is printed.
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
    this.height = Math.min(side, Math.max(SIDE.least, Math.floor(HEIGHT / Math.max(1, rows.starts.length))));
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

  // Light sets: [{ set, colour, at? }]; a set may be null where nobody knows.
  light(marks) {
    this.marks = marks;
    later(this);
    this.lit = new Map();
    for (const { set, colour } of marks) {
      if (!set) continue;
      this.grid.counts(set, (row, column, count) => {
        const key = row * this.lefts.length + column;
        const cell = this.lit.get(key) || { row, column, count: 0, colour };
        cell.count += count;
        this.lit.set(key, cell);
      });
    }
  }

  // All cells without light: drawn once, and copied then.
  #ground() {
    const colour = css("--cell");
    if (this.ground?.colour === colour) return this.ground.canvas;
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: this.canvas.width, height: this.canvas.height });
    const context = canvas.getContext("2d");
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = colour;
    context.beginPath();
    for (const y of this.tops) {
      for (const x of this.lefts) context.rect(x, y, this.side - this.line, this.height - this.line);
    }
    context.fill();
    this.ground = { colour, canvas };
    return canvas;
  }

  get line() {
    return this.side > 4 && this.height > 4 ? 1 : 0.5;
  }

  draw() {
    waiting.delete(this);
    const { line } = this;
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.#ground(), 0, 0);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    for (const { row, column, count, colour } of (this.lit || new Map()).values()) {
      const size = this.grid.size(row, column);
      context.fillStyle = css(colour);
      context.globalAlpha = 0.45 + 0.55 * Math.min(1, count / size);
      context.fillRect(this.lefts[column], this.tops[row], this.side - line, this.height - line);
    }
    context.globalAlpha = 1;
    if (this.lit?.size && this.lit.size <= FEW && this.side < 9) this.#ring(context);
    for (const { at, colour } of this.marks) {
      if (!at || !this.grid.count) continue;
      const [row, column] = this.grid.cellOf(at);
      context.strokeStyle = css(colour);
      context.lineWidth = 2;
      context.strokeRect(this.lefts[column] - 0.5, this.tops[row] - 0.5, this.side, this.height);
    }
  }

  // A ring around few small cells, which would be overlooked.
  #ring(context) {
    for (const { row, column, colour } of this.lit.values()) {
      context.strokeStyle = css(colour);
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(this.lefts[column] + this.side / 2, this.tops[row] + this.height / 2, 8, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  // How many lit elements a cell has.
  litIn(row, column) {
    return this.lit?.get(row * this.lefts.length + column)?.count || 0;
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

// The last of growing numbers that is not past a value.
function last(numbers, value) {
  if (value < 0 || !numbers.length) return -1;
  let k = numbers.length - 1;
  while (k > 0 && numbers[k] > value) k--;
  return k;
}

H.Picture = Picture;
