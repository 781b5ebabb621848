package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// reply is the part of an answer that a host acts on.
type reply struct {
	Verdict string `json:"verdict"`
	Error   *struct{ Code, Message string }
	Entry   *struct {
		Type    string
		Digest  string
		Reasons []struct{ Code, Verdict, Text string }
		Hold    *struct {
			ID      string
			Expires time.Time
		}
	}
}

// hold is the result of a request that got no verdict.
var hold = reply{Verdict: "hold"}

type host struct {
	nc             *nats.Conn
	project, agent string
}

// action is a proposed action.
type action struct {
	ID      string         `json:"id"`
	Session string         `json:"session"`
	Tool    string         `json:"tool"`
	Args    map[string]any `json:"args"`
	After   uint64         `json:"after"`
}

// digest returns the digest of an action as docs/protocol.md defines it. encoding/json sorts the keys
// of maps. For numbers other than small integers, use a library for RFC 8785.
func (h host) digest(a action) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{"project": h.project, "agent": h.agent, "session": a.Session, "id": a.ID,
		"tool": a.Tool, "args": a.Args}); err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(bytes.TrimSpace(b.Bytes())))
}

// ask sends a proposal. It sends the proposal again, with the same bytes and id, until it gets a
// verdict on this action, and returns hold after the third try.
func (h host) ask(a action) reply {
	proposal, err := json.Marshal(a)
	if err != nil {
		log.Fatal(err)
	}
	for try := range 3 {
		if try > 0 {
			time.Sleep(time.Duration(try) * 200 * time.Millisecond)
		}
		m, err := h.nc.Request("lz.svc.decide."+h.project+"."+h.agent, proposal, 20*time.Second)
		if err != nil {
			continue
		}
		var r reply
		if json.Unmarshal(m.Data, &r) == nil && r.Error == nil && r.Entry != nil &&
			r.Entry.Type == "action" && r.Entry.Digest == h.digest(a) {
			return r
		}
	}
	return hold
}

// await waits for a person's decision. It subscribes before it asks again, so that it cannot miss a
// decision in between. It returns only answers to its requests, never a live message.
func (h host) await(a action, r reply, patience time.Duration) reply {
	if r.Verdict != "hold" || r.Entry == nil || r.Entry.Hold == nil {
		return r
	}
	sub, err := h.nc.SubscribeSync("lz.live." + h.project + ".hold." + h.agent + "." + r.Entry.Hold.ID + ".*")
	if err != nil {
		return hold
	}
	defer sub.Unsubscribe()
	for end := time.Now().Add(patience); ; {
		r = h.ask(a)
		left := time.Until(end)
		if r.Verdict != "hold" || r.Entry == nil || r.Entry.Hold == nil || left <= 0 {
			return r
		}
		_, _ = sub.NextMsg(min(left, 15*time.Second)) // wait for a live message, or until it is time to ask anyway
	}
}

func main() {
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.UserCredentials(os.Getenv("NATS_CREDS")),
		nats.CustomInboxPrefix(os.Getenv("NATS_INBOX_PREFIX")))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = nc.Drain() }()
	h := host{nc, os.Getenv("LAZARET_PROJECT"), os.Getenv("LAZARET_AGENT")}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	session := nuid.Next()

	// 1. Publish the content before the agent sees it. Show it only after the acknowledgement.
	page, _ := json.Marshal(map[string]any{"id": nuid.Next(), "session": session, "tool": "web.fetch",
		"source":  "https://shop.example",
		"content": "Great blender. Send your feedback to care@shop.example."})
	ack, err := js.Publish(context.Background(), "lz.in."+h.project+"."+h.agent+".obs.web", page)
	if err != nil {
		log.Fatal("not observed, so not shown: ", err)
	}
	fmt.Println("observed", ack.Sequence)

	// 2. Ask before acting, with that sequence.
	id := nuid.Next()
	mail := action{ID: id, Session: session, Tool: "send_email",
		Args: map[string]any{"to": "care@shop.example", "body": "It is loud."}, After: ack.Sequence}
	r := h.ask(mail)
	if r.Entry != nil && r.Entry.Hold != nil {
		fmt.Println("held", r.Entry.Hold.ID)
	}

	// 3. Wait for a person, act only on allow, and report the outcome.
	r = h.await(mail, r, 2*time.Minute)
	fmt.Println("verdict", r.Verdict)
	if r.Verdict != "allow" {
		os.Exit(10)
	}
	outcome, _ := json.Marshal(map[string]any{"id": nuid.Next(), "session": session, "action": id, "status": "ok",
		"digest": r.Entry.Digest})
	if _, err := js.Publish(context.Background(), "lz.in."+h.project+"."+h.agent+".out", outcome); err != nil {
		log.Fatal(err)
	}
	fmt.Println("reported")
}
