// The list on the left: only the visible rows are elements of the page.

const ROW = 22;
const FOUND_ROW = 40; // what a search finds: the whole name, and below it what it is and where
const CHARACTER = 7.3;
const BAR = 66; // of a group, with the room beside it
const LARGE = 0.2; // share of a scope from which on it begins unfolded
const MOST_OPENED = 400; // lines of all files, below which files begin unfolded
const EXTRA = 12;
const DEEPEST = 24;
const MOST_ROWS = 2_000_000;

// Source lines in the order of their files and numbers, scopes by cost and then by name; groups
// without a place or name come last.  A group whose only member is a group is one row with it.
function inOrder(top, byCost) {
  const isNamed = ([part]) => !part.startsWith("(no ");
  const compare = (a, b) => isNamed(b) - isNamed(a) || (byCost ? b[1].cost - a[1].cost : 0) || a[0].localeCompare(b[0], "en", { numeric: true });
  const todo = [top];
  while (todo.length) {
    const node = todo.pop();
    node.inside = new Map([...node.inside].map(([part, child]) => {
      while (child.inside.size === 1 && !child.own.length) {
        const [[further, only]] = child.inside;
        if (only.isLine) break;
        [part, child] = [`${part}/${further}`, only];
      }
      return [part, child];
    }));
    node.inside = new Map([...node.inside].sort(compare));
    todo.push(...node.inside.values());
  }
}

class Rows {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.mode = "program";
    this.open = new Set([`c${program.entry}`]);
    this.words = [];
    this.grouped = {};
    this.selected = -1;
    this.inner = H.el("div", "rows-inner");
    this.element = H.el("div", "rows", this.inner);
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "tree");
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.inner.addEventListener("click", (event) => this.#pressed(event));
    this.update();
  }

  #pressed(event) {
    const element = event.target.closest("[data-row]");
    if (!element) return;
    const row = this.list[Number(element.dataset.row)];
    if (event.target.closest(".fold") || row.k === undefined) this.toggle(row);
    else this.choose(row.k);
  }

  toggle(row) {
    if (!row.fold) return;
    if (this.open.has(row.fold)) this.open.delete(row.fold);
    else this.open.add(row.fold);
    this.update();
  }

  // Show the program, or groups by the framework's name or by the place in the source.
  async show(mode) {
    if (mode !== "program") [this.details, this.costs] = await Promise.all([H.load("details"), H.load("cost")]);
    this.mode = mode;
    this.update();
    this.reveal(this.selected);
  }

  async search(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (this.words.length && !this.details) this.details = await H.load("details");
    this.element.scrollTop = 0;
    this.update();
  }

  update() {
    this.list = this.words.length ? this.#found() : this.mode === "program" ? this.#tree() : this.#groups();
    this.row = this.words.length ? FOUND_ROW : ROW;
    this.inner.style.height = `${this.list.length * this.row}px`;
    const wide = ({ k, text = "", depth, share }) => (k === undefined ? text : this.program.name[k]).length * CHARACTER + 13 * depth + (share === undefined ? 0 : BAR);
    const widest = this.list.reduce((most, row) => Math.max(most, wide(row)), 0);
    this.inner.style.width = `max(100%, ${Math.ceil(widest) + 36}px)`; // names are whole
    this.first = null;
    this.draw();
  }

  // Computations that nothing calls, the entry first; what an instruction calls is below it.
  #tree() {
    const { program } = this;
    const list = [];
    const order = program.computations.map((_, c) => c).filter((c) => !program.callers.has(c) && c !== program.entry);
    const tops = program.entry < 0 ? [] : [program.entry, ...order];
    const add = (c, depth, path) => {
      const [name, start, count] = program.computations[c];
      const fold = `${path}c${c}`;
      list.push({ c, depth, fold, text: name, note: `${H.number(count)}` });
      if (!this.open.has(fold) || list.length > MOST_ROWS || depth > DEEPEST) return;
      for (let k = start; k < start + count; k++) {
        const called = program.calledBy(k);
        const inner = called.length ? `${fold}i${k}` : "";
        list.push({ k, depth: depth + 1, fold: inner });
        if (inner && this.open.has(inner)) called.forEach((one) => add(one, depth + 2, inner));
      }
    };
    for (const c of tops) add(c, 0, "");
    return list;
  }

  // Groups by the parts of the framework's names, or by file and line.
  #groups() {
    const list = [];
    const add = (node, depth, path) => {
      for (const [part, child] of node.inside) {
        const fold = `${path}/${part}`;
        list.push({ depth, fold, text: part, note: child.cost ? H.percent(child.cost) : "", share: child.cost, count: child.count });
        if (!this.open.has(fold)) continue;
        add(child, depth + 1, fold);
        for (const k of child.own) list.push({ k, depth: depth + 1, fold: "" });
      }
    };
    this.grouped[this.mode] ||= this.#grouped();
    add(this.grouped[this.mode], 0, `${this.mode}:`);
    return list;
  }

  #grouped() {
    const newNode = () => ({ inside: new Map(), own: [], count: 0, cost: 0 });
    const top = newNode();
    const shares = new Map(this.costs?.shares || []);
    for (let k = 0; k < this.program.count; k++) {
      let node = top;
      const share = shares.get(k) || 0;
      node.count++;
      for (const part of this.#groupOf(k)) {
        if (!node.inside.has(part)) node.inside.set(part, { ...newNode(), isLine: part.startsWith(":") });
        node = node.inside.get(part);
        node.count++;
        node.cost += share;
      }
      node.own.push(k);
    }
    inOrder(top, this.mode === "op_name");
    this.#unfoldFirst(top);
    return top;
  }

  // The groups that are unfolded at first: large scopes, and all files if they have few lines.
  #unfoldFirst(top) {
    const folds = [];
    let lines = 0;
    const todo = [[top, `${this.mode}:`]];
    while (todo.length) {
      const [node, path] = todo.pop();
      for (const [part, child] of node.inside) {
        if (child.isLine) lines++;
        if (!child.inside.size || (this.mode === "op_name" && child.cost < LARGE)) continue;
        folds.push(`${path}/${part}`);
        todo.push([child, `${path}/${part}`]);
      }
    }
    if (lines <= MOST_OPENED) folds.forEach((fold) => this.open.add(fold));
  }

  // The names of the groups that an instruction is in, the outermost first.
  #groupOf(k) {
    const { details } = this;
    if (this.mode === "op_name") {
      const name = details.op_names[details.op_name[k]];
      return name ? name.split("/").slice(0, DEEPEST) : ["(no op_name)"];
    }
    const [inner] = details.traces[details.trace[k]];
    return inner === undefined ? ["(no source)"] : fileAndLine(...details.frames[inner]);
  }

  #found() {
    const { program, details } = this;
    const fields = {
      "op:": (k) => program.opcodeOf(k),
      "name:": (k) => program.name[k],
      "in:": (k) => program.computationName(k),
      "shape:": (k) => program.typeText(k),
      "from:": (k) => details.op_names[details.op_name[k]],
      "source:": (k) => details.traces[details.trace[k]].map((f) => details.frames[f].join(" ")).join(" "),
    };
    const tests = this.words.map((word) => {
      const prefix = Object.keys(fields).find((name) => word.startsWith(name));
      if (prefix) return [word.slice(prefix.length), [fields[prefix]]];
      return [word, Object.values(fields).filter((field) => field !== fields["in:"])];
    });
    const list = [];
    for (let k = 0; k < program.count; k++) {
      if (tests.every(([word, some]) => some.some((field) => field(k).toLowerCase().includes(word)))) {
        list.push({ k, depth: 0, fold: "", where: true });
      }
    }
    return list;
  }

  draw() {
    const top = this.element.scrollTop;
    const first = Math.max(0, Math.floor(top / this.row) - EXTRA);
    const end = Math.min(this.list.length, Math.ceil((top + this.element.clientHeight) / this.row) + EXTRA);
    if (first === this.first && end === this.end) return;
    [this.first, this.end] = [first, end];
    const rows = [];
    for (let at = first; at < end; at++) rows.push(this.#row(at));
    if (!this.list.length) rows.push(H.el("p", "empty", this.words.length ? "Nothing is found." : "The program is empty."));
    this.inner.replaceChildren(...rows);
  }

  #row(at) {
    const row = this.list[at];
    const element = H.el("div", row.where ? "row found-row" : "row");
    element.dataset.row = at;
    element.style.top = `${at * this.row}px`;
    element.style.paddingLeft = `${6 + row.depth * 13}px`;
    element.setAttribute("role", "treeitem");
    if (row.fold) {
      const isOpen = this.open.has(row.fold);
      element.setAttribute("aria-expanded", isOpen);
      element.append(H.el("span", "fold", isOpen ? "▾" : "▸"));
    } else if (!row.where) element.append(H.el("span", "fold none", ""));
    element.append(...(row.k === undefined ? heading(row, this.mode) : this.#instruction(row)));
    if (row.k !== undefined && row.k === this.selected) element.classList.add("selected");
    return element;
  }

  #instruction({ k, where }) {
    const { program } = this;
    const kind = program.isFused.has(k) ? "opcode fusion" : "opcode";
    const name = H.el("span", program.isRoot(k) ? "name root" : "name", program.name[k]);
    const what = [H.el("span", kind, program.opcodeOf(k)), H.el("span", "type", program.typeText(k))];
    return where ? [name, H.el("span", "below", ...what, H.el("span", "note", `in ${program.computationName(k)}`))] : [name, ...what];
  }

  // Selects an instruction, unfolds the rows that contain it, and scrolls to it.
  reveal(k) {
    this.selected = k;
    if (k < 0) return;
    if (!this.words.length && !this.list.some((row) => row.k === k)) {
      if (this.mode === "program") this.#unfold(k);
      else this.#unfoldGroup(k);
      this.update();
    }
    const at = this.list.findIndex((row) => row.k === k);
    if (at >= 0) {
      const top = at * this.row;
      const height = this.element.clientHeight;
      if (top < this.element.scrollTop || top > this.element.scrollTop + height - this.row) {
        this.element.scrollTop = Math.max(0, top - height / 2);
      }
    }
    this.first = null;
    this.draw();
  }

  // Unfolds the callers of an instruction; of several callers, the first.
  #unfold(k) {
    const { program } = this;
    const steps = [];
    let c = program.computationOf[k];
    while (steps.length < DEEPEST) {
      const caller = program.callers.get(c)?.[0];
      steps.unshift([c, caller]);
      if (caller === undefined || c === program.entry) break;
      c = program.computationOf[caller];
    }
    let path = "";
    steps.forEach(([computation, caller], n) => {
      if (n && caller !== undefined) {
        path += `i${caller}`;
        this.open.add(path);
      }
      path += `c${computation}`;
      this.open.add(path);
    });
  }

  #unfoldGroup(k) {
    let path = `${this.mode}:`; // rows of several groups have the same path as the last of them
    for (const part of this.#groupOf(k)) this.open.add((path += `/${part}`));
  }

  // The instruction some rows further, from the selected one.
  next(step) {
    let at = this.list.findIndex((row) => row.k === this.selected && row.k !== undefined);
    do at += step;
    while (at >= 0 && at < this.list.length && this.list[at].k === undefined);
    return this.list[at]?.k;
  }

  // Fold or unfold at the selected instruction; true if that changed anything.
  fold(open) {
    const row = this.list.find((one) => one.k === this.selected && one.fold);
    if (!row || this.open.has(row.fold) === open) return false;
    this.toggle(row);
    return true;
  }

  // The number of rows that are elements of the page; it does not grow with the program.
  get drawn() { return this.inner.childElementCount; }
}

// A group with its share as a number and a bar; the tooltip states the amount.  The name of a source
// file precedes its folders, where it is seen in a narrow column.
function heading(row, mode) {
  const share = row.share === undefined ? null : H.el("span", "bar-of", H.el("span", "of", row.note));
  share?.style.setProperty("--share", `${100 * row.share}%`);
  const [, folders, file] = (mode === "source" && /^(.*\/)([^/]+\.\w+)$/.exec(row.text)) || [row.text, "", row.text];
  const head = H.el("span", "head", file);
  head.title = [folders && row.text, row.count && H.count(row.count, "instruction")].filter(Boolean).join(": ");
  return [share, head, folders ? H.el("span", "note", folders) : null, share ? null : H.el("span", "note", row.note)].filter(Boolean);
}

// `a/b.py:12` in `f` as the folders, the file, and below it the line with its function.
function fileAndLine(place, inside) {
  const at = place.lastIndexOf(":");
  const folders = (at < 0 ? place : place.slice(0, at)).split("/").slice(-DEEPEST);
  if (folders.length > 1 && !folders[0]) folders.splice(0, 2, `/${folders[1]}`);
  return at < 0 ? folders : [...folders, `${place.slice(at)}${inside ? `  ${inside}` : ""}`];
}

H.Rows = Rows;
