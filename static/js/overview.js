// Overview: says when the server is away, and loads the whole page once the first run is there.
import "./leaving.js";

const banner = document.getElementById("banner");
let since = new Date();

document.addEventListener("htmx:afterRequest", (event) => {
  if (event.target.id !== "o-live") return;
  const { xhr, successful } = event.detail;
  if (successful || xhr?.status === 204) {
    since = new Date();
    banner.hidden = true;
    return;
  }
  banner.textContent = `The server does not answer. You see the state of ${since.toLocaleTimeString()}; trying again.`;
  banner.hidden = false;
});

document.addEventListener("htmx:oobAfterSwap", () => {
  const live = document.getElementById("o-live");
  const page = document.querySelector(".overview");
  if (live?.dataset.hasRuns === "yes" && page.hidden) location.reload();
});
