// The elements: a card for the selected output, and one for each tensor that it reads.

const COLOURS = ["--lit1", "--lit2", "--lit3", "--lit4"];
const MOST_CARDS = 12;
const MOST_UNION = 1 << 16;

const colourOf = (k) => COLOURS[k % COLOURS.length];

class Elements {
  // `pinned(asked)` is called when an element is chosen.
  constructor(program, { pinned, choose }) {
    this.program = program;
    this.pinned = pinned;
    this.choose = choose;
    this.element = H.el("div", "elements");
    this.runtime = new Map();
  }

  // Shows an instruction; `asked` is an element of an output or operand.
  show(k, answer, table, asked) {
    this.k = k;
    this.answer = answer;
    this.table = table;
    this.runtime.clear();
    this.cards = [];
    if (!answer) {
      H.clear(this.element, H.el("p", "empty", H.has("answers") ? "It reads nothing." : "Maps were left out of this page."));
      return;
    }
    this.outputs = this.program.typeOf(k).leaves;
    this.output = asked?.output ?? 0;
    this.#build();
    this.pin(asked || this.#middle(), { quietly: true });
  }

  #middle() {
    const shape = H.shapeOf(this.outputs[this.output]);
    return { output: this.output, at: shape ? shape.map((size) => Math.floor(size / 2)) : [] };
  }

  // Operands, then captured values; of a tuple only the tensors that are read.
  #operands() {
    const reads = this.answer.reads.find(([output]) => output === this.output)?.[1] || [];
    const touched = reads.map((row) => this.table.rows[row]);
    const operands = this.program.readsOf(this.k);
    const found = touched.map(([number, leaf]) => ({ number, leaf }));
    operands.forEach((o, number) => {
      const tensors = this.program.typeOf(o).leaves.length;
      if (tensors === 1 && !found.some((one) => one.number === number)) found.push({ number, leaf: 0 });
    });
    return found.sort((a, b) => a.number - b.number || a.leaf - b.leaf);
  }

  #build() {
    const head = H.el("div", "cards");
    const room = this.element.clientWidth - 30; // two cards side by side if they fit
    const width = room > 560 ? Math.floor(room / 2) - 34 : Math.max(200, room - 40);
    const own = this.#card("output", this.output, 0, this.k, this.outputs[this.output], width);
    head.append(own.element);
    const operands = this.#operands();
    for (const { number, leaf } of operands.slice(0, MOST_CARDS)) {
      const value = this.program.readsOf(this.k)[number];
      const type = this.program.typeOf(value).leaves[leaf];
      head.append(this.#card("operand", number, leaf, value, type, width).element);
    }
    const left = operands.length - MOST_CARDS;
    this.colours = H.el("div", "colours");
    H.clear(
      this.element,
      this.outputs.length > 1 ? this.#chooser() : null,
      this.colours,
      head,
      left > 0 ? H.el("p", "note", `and ${H.number(left)} tensors more`) : null,
    );
  }

  // A field to choose one of several outputs.
  #chooser() {
    const field = H.el("input", "small");
    Object.assign(field, { type: "number", min: 0, max: this.outputs.length - 1, value: this.output });
    field.addEventListener("change", () => {
      const output = Math.max(0, Math.min(this.outputs.length - 1, Number(field.value) || 0));
      this.pinned({ output, at: null });
    });
    return H.el("p", "chooser", "Output ", field, ` of ${H.number(this.outputs.length)}`);
  }

  #card(what, number, leaf, k, type, width) {
    const shape = H.shapeOf(type);
    const title = H.el("div", "card-title",
      H.el("span", `tag ${what}`, what === "output" ? (this.outputs.length > 1 ? `output ${number}` : "output") : this.program.readName(this.k, number, leaf)),
      H.button("link mono", this.program.name[k], () => this.choose(k)),
      H.el("span", "type mono", H.leafText(type)),
    );
    const said = H.el("div", "said");
    const card = { what, number, leaf, shape, said, type };
    card.element = H.el("section", `card ${what}`, title);
    if (shape && !shape.includes(0)) {
      if (H.canCount(shape)) this.#picture(card, width);
      else card.element.append(H.el("p", "note", "It has too many elements to be drawn."));
      if (what === "output" || this.#reaches(card)) card.element.append(this.#fields(card));
    } else if (shape) card.element.append(H.el("p", "note", "It has no elements."));
    else card.element.append(H.el("p", "note", type && type[1] ? "Its sizes are unknown before the program runs." : "It is not a tensor."));
    card.element.append(said);
    this.cards.push(card);
    return card;
  }

  #picture(card, width) {
    card.picture = new H.Picture(card.shape, {
      width,
      over: (cell) => this.#over(card, cell),
      press: (at) => this.pin(this.#askedAt(card, at)),
    });
    card.where = H.el("div", "where");
    card.element.append(card.picture.canvas, card.where);
  }

  // Number fields for the index of an element.
  #fields(card) {
    card.fields = card.shape.map((size, d) => {
      const field = H.el("input", "index");
      Object.assign(field, { type: "number", min: 0, max: size - 1, placeholder: `d${d}` });
      field.setAttribute("aria-label", `dimension ${d}`);
      field.addEventListener("input", () => {
        const at = card.fields.map((one, n) => Math.max(0, Math.min(card.shape[n] - 1, Math.trunc(Number(one.value)) || 0)));
        this.pin(this.#askedAt(card, at));
      });
      return field;
    });
    return H.el("div", "index-row", "element (", ...card.fields.flatMap((field, d) => (d ? [", ", field] : [field])), ")");
  }

  #askedAt(card, at) {
    if (card.what === "output") return { output: this.output, at };
    return { output: this.output, operand: card.number, leaf: card.leaf, at };
  }

  #reaches(card) {
    return this.answer.reaches.find(([operand, leaf]) => operand === card.number && leaf === card.leaf);
  }

  // The pointer entered another cell, or left the picture (`cell` is null).
  #over(card, cell) {
    const out = cell === null;
    const over = out ? null : cell.row * card.picture.lefts.length + cell.column;
    if (over === card.over) return;
    card.over = over;
    card.where.textContent = out ? "" : this.#cellText(card, cell);
    if (out) this.#light(this.asked);
    else this.#light(this.#askedAt(card, cell.at), { transient: true });
  }

  #cellText(card, { row, column, at, size }) {
    const index = `(${at.join(", ")})`;
    if (size === 1) return index;
    const lit = card.picture.litIn(row, column);
    return `from ${index}: ${H.number(size)} elements${lit ? `, ${H.number(lit)} lit` : ""}`;
  }

  // Chooses an element: it stays lit, and the page's address contains it.
  pin(asked, { quietly = false } = {}) {
    this.asked = asked;
    this.#light(asked);
    if (!quietly) this.pinned(asked);
  }

  // Move the chosen element along its last dimensions.
  move(rows, columns) {
    const card = this.#cardOf(this.asked);
    if (!card?.shape?.length) return;
    const at = this.asked.at.slice();
    const step = (d, by) => {
      if (d >= 0) at[d] = Math.max(0, Math.min(card.shape[d] - 1, at[d] + by));
    };
    step(at.length - 1, columns);
    step(at.length - 2, rows);
    this.pin({ ...this.asked, at });
  }

  #cardOf(asked) {
    if (asked.operand === undefined) return this.cards[0];
    return this.cards.find((c) => c.what === "operand" && c.number === asked.operand && c.leaf === asked.leaf);
  }

  // Lights in each card the sets of elements that the accesses of the chosen element touch.
  #light(asked, { transient = false } = {}) {
    const isBack = asked.operand !== undefined;
    const question = `${asked.operand}.${asked.leaf}@${asked.at}`;
    const own = this.#cardOf(asked);
    for (const card of this.cards) {
      const isNew = card.question !== question; // a click repeats the query of the pointer before it
      card.question = question;
      if (card === own) {
        if (isNew) card.picture?.light([{ set: null, colour: "--asked", at: asked.at }]);
        card.sets = [];
        card.fields?.forEach((field, d) => (document.activeElement === field ? 0 : (field.value = asked.at[d])));
        if (!transient) H.clear(card.said);
        continue;
      }
      card.fields?.forEach((field) => (field.value = "")); // the chosen element is in another card
      const accesses = this.#accesses(card, asked, isBack);
      if (isNew) {
        card.sets = accesses.map(([access, id]) => H.touched(access, asked.at, this.runtime.get(id)));
        card.picture?.light(card.sets.map((set, k) => ({ set, colour: colourOf(k) })));
      }
      if (!transient) this.#say(card, accesses, asked, isBack);
      else this.#count(card, accesses);
    }
    this.#sayColours(own, isBack);
  }

  // The legend of the colours that the pictures show at present.
  #sayColours(own, isBack) {
    const lit = this.cards.filter((card) => card !== own && card.picture?.litCells);
    const maps = new Map(); // by colour, the numbers of the maps that light cells in it
    for (const card of lit) {
      card.sets.forEach((set, k) => {
        if (set?.count) maps.set(colourOf(k), (maps.get(colourOf(k)) || new Set()).add(k + 1));
      });
    }
    const what = isBack ? "reached by it" : "read by it";
    const meaning = (numbers) => (maps.size > 1 ? `${what}, map ${[...numbers].join(", ")}` : what);
    const isPaler = lit.some((card) => card.picture.litAreas().some((area) => area.share < 1));
    const entry = (colour, text) => {
      const chip = H.el("span", colour ? "chip" : "chip asked");
      if (colour) chip.style.background = `var(${colour})`;
      return H.el("span", "", chip, text);
    };
    H.clear(this.colours,
      own?.picture ? entry("", "asked about") : null,
      ...[...maps].map(([colour, numbers]) => entry(colour, meaning(numbers))),
      isPaler ? H.el("span", "", "paler: a block of elements in part") : null);
  }

  #accesses(card, asked, isBack) {
    const rows = isBack
      ? card.what === "output"
        ? (this.#reaches({ number: asked.operand, leaf: asked.leaf })?.[2] || []).filter((row) => this.table.rows[row][0] === this.output)
        : []
      : (this.answer.reads.find(([output]) => output === this.output)?.[1] || []).filter((row) => {
          const [number, leaf] = this.table.rows[row];
          return card.what === "operand" && number === card.number && leaf === card.leaf;
        });
    return rows.flatMap((row) => this.table.rows[row][2].map((id) => [this.table.accesses[id], id]));
  }

  #count(card, accesses) {
    card.total?.replaceChildren(totalText(card, accesses));
  }

  #say(card, accesses, asked, isBack) {
    card.total = H.el("div", "total", totalText(card, accesses));
    if (isBack && card.what === "operand") {
      H.clear(card.said);
      return;
    }
    const lines = accesses.flatMap(([access, id]) => (access.runtime || []).map((variable, k) => this.#slider(id, access, variable, k)));
    H.clear(card.said, card.total, ...lines);
  }

  // A run-time value: its origin, its interval, and a field to choose a value.
  #slider(id, access, [name, lo, hi, origin], k) {
    const values = this.runtime.get(id) || access.runtime.map((variable) => variable[1]);
    this.runtime.set(id, values);
    const field = H.el("input", "index");
    Object.assign(field, { type: "number", min: lo, max: hi, value: values[k] });
    field.addEventListener("input", () => {
      values[k] = Math.max(Number(lo), Math.min(Number(hi), Math.trunc(Number(field.value)) || 0));
      for (const card of this.cards) card.question = null; // light all cards again, with the new value
      this.#light(this.asked, { transient: true });
    });
    const range = ` in [${H.number(lo)}, ${H.number(hi)}], read from `;
    return H.el("div", "runtime", H.el("span", "mono", name), " = ", field, range, H.el("span", "mono", origin.split(" = ").slice(1).join(" = ")));
  }

  // The lit elements of every card, for tests.
  lit(most = 1 << 16) {
    return this.cards.map((card) => ({
      what: card.what,
      number: card.number,
      leaf: card.leaf,
      elements: card.sets.map((set) => set && H.elements(set, rankOf(card), most)),
      counts: card.sets.map((set) => set && set.count),
      drawn: card.picture ? card.picture.litElements : null,
    }));
  }
}

// The number of lit elements, and their slices if they are a box.
function totalText(card, accesses) {
  const { sets } = card;
  if (!accesses.length) return "no element is read";
  if (sets.some((set) => set === null)) {
    return accesses.some(([access]) => access.precision === "unknown" || !access.nodes)
      ? "unknown: any element may be read"
      : "too many elements to enumerate";
  }
  const over = accesses.some(([access]) => access.precision === "over") ? "at most " : "";
  const rank = rankOf(card);
  if (sets.length === 1) {
    const [set] = sets;
    const box = set.count ? H.boxText(set, rank) : null;
    return `${over}${plural(set.count)}${box && rank ? ` ${box}` : ""}`;
  }
  return `${over}${unionText(sets, card)}`;
}

const rankOf = (card) => card.type?.[1]?.length ?? 0;

function unionText(sets, card) {
  const { shape } = card;
  const sum = sets.reduce((total, set) => total + set.count, 0);
  if (sum > MOST_UNION) return `${sets.map((set) => H.number(set.count)).join(" + ")} elements, which may overlap`;
  const position = (at) => at.reduce((before, value, d) => before * shape[d] + Number(value), 0);
  const one = shape && H.canCount(shape) ? position : String; // positions are safe integers if the elements can be counted
  const different = new Set(sets.flatMap((set) => H.elements(set, rankOf(card), MOST_UNION).map(one)));
  const whole = sets.find((set) => set.count === different.size); // it contains the other sets
  const box = whole?.count && H.boxText(whole, rankOf(card));
  return `${plural(different.size)}${box && rankOf(card) ? ` ${box}` : ""}`;
}

const plural = (count) => `${H.number(count)} element${count === 1 ? "" : "s"}`;

H.Elements = Elements;
H.colourOf = colourOf;
