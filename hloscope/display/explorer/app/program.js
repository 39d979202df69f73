// The program: instructions by number, with their operands, users and callers.

// Restores the names that `in_sequence` compressed: a number n stands for the latest name of
// stem n with its count increased by 1.
function named(told) {
  const stems = new Map();
  const texts = [];
  const ends = [];
  return told.map((name) => {
    if (typeof name === "number") return `${texts[name]}${++ends[name]}`;
    const stem = name.replace(/[0-9]+$/, "");
    const digits = name.slice(stem.length);
    if (!/^(0|[1-9]\d{0,8})$/.test(digits)) return name;
    if (!stems.has(stem)) stems.set(stem, texts.push(stem) - 1);
    ends[stems.get(stem)] = Number(digits);
    return name;
  });
}

class Program {
  constructor(rows) {
    Object.assign(this, rows);
    this.name = named(rows.name);
    this.count = this.name.length;
    this.computationOf = new Int32Array(this.count);
    this.computations.forEach(([, start, count], c) => this.computationOf.fill(c, start, start + count));
    this.callers = new Map();
    for (const [k, called] of Object.entries(this.calls)) {
      for (const c of called) {
        if (!this.callers.has(c)) this.callers.set(c, []);
        this.callers.get(c).push(Number(k));
      }
    }
    this.isFused = new Set(this.fused);
    this.byName = null;
  }

  opcodeOf(k) { return this.opcodes[this.opcode[k]]; }
  typeOf(k) { return this.types[this.type[k]]; }
  typeText(k) { return this.typeOf(k).text; }
  operandsOf(k) { return this.operands[k].map((back) => k - back); }

  // Numbers of the operands, then of the values that only the regions of the op read.
  readsOf(k) { return [...this.operands[k], ...(this.captured[k] || [])].map((back) => k - back); }


  // Label of an operand or captured value: `operand 2 {1}` is tensor 1 of operand 2.
  readName(k, number, leaf) {
    const operands = this.operands[k].length;
    const name = number < operands ? `operand ${number}` : `captured ${number - operands}`;
    return leaf ? `${name} {${leaf}}` : name;
  }

  calledBy(k) { return this.calls[k] || []; }
  computationName(k) { return this.computations[this.computationOf[k]][0]; }
  isRoot(k) { return this.computations[this.computationOf[k]][3] === k; }

  // Users of an instruction. The first call builds the table for all instructions.
  usersOf(k) {
    if (!this.firstUser) this.#findUsers();
    return this.users.subarray(this.firstUser[k], this.firstUser[k + 1]);
  }

  #findUsers() {
    const counts = new Int32Array(this.count + 1);
    const each = (use) => this.operands.forEach((all, k) => new Set(all).forEach((back) => back && use(k - back, k)));
    each((operand) => counts[operand + 1]++);
    for (let k = 0; k < this.count; k++) counts[k + 1] += counts[k];
    this.firstUser = counts.slice();
    this.users = new Int32Array(counts[this.count]);
    each((operand, user) => (this.users[counts[operand]++] = user));
  }

  // The text in the brackets of an instruction: its operands, or the value of a constant.
  brief(k, most = 6) {
    const operands = this.operandsOf(k);
    const names = operands.slice(0, most).map((o) => this.name[o]);
    if (operands.length > most) names.push(`… ${operands.length - most} more`);
    return operands.length ? names.join(", ") : this.insides[this.inside[k]] || "";
  }

  // Splits a text of MLIR into strings and numbers of instructions, which are shown as links.
  pieces(k, text) {
    const operands = this.operandsOf(k);
    return text.split(/%\{([^}]*)\}/).map((part, n) => {
      if (n % 2 === 0) return part;
      if (part === "%") return "%";
      return part.startsWith("a") ? operands[Number(part.slice(1))] : k + Number(part);
    });
  }

  // The fragment of the page's address that selects an instruction.
  address(k) {
    return `${encodeURIComponent(this.computationName(k))}/${encodeURIComponent(this.name[k])}`;
  }

  // The instruction that an address selects, or -1.
  find(address) {
    if (!this.byName) {
      this.byName = new Map();
      for (let k = 0; k < this.count; k++) this.byName.set(this.address(k), k);
    }
    return this.byName.get(address) ?? -1;
  }
}

H.readProgram = async () => {
  H.program = new Program(await H.load("rows"));
  return H.program;
};
