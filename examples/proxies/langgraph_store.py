"""Plays the store of a LangGraph server behind the proxy. Start:

    lazaret memory proxy --kind langgraph --upstream http://127.0.0.1:8000
"""
from played import FACT, ORDER, PLANTED, call, serve

items = {"k0": {"namespace": ["ana"], "key": "k0", "value": {"text": PLANTED}}}


def put(item):
    items[item["key"]] = item
    return {}


serve({"PUT /store/items": put, "POST /store/items/search": lambda _: {"items": list(items.values())}})


def item(key, words):
    return {"namespace": ["ana"], "key": key, "value": {"text": words}}


call("the user's words", "PUT", "/store/items", item("k1", FACT), origin="user")
call("an order of a page", "PUT", "/store/items", item("k2", ORDER))
put(item("k9", ORDER))  # an attacker writes to the store without the proxy
call("found", "POST", "/store/items/search", {"namespace_prefix": ["ana"], "query": "office"})
