// Differences from an older program: equal changes share a row; changes that follow from no other
// change come first; each instruction is a link.

const SIGNS = { removed: "−", added: "+", changed: "~" };
const MOST = 500; // instructions of a group that are elements of the page

H.differences = (program, found, choose) => {
  const counts = Object.entries(found.counts).filter(([, count]) => count);
  const told = found.same ? "The two programs have the same structure." : counts.map(([kind, count]) => `${H.number(count)} ${kind}`).join(", ");
  const [causes, others] = grouped(found.computations);
  const alone = found.computations.filter((part) => part.before === null || part.after === null);
  return H.el("div", "differences",
    H.el("p", "note", `Against ${found.file}: ${told}`),
    ...found.header.map((one) => H.el("div", "change changed", H.el("span", "sign", "~"), aspect(one))),
    ...section("Causes", "their operands are equal in the two programs", causes),
    ...section("Consequences", "one of their operands differs", others),
    alone.length ? H.el("h4", "", "Computations in one program only") : null,
    ...alone.slice(0, MOST).map((part) => H.el("div", part.before === null ? "change added" : "change removed",
      H.el("span", "sign", part.before === null ? "+" : "−"), H.el("span", "mono", part.after ?? part.before))));

  function section(title, why, groups) {
    if (!groups.length) return [];
    return [H.el("h4", "", title, H.el("span", "note", `: ${why}`)), ...groups.map((group) => tree(program, group, choose))];
  }
};

// Changes grouped by kind, opcode and difference, largest first: causes, and consequences.
function grouped(computations) {
  const causes = new Map();
  const others = new Map();
  for (const part of computations) {
    const older = new Set();
    const newer = new Set();
    for (const { before, after } of part.changes) {
      if (after) newer.add(after.name);
      else older.add(before.name);
    }
    for (const change of part.changes) {
      const different = change.after ? newer : older;
      const groups = change.operands.some((name) => different.has(name)) ? others : causes;
      const { opcode, type } = change.after || change.before;
      const key = JSON.stringify([change.kind, opcode, change.aspects.length ? change.aspects.map(inCommon) : type]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push({ part, change });
    }
  }
  const sorted = (groups) => [...groups.values()].sort((a, b) => b.length - a.length);
  return [sorted(causes), sorted(others)];
}

// The part of a difference that equal changes share: the number of an operand, not its name.
const inCommon = ({ what, before, after }) => (what.startsWith("operand ") ? { what } : { what, before, after });

// A group: the common part of its changes; unfolded, the instructions.
function tree(program, group, choose) {
  const [{ change }] = group;
  const ins = change.after || change.before;
  const head = H.el("summary", "", H.el("span", "sign", SIGNS[change.kind]), H.el("b", "", `${H.number(group.length)} × `), H.el("span", "opcode mono", ins.opcode), " ",
    change.aspects.length ? null : H.el("span", "type mono", short(ins.type)),
    ...change.aspects.map((one) => H.el("div", "aspects", aspect(inCommon(one)))));
  const details = H.el("details", `change ${change.kind}`, head);
  const fill = () => {
    if (details.childElementCount > 1) return;
    details.append(...group.slice(0, MOST).map((one) => line(program, one, choose)));
    if (group.length > MOST) details.append(H.el("p", "note", `and ${H.number(group.length - MOST)} more`));
  };
  details.addEventListener("toggle", fill);
  if (group.length === 1) {
    fill();
    details.open = true;
  }
  return details;
}

const aspect = ({ what, before, after }) => H.el("span", "aspect", H.el("span", "mono", what), ": ", ...(before === undefined ? ["another value"] : values(before, after)));

const values = (before, after) => [H.el("del", "mono", short(before)), " → ", H.el("ins", "mono", short(after))];

const short = (text) => (text === null ? "none" : text.length > 160 ? `${text.slice(0, 159)}…` : text);

function line(program, { part, change }, choose) {
  const ins = change.after || change.before;
  const k = change.after ? program.find(`${encodeURIComponent(part.after)}/${encodeURIComponent(ins.name)}`) : -1;
  const name = k < 0 ? H.el("span", "mono", ins.name) : H.button("link mono", ins.name, () => choose(k));
  const renamed = change.before && change.after && change.before.name !== change.after.name ? ` (was ${change.before.name})` : "";
  return H.el("div", "one", name, H.el("span", "note", `${renamed} in ${part.after ?? part.before}`));
}
