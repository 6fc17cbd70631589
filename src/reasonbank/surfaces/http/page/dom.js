// Nodes from plain calls: h("p.soft", {id: "x"}, "text", other). Text is always put in as text,
// so nothing that a memory says can become markup.

const SVG = "http://www.w3.org/2000/svg";

const isProps = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);

function put(parent, kid) {
  if (kid === null || kid === undefined || kid === false || kid === "") return;
  if (Array.isArray(kid)) for (const one of kid) put(parent, one);
  else parent.append(kid instanceof Node ? kid : String(kid));
}

function make(create, tag, rest) {
  const [name, ...classes] = tag.split(".");
  const element = create(name || "div");
  if (classes.length) element.setAttribute("class", classes.join(" "));
  const props = isProps(rest[0]) ? rest.shift() : {};
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.classList.add(...String(value).split(" ").filter(Boolean));
    else if (key === "value" || key === "checked") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  put(element, rest);
  return element;
}

export const h = (tag, ...rest) => make((name) => document.createElement(name), tag, rest);
export const s = (tag, ...rest) => make((name) => document.createElementNS(SVG, name), tag, rest);

export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

/** Put these in place of what is there. */
export function fill(element, ...kids) {
  const fresh = document.createDocumentFragment();
  put(fresh, kids);
  element.replaceChildren(fresh);
  return element;
}
