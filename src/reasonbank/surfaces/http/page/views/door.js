// Coming in: a token that is pasted. The owner's printed address brings a code instead.

import * as api from "../api.js";
import { brand } from "../brand.js";
import { $, fill, h } from "../dom.js";
import { command, worded } from "../parts.js";
import { capital } from "../words.js";

export function door(problem, enter) {
  const told = h("p.bad", { role: "alert", id: "told" }, problem && worded(problem));
  const enterWith = async (event) => {
    event.preventDefault();
    const field = $("input", event.target);
    try {
      await api.signIn({ token: field.value.trim() });
      field.value = "";
      enter();
    } catch (error) {
      fill(told, worded(`${capital(error.message)}.`));
      field.focus();
    }
  };
  return h("main.door", { id: "main", tabindex: -1 },
    h("p.brand", brand()),
    h("h1", "Sign in"),
    h("p.lede", "This bank is locked. If it is yours, this opens the page, signed in:"),
    command("reasonbank open"),
    h("form", { onsubmit: enterWith },
      h("label.field", h("span", "Or paste a token that you were given"),
        h("input", { type: "password", name: "token", autocomplete: "off", placeholder: "rbk_…", required: true, "aria-describedby": "told" })),
      told,
      h("div.btns", h("button.btn.main", { type: "submit" }, "Sign in"))),
    h("p.tip", "The token becomes a cookie of this browser that scripts cannot read. What the token may not do is not offered."));
}
