// The first screen: the program, its highest costs, its memory at the peak, changes to make.

const BY = { group: "Equal kernels", source: "Source line", scope: "Scope", opcode: "Opcode" };
const HELD_BY = { group: "Like buffers", source: "Source line", scope: "Scope", kind: "Kind" };
const FIRST_ROWS = 7; // of the table, until all rows are requested
const LONG = 24; // characters of a cell that may be cut
const SUMS = 2; // lines about a program without a schedule: the reason, and the sums; arrays follow
const MOST_LEGEND = 6;
const BRIEF = ["share", "limited by", "unused", "source", "what"]; // columns next to the total
const HELD = ["share", "source", "what", "kind", "buffers", "lives", "cumulated", "type"]; // what is long comes last

class Overview {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.by = "group";
    this.heldBy = "group";
    this.isWhole = false; // are all rows and columns of the costs shown?
    this.element = H.el("section", "overview");
  }

  get isThere() { return ["cost", "memory", "invalid"].some(H.has); }

  async show() {
    const parts = ["about", "cost", "memory", "invalid"];
    [this.about, this.cost, this.memory, this.invalid] = await Promise.all(parts.map(H.load));
    this.draw();
  }

  draw() {
    const { cost, memory } = this;
    const costs = cost ? this.#costs() : H.el("p", "empty", "This page has no costs: it was written without the part `cost`.");
    H.clear(
      this.element,
      H.el("h1", "", H.head.title),
      this.#verdict(),
      H.el("dl", "what", ...this.about.map(([name, value]) => H.el("div", "", H.el("dt", "", name), H.el("dd", "", value)))),
      cost && H.el("div", "figures", ...cost.figures.map(([name, value]) => H.el("div", "", H.el("b", "", value), " ", H.el("span", "note", name)))),
      this.#invalid(),
      H.el("div", this.isWhole || !memory?.picture ? "sheet whole" : "sheet",
        H.el("section", "", costs, cost?.findings.length ? this.#findings() : null),
        memory?.picture ? H.el("section", "memory", H.el("h2", "", "Memory over the schedule"), H.picture(memory.picture, this.choose), legend(memory.picture.legend)) : null),
      ...(memory ? this.#held() : []),
      ...(cost ? cost.notes.map((note) => H.el("p", "note", note)) : []),
    );
  }

  #choices(names, chosen, choose) {
    const button = ([by, name]) => H.button(by === chosen ? "choice on" : "choice", name, () => {
      choose(by);
      this.draw();
    });
    return H.el("div", "orders", ...Object.entries(names).map(button));
  }

  #costs() {
    const table = this.cost.tables[this.by];
    const turn = () => {
      this.isWhole = !this.isWhole;
      this.draw();
    };
    const title = `Highest costs: ${table.header[0] === "bound" ? "time bound" : "bytes"}`;
    return [
      H.el("h2", "", title),
      this.#choices(BY, this.by, (by) => (this.by = by)),
      H.leadingTable(this.isWhole ? table : brief(table), this.choose),
      H.button("link", this.isWhole ? "fewer" : table.rows.length > FIRST_ROWS + 1 ? `all ${table.rows.length - 1} rows with all columns` : "all columns", turn),
    ];
  }

  // The group with the highest cost, and the memory peak with its source line.
  #verdict() {
    const lines = [];
    const table = this.cost?.tables.group;
    if (table?.rows.length && table.first[0] >= 0) {
      const of = (title) => table.rows[0][table.header.indexOf(title)] || "";
      const [amount, share, name, source] = [table.rows[0][0], of("share"), of("what"), of("source")];
      const link = H.button("link mono", name, () => this.choose(table.first[0]));
      lines.push(["highest cost", H.el("span", "", link, H.el("span", "", ` ${share} of ${table.header[0] === "bound" ? "the time bound" : "the bytes"}, ${amount}${source ? ` (${source})` : ""}`))]);
    }
    const { lines: held = [], peak } = this.memory || {};
    held.slice(0, peak === undefined ? SUMS : held.length).forEach((line, n) => {
      const [, title, text] = /^(peak|to do): (.*)$/.exec(line) || ["", n ? "" : "memory", line];
      lines.push([title, title === "peak" && peak >= 0 ? H.button("link", text, () => this.choose(peak)) : text]);
    });
    return H.el("dl", "verdict", ...lines.flatMap(([title, text]) => [H.el("dt", "", title), H.el("dd", "", text)]));
  }

  #held() {
    const { lines, peak, tables, answers, notes } = this.memory;
    return [
      ...(peak === undefined ? lines.slice(SUMS) : []).map((line) => H.el("p", "note", line)),
      ...(tables ? [H.el("h2", "peak-holders", "Buffers at the peak"), this.#choices(HELD_BY, this.heldBy, (by) => (this.heldBy = by)), H.leadingTable(picked(tables[this.heldBy], HELD), this.choose)] : []),
      answers.length ? H.el("h2", "", "What lowers the peak") : null,
      ...answers.map((line) => H.el("p", "finding", line)),
      ...notes.map((note) => H.el("p", "note", note)),
    ];
  }

  // The invalid instructions, which costs and other results leave out.
  #invalid() {
    return this.invalid && H.el("div", "findings", H.el("h2", "", "Invalid"),
      ...this.invalid.map(({ k, text }) => H.el("p", "finding", H.el("span", "badge unknown", "error"), " ", H.button("link", text, () => this.choose(k)))));
  }

  #findings() {
    return H.el("div", "findings", H.el("h2", "", "Findings, largest share first"),
      ...this.cost.findings.map(({ k, text, kind, severity, to_do: toDo }) => H.el("div", "finding",
        H.el("span", severity === "error" ? "badge unknown" : "badge over", kind),
        H.el("div", "", k < 0 ? text : H.button("link", text, () => this.choose(k)), H.el("div", "note", toDo)))));
  }
}

// The first column of a table, and those with these titles in their order.
function picked(table, titles) {
  const columns = [0, ...titles.map((title) => table.header.indexOf(title)).filter((at) => at > 0)];
  return {
    ...table,
    header: columns.map((at) => table.header[at]),
    right: columns.flatMap((at, n) => (table.right.includes(at) ? [n] : [])),
    rows: table.rows.map((row) => columns.map((at) => row[at])),
  };
}

// The first rows of a table and the sum, with the most important columns and the short names.
function brief(table) {
  const { rows, first, share, short, ...titles } = picked(table, BRIEF);
  const shown = [...rows.keys()].filter((at) => at < FIRST_ROWS || at === rows.length - 1);
  return {
    ...titles,
    rows: shown.map((at) => rows[at].map((text, n) => (titles.header[n] === "what" ? short[at] : text))),
    first: shown.map((at) => first[at]),
    share: shown.map((at) => share[at]),
  };
}

// The meaning of the colours of the picture, with the bytes at the peak.
function legend(parts) {
  const rows = parts.slice(0, MOST_LEGEND).map(([colour, amount, part]) => {
    const chip = H.el("span", "chip");
    chip.style.background = colour || "var(--soft)";
    return H.el("div", "", chip, H.el("b", "", amount), H.el("span", "mono", part));
  });
  const left = parts.length - rows.length;
  return H.el("div", "legend", ...rows, left > 0 ? H.el("span", "note", `and ${left} lines more`) : null);
}

// The shapes of the picture, as `hloscope memory --format svg` draws them; one with an instruction leads to it.
H.picture = ({ title, width, height, shapes }, choose) => {
  const drawn = shapes.map(([tag, attributes, text, tip, k]) => {
    const shape = H.svg(tag, attributes, ...(tip ? [H.svg("title", {}, tip)] : []), text);
    if (k < 0) return shape;
    shape.classList.add("leads");
    shape.addEventListener("click", () => choose(k));
    return shape;
  });
  return H.svg("svg", { class: "hm", role: "img", viewBox: `0 0 ${width} ${height}` }, H.svg("title", {}, title), ...drawn);
};

// Rows of text as the command prints them; a row with an instruction leads to it.
H.leadingTable = ({ header, right, rows, first, share }, choose) => {
  const isRight = new Set(right);
  const largest = Math.max(...share) || 1; // its bar is as long as there is room
  const cell = (text, column, of) => {
    const element = H.el("td", isRight.has(column) ? "number" : "mono", text);
    if (text.length > LONG) element.title = text;
    if (!column && of !== null) element.style.setProperty("--share", `${(100 * of) / largest}%`);
    return element;
  };
  const head = header.map((title, column) => H.el("th", isRight.has(column) ? "number" : "", title));
  const body = rows.map((cells, at) => {
    const row = H.el("tr", first[at] < 0 ? "sum" : "leads", ...cells.map((text, column) => cell(text, column, share[at])));
    if (first[at] < 0) return row;
    row.tabIndex = 0;
    row.addEventListener("click", () => choose(first[at]));
    row.addEventListener("keydown", (event) => event.key === "Enter" && choose(first[at]));
    return row;
  });
  return H.el("div", "wide", H.el("table", "table costs", H.el("thead", "", H.el("tr", "", ...head)), H.el("tbody", "", ...body)));
};

H.Overview = Overview;
