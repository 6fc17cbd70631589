// Before the first paint: the theme that was chosen, if one was.
(() => {
  try {
    const chosen = localStorage.getItem("reasonbank-theme");
    if (chosen) document.documentElement.dataset.theme = chosen;
  } catch { /* No storage: the system's theme. */ }
})();
