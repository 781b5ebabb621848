"""Plays Graphiti behind the proxy. The store rewrites messages as facts in its own words. Start:

    lazaret memory proxy --kind graphiti --upstream http://127.0.0.1:8000
"""
from played import FACT, ORDER, PLANTED, call, serve

episodes = [PLANTED]


def add(body):
    episodes.extend(m["content"] for m in body["messages"])
    return {"message": "Messages added to processing queue", "success": True}


def facts(body):
    return {"facts": [{"uuid": f"f{i}", "name": "SAYS", "fact": e} for i, e in enumerate(episodes)]}


serve({"POST /messages": add, "POST /search": facts,
       "GET /episodes/office": lambda _: [{"uuid": f"e{i}", "name": "n", "content": e} for i, e in enumerate(episodes)]})


def said(words):
    message = {"content": words, "role_type": "user", "role": "ana", "timestamp": "2026-11-25T10:00:00Z"}
    return {"group_id": "office", "messages": [message]}


call("the user's words", "POST", "/messages", said(FACT), origin="user")
call("an order of a page", "POST", "/messages", said(ORDER))
episodes.append(ORDER)  # an attacker writes to the store without the proxy
call("facts", "POST", "/search", {"query": "office", "group_ids": ["office"]})
call("found", "GET", "/episodes/office?last_n=5")
