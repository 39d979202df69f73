// The overview: where a step's bytes and least time go, in groups that add up, and what to look at first.

const BY = { group: "Equal kernels", source: "Source line", scope: "Scope", opcode: "Opcode" };

class Overview {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.by = "group";
    this.element = H.el("section", "overview");
  }

  async show() {
    [this.cost, this.invalid] = await Promise.all([H.load("cost"), H.load("invalid")]);
    this.draw();
  }

  draw() {
    const { cost } = this;
    if (!cost) {
      H.clear(this.element, this.#invalid(), H.el("p", "empty", "This page has no costs: it was written without the part `cost`."));
      return;
    }
    const choices = Object.entries(BY).map(([by, name]) =>
      H.button(by === this.by ? "choice on" : "choice", name, () => {
        this.by = by;
        this.draw();
      }));
    H.clear(
      this.element,
      H.el("h1", "", H.head.title),
      H.el("p", "facts-line", cost.about),
      H.el("div", "figures", ...cost.figures.map(([name, value]) => H.el("div", "", H.el("b", "", value), H.el("span", "note", name)))),
      this.#invalid(),
      cost.findings.length ? this.#findings() : null,
      H.el("h2", "", "Where it goes"),
      H.el("div", "orders", ...choices),
      this.#table(cost.tables[this.by]),
      ...cost.notes.map((note) => H.el("p", "note", note)),
    );
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

  // Rows of text as the command prints them; a row with an instruction leads to it.
  #table({ header, right, rows, first, share }) {
    const isRight = new Set(right);
    const head = header.map((title, column) => H.el("th", isRight.has(column) ? "number" : "", title));
    const body = rows.map((cells, at) => {
      const row = H.el("tr", first[at] < 0 ? "sum" : "leads", ...cells.map((cell, column) => this.#cell(cell, column, isRight, share[at])));
      if (first[at] >= 0) row.addEventListener("click", () => this.choose(first[at]));
      return row;
    });
    return H.el("div", "wide", H.el("table", "table costs", H.el("thead", "", H.el("tr", "", ...head)), H.el("tbody", "", ...body)));
  }

  #cell(cell, column, isRight, share) {
    const element = H.el("td", isRight.has(column) ? "number" : "mono", cell);
    if (!column && share !== null) element.style.setProperty("--share", `${Math.min(100, 100 * share)}%`);
    return element;
  }
}

H.Overview = Overview;
