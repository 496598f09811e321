// Sends a form as the fetch of Node does: form.mjs URL KEY NAME=TEXT... NAME=@FILE...
import { readFileSync } from "node:fs"
import { basename } from "node:path"

const [url, key, ...parts] = process.argv.slice(2)
const form = new FormData()
for (const part of parts) {
  const at = part.indexOf("=")
  const name = part.slice(0, at), value = part.slice(at + 1)
  if (value.startsWith("@")) form.append(name, new Blob([readFileSync(value.slice(1))]), basename(value.slice(1)))
  else form.append(name, value)
}
const headers = { "X-User": "admin", "Idempotency-Key": key }
const answer = await fetch(url, { method: "POST", headers, body: form })
console.log(answer.status, await answer.text())
