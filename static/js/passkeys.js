// Passkeys: which form on this page is for which of django-allauth's scripts, and what went wrong in words.

const form = document.querySelector("form[data-passkey]");
const ids = {
  add: "passkey", login: "passkey", authenticate: "passkey",
  passwordless: "id_passwordless", credential: "id_credential", data: "js_data",
};

function tell(words) {
  const problem = form.querySelector("[data-passkey-problem]");
  problem.textContent = words;
  problem.hidden = false;
}

if (form) {
  if (window.PublicKeyCredential) window.allauth.webauthn.forms[form.dataset.passkey]({ ids });
  else document.getElementById("passkey").disabled = true; // not over http
  document.addEventListener("allauth.error", (event) => {
    event.preventDefault(); // nothing for the console: people change their mind
    tell(`No passkey was used: ${event.detail.exception.message}`);
  });
}
