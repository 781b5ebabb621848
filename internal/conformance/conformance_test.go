package conformance_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lazaret/internal/conformance"
)

// faultEnv makes this test binary a sentinel group with a fault.
const faultEnv = "CONFORMANCE_TEST_FAULT"

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(faultEnv); ok {
		log.Fatal(group(fault))
	}
	os.Exit(m.Run())
}

func TestTheCheckerFindsEachFault(t *testing.T) {
	for _, c := range []struct {
		fault string
		fails string // part of the only line that must fail; empty: none
		says  string
	}{
		{"none", "", ""},
		{"digest", "answers within its deadline", `answered under digest "external:other", wanted is "external:conformance"`},
		{"no-verdict", "answers within its deadline", "without a verdict"},
		{"ends", "answers within its deadline", "exited before it was killed"},
		{"no-recall", "once and in order", "has no assessment"},
		{"late-alerts", "once and in order", "Lz-Src must only grow"},
		{"from-the-start", "kill -9", "assessments: entries"},
		{"from-the-end", "answers within its deadline", "has no assessment"},
		{"no-fence", "two processes", "2 assessments: entries"},
		{"dies", "skips invalid", "exited before it was killed"},
		{"deaf", "can make verdicts stricter", "the group answered allow"},
		{"forgets", "can make verdicts stricter", "after its restart"},
		{"form", "well-formed", "draw 16 random bytes"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && c.fault != "none" && c.fault != "from-the-start" {
				t.Skip("SKIPPED in short mode: a fault of a group, each takes seconds")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			var out, log bytes.Buffer
			results, err := conformance.Sentinel(ctx, conformance.Config{Group: "tiny", Command: []string{"/usr/bin/env",
				faultEnv + "=" + c.fault, exe},
				Digest: conformance.DefaultDigest, Deadline: 4 * time.Second, Proposals: 16, Patience: 6 * time.Second,
				Poison: conformance.DefaultPoison, FailFast: true, Out: &out, Log: &log})
			if err != nil {
				t.Fatalf("%v\n%s%s", err, &out, &log)
			}
			last := results[len(results)-1]
			switch {
			case c.fails == "" && conformance.Failed(results) == 0:
			case c.fails != "" && last.Err != nil && strings.Contains(last.Name, c.fails) && strings.Contains(last.Err.Error(),
				c.says):
			default:
				t.Errorf("want a FAIL of %q that says %q, got\n%s\n%s", c.fails, c.says, &out, &log)
			}
		})
	}
}

// group is a sentinel group according to docs/sentinels.md that uses only a NATS client. It has one
// fault.
func group(fault string) error {
	name, digest := os.Getenv("LAZARET_GROUP"), os.Getenv("LAZARET_DIGEST")
	if fault == "ends" {
		return fmt.Errorf("no model is loaded")
	}
	if fault == "digest" {
		digest = "external:other"
	}
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.UserCredentials(os.Getenv("NATS_CREDS")),
		nats.CustomInboxPrefix(os.Getenv("NATS_INBOX_PREFIX")))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx := context.Background()
	st, err := js.Stream(ctx, "LZ_LEDGER")
	if err != nil {
		return err
	}
	type place struct{ seq, src uint64 }
	said := make(map[string]place)
	resync := func(p string) error {
		m, err := st.GetLastMsgForSubject(ctx, "lz.ledger."+p+".sentinel-"+name)
		if err == jetstream.ErrMsgNotFound {
			said[p] = place{}
			return nil
		}
		if err != nil {
			return err
		}
		src, err := strconv.ParseUint(m.Header.Get("Lz-Src"), 10, 64)
		said[p] = place{m.Sequence, src}
		return err
	}
	for p := range 16 {
		if err := resync(strconv.Itoa(p)); err != nil {
			return err
		}
	}
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{"lz.ledger.*.ingest"}}
	switch fault {
	case "dies":
		cfg.FilterSubjects = []string{"lz.ledger.>"}
	case "from-the-end":
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	case "from-the-start":
		for p, x := range said {
			said[p] = place{x.seq, 0}
		}
	}
	cons, err := js.OrderedConsumer(ctx, "LZ_LEDGER", cfg)
	if err != nil {
		return err
	}
	it, err := cons.Messages()
	if err != nil {
		return err
	}
	began := maps.Clone(said)
	orders := regexp.MustCompile(`(?i)ignore all previous`)
	addresses := regexp.MustCompile(`[\w.]+@[\w.]+\w`)
	planted := make(map[string]bool)
	say := func(p string, src uint64, typ, project string, body map[string]any, always bool) error {
		for always || src > said[p].src {
			salt := make([]byte, 16)
			rand.Read(salt)
			if fault == "form" {
				clear(salt)
			}
			b, err := json.Marshal(body)
			if err != nil {
				return err
			}
			m := &nats.Msg{Subject: "lz.ledger." + p + ".sentinel-" + name, Data: b, Header: nats.Header{"Lz-Type": {typ},
				"Lz-Project": {project},
				"Lz-Src":     {fmt.Sprint(src)}, "Lz-Salt": {hex.EncodeToString(salt)}}}
			if fault != "no-fence" {
				m.Header["Nats-Expected-Last-Subject-Sequence"] = []string{fmt.Sprint(said[p].seq)}
			}
			ack, err := js.PublishMsg(ctx, m)
			if err == nil {
				said[p] = place{ack.Sequence, src}
				return nil
			}
			if err := resync(p); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		m, err := it.Next()
		if err != nil {
			return err
		}
		md, err := m.Metadata()
		if err != nil {
			return err
		}
		p, typ, project, seq := strings.Split(m.Subject(), ".")[2], m.Headers().Get("Lz-Type"), m.Headers().Get(
			"Lz-Project"), md.Sequence.Stream
		if fault == "forgets" && seq <= began[p].src {
			continue
		}
		var e struct {
			ID, Origin, Content, Text string
			Blocks                    []struct{ Text string }
		}
		if err := json.Unmarshal(m.Data(), &e); err != nil && fault == "dies" {
			return err
		}
		alert := func(effect string) []map[string]any {
			return []map[string]any{{"id": fmt.Sprint("a", seq), "rule": "tiny", "rule_digest": digest, "group": name,
				"severity": "high", "project": project,
				"subject": map[string]string{"kind": typ, "id": e.ID}, "message": "orders", "effect": effect, "mode": "enforce",
				"count": 1, "time": md.Timestamp}}
		}
		body := map[string]any{"group": name, "digest": digest}
		switch typ {
		case "observation":
			if len(e.Blocks) == 0 {
				continue
			}
			if fault == "deaf" || !orders.MatchString(e.Blocks[0].Text) {
				continue
			}
			for _, a := range addresses.FindAllString(e.Blocks[0].Text, -1) {
				planted[a] = true
			}
			body["alerts"] = alert("alert")
			err = say(p, seq, "alerts", project, body, false)
		case "action", "memory", "recall":
			if typ == "recall" && fault == "no-recall" {
				continue
			}
			text := e.Content + e.Text
			body["verdict"] = "allow"
			if fault != "deaf" && (orders.MatchString(text) || planted[addresses.FindString(text)]) {
				body["verdict"], body["alerts"] = "hold", alert("hold")
			}
			if fault == "no-verdict" {
				delete(body, "verdict")
			}
			err = say(p, seq, "assessment", project, body, false)
			if fault == "late-alerts" && err == nil {
				body["alerts"] = alert("alert")
				err = say(p, seq-1, "alerts", project, body, true)
			}
		}
		if err != nil {
			return err
		}
	}
}
