// The overview: where a step's bytes and least time go, in groups that add up, what to look at first, and its memory.

const SHEETS = { cost: "Cost", memory: "Memory" };

const BY = { group: "Equal kernels", source: "Source line", scope: "Scope", opcode: "Opcode" };

class Overview {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.by = "group";
    this.held = "group";
    this.sheets = Object.keys(SHEETS).filter((sheet) => H.has(sheet === "cost" && H.has("invalid") ? "invalid" : sheet));
    [this.sheet] = this.sheets;
    this.element = H.el("section", "overview");
  }

  // Show a sheet: the last one if none is named.
  async show(sheet = this.sheet) {
    this.sheet = sheet;
    [this.cost, this.memory, this.invalid] = await Promise.all([H.load("cost"), H.load("memory"), H.load("invalid")]);
    this.draw();
  }

  draw() {
    const sheets = this.sheets.map((sheet) => H.button(sheet === this.sheet ? "tab on" : "tab", SHEETS[sheet], () => this.show(sheet)));
    const inside = this.sheet === "memory" ? this.#memory() : this.#cost();
    H.clear(this.element, H.el("h1", "", H.head.title), sheets.length > 1 ? H.el("div", "tabs sheets", ...sheets) : null, ...inside);
  }

  #memory() {
    const regroup = (held) => {
      this.held = held;
      this.draw();
    };
    return H.memorySheet(this.memory, { by: this.held, regroup, choose: this.choose });
  }

  #cost() {
    const { cost } = this;
    if (!cost) return [this.#invalid(), H.el("p", "empty", "This page has no costs: it was written without the part `cost`.")];
    const choices = Object.entries(BY).map(([by, name]) =>
      H.button(by === this.by ? "choice on" : "choice", name, () => {
        this.by = by;
        this.draw();
      }));
    return [
      H.el("p", "facts-line", cost.about),
      H.el("div", "figures", ...cost.figures.map(([name, value]) => H.el("div", "", H.el("b", "", value), H.el("span", "note", name)))),
      this.#invalid(),
      cost.findings.length ? this.#findings() : null,
      H.el("h2", "", "Where it goes"),
      H.el("div", "orders", ...choices),
      H.leadingTable(cost.tables[this.by], this.choose),
      ...cost.notes.map((note) => H.el("p", "note", note)),
    ];
  }

  // What is wrong with the program; costs and answers leave it out.
  #invalid() {
    return this.invalid && H.el("div", "findings", H.el("h2", "", "Invalid"),
      ...this.invalid.map(({ k, text }) => H.el("p", "finding", H.el("span", "badge unknown", "error"), " ", H.button("link", text, () => this.choose(k)))));
  }

  #findings() {
    const { findings } = this.cost;
    return H.el("div", "findings", H.el("h2", "", "Worth a look"),
      ...findings.map(({ k, text, severity }) => H.el("p", "finding",
        H.el("span", severity === "error" ? "badge unknown" : "badge over", severity), " ",
        k < 0 ? text : H.button("link", text, () => this.choose(k)))));
  }
}

// Rows of text as the command prints them; a row with an instruction leads to it.
H.leadingTable = ({ header, right, rows, first, share }, choose) => {
  const isRight = new Set(right);
  const cell = (text, column, of) => {
    const element = H.el("td", isRight.has(column) ? "number" : "mono", text);
    if (!column && of !== null) element.style.setProperty("--share", `${Math.min(100, 100 * of)}%`);
    return element;
  };
  const head = header.map((title, column) => H.el("th", isRight.has(column) ? "number" : "", title));
  const body = rows.map((cells, at) => {
    const row = H.el("tr", first[at] < 0 ? "sum" : "leads", ...cells.map((text, column) => cell(text, column, share[at])));
    if (first[at] >= 0) row.addEventListener("click", () => choose(first[at]));
    return row;
  });
  return H.el("div", "wide", H.el("table", "table costs", H.el("thead", "", H.el("tr", "", ...head)), H.el("tbody", "", ...body)));
};

H.Overview = Overview;
