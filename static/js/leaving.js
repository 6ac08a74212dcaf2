// A request that is cut off because the person leaves the page is no error.
const underway = new Set();

document.addEventListener("htmx:beforeSend", ({ detail }) => {
  underway.add(detail.xhr);
  detail.xhr.addEventListener("loadend", () => underway.delete(detail.xhr));
});
addEventListener("beforeunload", () => { for (const request of underway) request.onabort = null; });
