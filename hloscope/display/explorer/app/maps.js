// The maps as hloscope prints them, in three orders: by index, by index in memory, by position.

const ORDERS = [["logical", 2], ["memory", 3], ["linear", 4]];
const ABOUT = {
  logical: "logical indices, as in the program",
  memory: "indices in memory order, the slowest-varying dimension first",
  linear: "positions in memory, in elements",
};

// The text of a map: the accessed index, then the conditions.
function mapText(access) {
  if (access.text === undefined) return H.el("span", "mono", "anything");
  const [arrow, where] = access.text.split(/, domain: |,\n?domain:/);
  return H.el("span", "mono", H.el("span", "arrow", arrow), access.device ? H.el("span", "device", ` on ${access.device}`) : null,
    where ? H.el("span", "domain", where) : null);
}

const badge = (access) => H.el("span", `badge ${access.precision || "exact"}`, access.precision || "exact");

class Maps {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.order = "logical";
    this.element = H.el("div", "maps");
  }

  show(k, answer, table, output) {
    Object.assign(this, { k, answer, table, output });
    this.draw();
  }

  draw() {
    const { answer, k } = this;
    const refused = this.table?.errors?.[k];
    if (refused) return H.clear(this.element, section("Maps", H.el("p", "note", refused)));
    if (!answer) return H.clear(this.element);
    const reads = answer.reads.find(([output]) => output === this.output)?.[1] || [];
    const operands = this.program.readsOf(k);
    const outputs = this.program.typeOf(k).leaves.length;
    const parts = [];
    const name = outputs > 1 ? `output ${this.output}` : "the output";
    parts.push(section(`Reads: from an element of ${name}`, this.#orders(),
      ...(reads.length ? reads.map((row) => this.#row(row, operands)) : [H.el("p", "note", "It reads no element of any operand.")])));
    const unread = operands.length - new Set(reads.map((row) => this.table.rows[row][0])).size;
    if (unread > 0 && reads.length) parts.at(-1).append(H.el("p", "note", `not read: ${H.number(unread)} operand${unread === 1 ? "" : "s"}`));
    if (answer.reaches.length) parts.push(this.#reaches());
    if (answer.left_out) parts.push(H.el("p", "note", answer.left_out.replace(/; $/, "")));
    return H.clear(this.element, parts);
  }

  #reaches() {
    const operands = this.program.readsOf(this.k);
    const rows = this.answer.reaches.slice(0, 24).map(([operand, leaf, some]) => {
      const value = operands[operand];
      const title = H.el("div", "map-title", H.el("span", "tag operand", this.program.readName(this.k, operand, leaf)),
        H.button("link mono", this.program.name[value], () => this.choose(value)), " reaches");
      const maps = some.flatMap((row) => this.#accesses(row, `output ${this.table.rows[row][0]}`));
      return H.el("div", "map", title, ...(maps.length ? maps : [H.el("p", "note", "no element of any output")]));
    });
    return section("Reaches: from an element of an operand", ...rows);
  }

  #orders() {
    return H.el("div", "orders", ...ORDERS.map(([name]) =>
      H.button(name === this.order ? "choice on" : "choice", name, () => {
        this.order = name;
        this.draw();
      }, ABOUT[name])));
  }

  #row(row, operands) {
    const [number, leaf] = this.table.rows[row];
    const value = operands[number];
    const type = this.program.typeOf(value).leaves[leaf];
    const title = H.el("div", "map-title", H.el("span", "tag operand", this.program.readName(this.k, number, leaf)),
      H.button("link mono", this.program.name[value], () => this.choose(value)),
      H.el("span", "type mono", H.leafText(type)));
    return H.el("div", "map", title, ...this.#accesses(row));
  }

  // The accesses of a row in the chosen order; an empty memory order equals the logical one.
  #accesses(row, label = "") {
    const entry = this.table.rows[row];
    const place = ORDERS.find(([name]) => name === this.order)[1];
    const numbers = place === 3 && !entry[3].length ? entry[2] : entry[place];
    const many = this.program.typeOf(this.k).leaves.length > 1;
    return numbers.map((id, n) => {
      const access = this.table.accesses[id];
      const chip = H.el("span", "chip");
      chip.style.background = `var(${H.colourOf(n)})`;
      const line = H.el("div", "access", label ? null : chip, label && many ? H.el("span", "note", label) : null, mapText(access), badge(access));
      const notes = [
        access.reason ? H.el("p", "note reason", access.reason) : null,
        ...(access.runtime || []).map(([, lo, hi, origin]) => H.el("p", "note mono", `${origin} in [${H.number(lo)}, ${H.number(hi)}]`)),
      ];
      return H.el("div", "", line, ...notes);
    });
  }
}

function section(title, ...children) {
  return H.el("section", "section", H.el("h3", "", title), ...children);
}

H.section = section;
H.Maps = Maps;
