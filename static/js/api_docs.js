// A link to an operation or a shape opens it: a closed <details> would hide where the link leads.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}

addEventListener("hashchange", openTarget);
openTarget();
