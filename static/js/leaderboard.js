// Leaderboard: what stands behind a row opens below it.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-behind]");
  if (!button) return;
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
});
