// Shows openapi.json, and asks what only reads. Whatever is answered is text, never markup.
"use strict";

function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  made.append(...children);
  return made;
}

function field(parameter) {
  const input = element("input", "");
  input.name = parameter.name;
  input.dataset.where = parameter.in;
  input.required = parameter.in === "path";
  return element("p", "", element("label", `${parameter.name} `, input), element("span", ` ${parameter.description || ""}`));
}

function addressOf(path, form) {
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.where === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.append(input.name, input.value);
  }
  return `.${path}${query.size ? `?${query}` : ""}`;
}

function shown(path, method, operation) {
  const form = element("form", "", ...operation.parameters.map(field));
  if (method === "get") {
    const answer = element("pre", "");
    form.append(element("button", "Ask"), answer);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const got = await fetch(addressOf(path, form));
      const text = await got.text();
      try {
        answer.textContent = `${got.status}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
      } catch {
        answer.textContent = `${got.status}\n${text}`;
      }
    });
  }
  const summary = element("summary", "", element("code", `${method.toUpperCase()} ${path}`), element("span", ` ${operation.summary}`));
  return element("details", "", summary, element("p", operation.description), form);
}

async function show() {
  const all = await (await fetch("openapi.json")).json();
  document.getElementById("about").textContent = all.info.description;
  document.getElementById("paths").append(...Object.entries(all.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => shown(path, method, operation))));
}

show();
