// Keeps the page that was asked for: a redirect inherits the fragment of the form's address, which the server never sees.
document.forms[0].action += location.hash;
