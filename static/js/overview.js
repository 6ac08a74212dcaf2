// Overview: loads the whole page once the first run is there. The page's banner says when the server is away.
import "./leaving.js";

document.addEventListener("htmx:oobAfterSwap", () => {
  const live = document.getElementById("o-live");
  const page = document.querySelector(".overview");
  if (live?.dataset.hasRuns === "yes" && page.hidden) location.reload();
});
