// Runs before the first paint: the theme that the reader chose, or the system's.
const stored = localStorage.getItem("headroom-theme");
if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
