// The printed address carries the token behind its #, which browsers send to nobody: it is given from here, and
// taken out of the address at once.
"use strict";
(() => {
  const enter = () => {
    const token = location.hash.slice(1);
    if (!token) return;
    history.replaceState(null, "", location.pathname);
    const form = document.getElementById("enter");
    form.elements.token.value = token;
    form.submit();
  };
  // an address that is put in while this page is shown loads nothing again
  window.addEventListener("hashchange", enter);
  enter();
})();
