// The printed address carries the token behind its #, which browsers send to nobody: it is given from here, and
// taken out of the address at once.
"use strict";
(() => {
  // a link on the page of a run, which is separated from this site, brings no cookie: one from here does, if there is one
  const again = () => {
    const key = "pgdyno-again", tried = sessionStorage.getItem(key);
    if (tried || document.querySelector(".bad")) sessionStorage.removeItem(key);
    else { sessionStorage.setItem(key, "1"); location.replace("/"); }
  };
  const enter = () => {
    const token = location.hash.slice(1);
    if (!token) { again(); return; }
    history.replaceState(null, "", location.pathname);
    const form = document.getElementById("enter");
    form.elements.token.value = token;
    form.submit();
  };
  // an address that is put in while this page is shown loads nothing again
  window.addEventListener("hashchange", enter);
  enter();
})();
