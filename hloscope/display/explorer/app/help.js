// The keys, in a dialog.

const KEYS = [
  ["/", "search: words, or op: name: in: shape: from: source: before a word"],
  ["Enter", "in the search: the next match"],
  ["↑ ↓", "the previous, the next instruction; also k and j"],
  ["← →", "fold, unfold the computations that an instruction calls"],
  ["u d", "to the first operand, to the first user"],
  ["Shift + arrows", "move the chosen element along the last two dimensions"],
  ["o", "the maps in the next order: logical, memory, linear"],
  ["h", "the overview: highest costs, memory, changes to make"],
  ["m", "the memory over the schedule"],
  ["t", "colours: light, dark, or those of the system"],
  ["Backspace", "back to the previous view"],
  ["Esc", "leave the search, close this dialog"],
  ["?", "open this dialog"],
];

H.help = () => {
  const dialog = H.el("dialog", "help",
    H.el("h2", "", "Keys"),
    H.el("dl", "keys", ...KEYS.flatMap(([key, what]) => [H.el("dt", "mono", key), H.el("dd", "", what)])),
    H.el("h2", "", "Elements"),
    H.el("p", "", "Point at a cell of the output to highlight the elements that it reads; click to keep the highlight. Point at an operand to highlight the output elements that depend on it. A cell may be a block of elements: then its first element is used, and the number of elements is shown. A block that is highlighted in part is paler."),
    H.el("h2", "", "Precision"),
    H.el("p", "", "exact: precisely these elements. over: these elements include all that are read, and perhaps more, with the reason. unknown: any element may be read. Verdicts about memory follow from a model of the device, which is named."),
    H.el("p", "", `Graphs are laid out by dagre ${dagre.version}, under the MIT licence, which is included in this file.`));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};
