package retain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"lazaret/internal/inquiry"
	"lazaret/internal/stage"
	"lazaret/pkg/chain"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// Config configures all operations of the package.
type Config struct {
	Conn  *nats.Conn // with the retention credential
	Trust *keys.Trust
	// Log opens the auditor's log, or a snapshot of it, and calls ask with it. If there is no log, it calls ask with nil.
	Log func(ctx context.Context, ask func(*inquiry.Log) error) error
	// Data is the data folder with the files of the memory tool and of hooks. If it is empty, none are erased.
	Data string
	// Without names stages that no longer exist; they are not waited for.
	Without []string
	// Wait is how long Trim waits for the next reply of a stage; 0: 2 minutes.
	Wait time.Duration
	step uint64 // for tests
	// Tell, if set, is called with progress messages.
	Tell func(format string, args ...any)

	awaited string // the text that Awaited returns
}

// Awaited returns what the operation waits for, or waited for when its time was over.
func (c *Config) Awaited() string { return c.awaited }

// stagesWait is the default of Wait.
const stagesWait = 2 * time.Minute

func (c *Config) tell(format string, args ...any) {
	if c.Tell != nil {
		c.Tell(format, args...)
	}
}

// header is a ledger entry without its body.
type header struct {
	seq       uint64
	time      time.Time
	partition int
	stage     string
	typ       streams.Type
	project   string
	src       uint64
}

// scan calls fn for the headers of ledger entries from sequence from up to the end of the stream at the
// time of the call.
func scan(ctx context.Context, js jetstream.JetStream, filter string, from uint64, fn func(h header) error) error {
	return stage.Each(ctx, js, stage.Span{Stream: streams.LedgerStream, Filters: []string{filter}, From: from,
		Headers: true}, func(m jetstream.Msg, seq uint64, at time.Time) error {
		p, stage, err := streams.ParseLedger(m.Subject())
		if err != nil {
			return nil
		}
		h := header{seq: seq, time: at, partition: p, stage: stage, typ: streams.Type(m.Headers().Get(streams.HeaderType)),
			project: m.Headers().Get(streams.HeaderProject)}
		h.src, _ = strconv.ParseUint(m.Headers().Get(streams.HeaderSrc), 10, 64)
		return fn(h)
	})
}

// writers returns the stages that ever wrote to the ledger, except those in Without. It reads the last valid message of
// each subject, and takes the stage of each entry in it: a stage may have written only in joint frames (see stagesIn).
// Messages that no stage wrote do not count.
func (c *Config) writers(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	st, err := js.Stream(ctx, streams.LedgerStream)
	if err != nil {
		return nil, err
	}
	info, err := st.Info(ctx, jetstream.WithSubjectFilter("lz.ledger.*.*"))
	if err != nil {
		return nil, err
	}
	var out []string
	for subject := range info.State.Subjects {
		if _, name, err := streams.ParseLedger(subject); err != nil || name == streams.StageRetention {
			continue
		}
		entries, err := stage.LastEntries(ctx, js, subject)
		if err != nil {
			return nil, fmt.Errorf("the last entries on %s: %w", subject, err)
		}
		for i := range entries {
			out = append(out, entries[i].Stage)
		}
	}
	sort.Strings(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return slices.Contains(c.Without, s) }), nil
}

// auditors returns the registered auditors by key name and hash: the keys that the trust file pins with the role
// auditor. Erasure and trimming wait for each of them, except for a key that was handed over to another registered key
// (lazaret audit rotate): The method chained leaves that key out.
func (c *Config) auditors() map[string]note.Verifier {
	out := make(map[string]note.Verifier)
	for _, p := range c.Trust.Pins() {
		if !slices.Contains(p.Roles, keys.RoleAuditor) {
			continue
		}
		if v, err := note.NewVerifier(p.Key); err == nil { // the trust file contains only valid keys
			out[chain.KeyID(v.Name(), v.KeyHash())] = v
		}
	}
	return out
}

// checkpointSubject is the subject of the auditors' checkpoints.
const checkpointSubject = "lz.live." + streams.SystemProject + ".checkpoint"

// chained returns, for each registered auditor, the ledger sequence up to which it has signed a tree of
// this log. It is 0 if there is no such checkpoint.
func (c *Config) chained(ctx context.Context, js jetstream.JetStream) (map[string]uint64, error) {
	out := make(map[string]uint64)
	registered := c.auditors()
	for id := range registered {
		out[id] = 0
	}
	// A key that was handed over to another registered key is not waited for.
	replaced := func(b []byte) bool {
		old, next, err := chain.Replaced(b, c.Trust.Verifiers(keys.RoleAuditor))
		if _, ok := registered[next]; err != nil || !ok {
			return err == nil
		}
		for _, id := range old {
			delete(out, id)
		}
		return true
	}
	// Try the most recent messages first: a busy auditor signs every second.
	for _, back := range []time.Duration{10 * time.Minute, 24 * time.Hour, streams.LiveAge} {
		latest := make(map[string][]byte)
		err := stage.Each(ctx, js, stage.Span{Stream: streams.LiveStream, Filters: []string{checkpointSubject},
			Since: time.Now().Add(-back)}, func(m jetstream.Msg, _ uint64, _ time.Time) error {
			if replaced(m.Data()) {
				return nil
			}
			for id, v := range registered {
				if _, err := note.Open(m.Data(), note.VerifierList(v)); err == nil {
					latest[id] = m.Data()
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		err = c.Log(ctx, func(l *inquiry.Log) error {
			if l != nil {
				handovers, err := l.Handovers()
				if err != nil {
					return err
				}
				for _, h := range handovers {
					replaced(h)
				}
			}
			for id := range out {
				if cp := latest[id]; cp != nil {
					seq, err := l.Covers(cp, note.VerifierList(registered[id]))
					if err != nil {
						return fmt.Errorf("the last checkpoint of auditor %s: %w", id, err)
					}
					out[id] = max(out[id], seq)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		missing := false
		for _, seq := range out {
			missing = missing || seq == 0
		}
		if !missing {
			break
		}
	}
	return out, nil
}

// awaitAuditors waits until every registered auditor has signed the ledger up to a sequence.
func (c *Config) awaitAuditors(ctx context.Context, js jetstream.JetStream, seq uint64) error {
	told := false
	var behind []string
	c.awaited = fmt.Sprintf("the auditors to chain ledger entry %d", seq)
	for {
		got, err := c.chained(ctx, js)
		if err != nil && behind != nil && ctx.Err() != nil {
			return late(ctx, seq, behind) // the timeout occurred during the read
		}
		if err != nil {
			return err
		}
		behind = nil
		for name, at := range got {
			if at < seq {
				behind = append(behind, fmt.Sprintf("%s (has signed up to %d)", name, at))
			}
		}
		if len(got) == 0 {
			return errors.New("the trust file pins no auditor's key, so no auditor is known to have chained the entries to " +
				"be removed: pin the key of a running auditor with the role auditor")
		}
		if len(behind) == 0 {
			return nil
		}
		sort.Strings(behind)
		if !told {
			c.tell("waiting for auditors to chain ledger entry %d: %s", seq, strings.Join(behind, ", "))
			told = true
		}
		select {
		case <-ctx.Done():
			return late(ctx, seq, behind)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// late returns an error that names the auditors that have not chained an entry in time.
func late(ctx context.Context, seq uint64, behind []string) error {
	return fmt.Errorf("auditors that have not chained ledger entry %d: %s; unpin the keys of auditors that "+
		"no longer exist: %w", seq, strings.Join(behind, ", "), ctx.Err())
}
