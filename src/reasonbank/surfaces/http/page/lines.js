// What changed between two texts, word by word.

const MOST = 1200; // Words; beyond that whole lines are compared, beyond that nothing is.

/** [[kind, text]]: kind is "same", "gone" or "new". */
export function changes(before, after) {
  const fine = (text) => text.match(/\s+|[^\s]+/g) ?? [];
  const coarse = (text) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  let [a, b] = [fine(before), fine(after)];
  if (a.length > MOST || b.length > MOST) [a, b] = [coarse(before), coarse(after)];
  if (a.length > MOST || b.length > MOST) return [["gone", before], ["new", after]];
  // The longest common subsequence, from the end.
  const wide = b.length + 1, best = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * wide + j] = a[i] === b[j] ? best[(i + 1) * wide + j + 1] + 1 : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  const told = [];
  const tell = (kind, text) => (told.at(-1)?.[0] === kind ? (told.at(-1)[1] += text) : told.push([kind, text]));
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) tell("same", a[i++], j++);
    else if (j >= b.length || (i < a.length && best[(i + 1) * wide + j] >= best[i * wide + j + 1])) tell("gone", a[i++]);
    else tell("new", b[j++]);
  }
  return told;
}

/** The same with long stretches that did not change cut down to their ends. */
export const brief = (told, keep = 60) => told.map(([kind, text], i) => {
  if (kind !== "same" || text.length <= 2 * keep + 3) return [kind, text];
  const start = i === 0 ? "" : text.slice(0, keep).replace(/\S+$/, "");
  const end = i === told.length - 1 ? "" : text.slice(-keep).replace(/^\S+/, "");
  return [kind, `${start}…${end}`];
});
