import { h, s } from "./dom.js";

export const brand = () => [
  s("svg", { viewBox: "0 0 18 18", width: 18, height: 18, "aria-hidden": "true" },
    s("path.f-a", { d: "M1 11h4v6H1zM7 6h4v11H7zM13 1h4v16h-4z" })),
  h("span", "ReasonBank"),
];
