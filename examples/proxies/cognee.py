"""Plays Cognee behind the proxy. A text is sent as a file of a form, and the store answers in its own words. Start:

    lazaret memory proxy --kind cognee --upstream http://127.0.0.1:8000
"""
from played import FACT, ORDER, PLANTED, call, serve

texts = [PLANTED]


def remember(form):
    texts.append(form.split("\r\n\r\n", 1)[1].split("\r\n--", 1)[0])
    return {"status": "completed", "dataset_name": "main"}


serve({"POST /api/v1/remember": remember,
       "POST /api/v1/recall": lambda _: [{"source": "session_context", "content": t} for t in texts]})


def form(words):
    file = 'Content-Disposition: form-data; name="data"; filename="note.txt"\r\nContent-Type: text/plain'
    dataset = 'Content-Disposition: form-data; name="datasetName"'
    return f"--b\r\n{file}\r\n\r\n{words}\r\n--b\r\n{dataset}\r\n\r\nmain\r\n--b--\r\n"


KIND = "multipart/form-data; boundary=b"
call("the user's words", "POST", "/api/v1/remember", form(FACT), origin="user", kind=KIND)
call("an order of a page", "POST", "/api/v1/remember", form(ORDER), kind=KIND)
texts.append(ORDER)  # an attacker writes to the store without the proxy
call("found", "POST", "/api/v1/recall", {"query": "office"})
