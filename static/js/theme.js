// Runs before the first paint: the theme that the reader chose, or the system's, and how close rows stand.
const stored = localStorage.getItem("headroom-theme");
if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
if (localStorage.getItem("headroom-density") === "compact") document.documentElement.dataset.density = "compact";
