"""Plays mem0 behind the proxy. Start:

    lazaret memory proxy --kind mem0 --upstream http://127.0.0.1:8000
"""
from played import FACT, ORDER, PLANTED, call, serve

memories = {"m0": PLANTED}


def add(body):
    new = {f"m{len(memories)}": body["messages"][0]["content"]}
    memories.update(new)
    return {"results": [{"id": i, "memory": m, "event": "ADD"} for i, m in new.items()]}


def search(body):
    return {"results": [{"id": i, "memory": m, "score": 0.9} for i, m in memories.items()]}


serve({"POST /memories": add, "POST /search": search,
       "GET /memories/m1": lambda _: {"id": "m1", "memory": memories["m1"], "user_id": "ana"}})


def said(words):
    return {"messages": [{"role": "user", "content": words}], "user_id": "ana", "infer": False}


call("the user's words", "POST", "/memories", said(FACT), origin="user")
call("an order of a page", "POST", "/memories", said(ORDER))
memories["m9"] = ORDER  # an attacker writes to the store without the proxy
call("found", "POST", "/search", {"query": "office", "user_id": "ana"})
