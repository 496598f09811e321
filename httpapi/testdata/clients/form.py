# Sends a form as urllib3 does: form.py URL KEY NAME=TEXT... NAME=@FILE...
import os
import sys

import urllib3

url, key, *parts = sys.argv[1:]
fields = []
for part in parts:
    name, value = part.split("=", 1)
    if value.startswith("@"):
        with open(value[1:], "rb") as file:
            value = (os.path.basename(value[1:]), file.read())
    fields.append((name, value))
headers = {"X-User": "admin", "Idempotency-Key": key}
answer = urllib3.PoolManager().request("POST", url, fields=fields, headers=headers)
print(answer.status, answer.data.decode())
