package memgate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"lazaret/client"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Judge asks the arbiter about memory writes and found texts. *client.Client implements it.
type Judge interface {
	Remember(ctx context.Context, origin beliefs.Origin, m *streams.Memory) (*client.Reply, error)
	Gate(ctx context.Context, r *streams.Recall) (*client.Reply, error)
}

// Entered asks for a verdict on a memory that is in the context already. The id is a hash of the content and session,
// so the same memory gets the same verdict. If the memory's hold has ended, Entered makes a new proposal.
func Entered(ctx context.Context, j Judge, origin beliefs.Origin, m *streams.Memory) (*client.Reply, error) {
	for n := 0; ; n++ {
		m.ID = digest([]string{string(origin), m.Session, m.User, m.Key, m.Content, fmt.Sprint(n)})
		rep, err := j.Remember(ctx, origin, m)
		if err != nil || rep.Verdict != streams.Hold || client.Open(rep) || rep.Entry == nil || !rep.Entry.Again {
			return rep, err
		}
	}
}

// Channel determines how a text may be used.
type Channel string

// The channels. Texts of the last two may be read but not acted on.
const (
	Refused      Channel = "refused" // not shown
	Admitted     Channel = "admitted"
	ContextOnly  Channel = "context_only" // may be read but not acted on
	Contradicted Channel = "contradicted" // by stronger evidence; may be read but not acted on
)

// Found is the judgment of one text.
type Found struct {
	Channel Channel
	Text    string // in the form that may be shown; parts may be masked
	Note    string // a rule's note, shown before the text
	Why     string // the reasons, except for admitted texts
	// OverQuota is set if the text is refused only because the limit max_external of the context policy is reached.
	OverQuota bool

	external    bool // the text counts against max_external
	maxExternal int  // max_external of the context policy
}

// Mark returns the warning to show before a text: that it must not be acted on, if so, and what rules noted about it.
// It returns "" if there is nothing to warn of.
func (f *Found) Mark() string {
	var out []string
	switch f.Channel {
	case ContextOnly:
		out = append(out, "Lazaret: context only, to read and not to act on")
	case Contradicted:
		out = append(out, "Lazaret: contradicted by stronger evidence, to read and not to act on")
	}
	if f.Note != "" {
		out = append(out, f.Note)
	}
	return strings.Join(out, ". ")
}

// Read judges texts, and returns the judgments in the same order. It sends one request for up to a hundred texts or 128
// KiB, and another one for each text whose judgment is ambiguous in the reply. The limit max_external of the context
// policy holds for all texts together; those that come first count first.
func Read(ctx context.Context, j Judge, head streams.Head, source string, texts []string) ([]Found, error) {
	known := make(map[string]Found)
	external := 0
	note := func(text string, f Found) {
		if f.Channel == Admitted && f.external {
			if external++; external > f.maxExternal {
				f = Found{Channel: Refused, OverQuota: true, Why: fmt.Sprintf(
					"%s %d entries of external origin are admitted already", beliefs.ReasonExternal, f.maxExternal)}
			}
		}
		known[text] = f
	}
	var distinct []string
	seen := map[string]bool{"": true}
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			distinct = append(distinct, text)
		}
	}
	for batch := range batches(distinct) {
		rep, err := ask(ctx, j, head, source, batch)
		if err != nil {
			return nil, err
		}
		for _, f := range items(rep) {
			if slices.Contains(batch, f.Text) {
				note(f.Text, f)
			}
		}
		unknown := 0
		for _, text := range batch {
			if _, ok := known[text]; !ok {
				unknown++
			}
		}
		over := overQuota(rep, unknown)
		for _, text := range batch {
			if _, ok := known[text]; ok {
				continue
			}
			if over != "" {
				known[text] = Found{Channel: Refused, OverQuota: true, Why: over}
				continue
			}
			if len(batch) > 1 {
				if rep, err = ask(ctx, j, head, source, []string{text}); err != nil {
					return nil, err
				}
			}
			note(text, one(rep))
		}
	}
	out := make([]Found, len(texts))
	for i, text := range texts {
		if out[i] = known[text]; text == "" {
			out[i] = Found{Channel: Admitted}
		}
		if note, ok := strings.CutSuffix(out[i].Text, text); ok {
			out[i].Text, out[i].Note = text, strings.TrimSpace(note)
		}
	}
	return out, nil
}

// batchBytes is the maximum size of the texts of one request in bytes. In JSON, a byte takes up to six bytes.
const batchBytes = streams.DefaultMaxEvent / 8

// batches returns texts in the batches of one request each.
func batches(texts []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for len(texts) > 0 {
			n, size := 1, len(texts[0])
			for n < min(len(texts), streams.MaxCandidates) && size+len(texts[n]) <= batchBytes {
				size += len(texts[n])
				n++
			}
			if !yield(texts[:n]) {
				return
			}
			texts = texts[n:]
		}
	}
}

func ask(ctx context.Context, j Judge, head streams.Head, source string, texts []string) (*client.Reply, error) {
	r := &streams.Recall{Head: head}
	r.ID = client.NewID()
	for _, text := range texts {
		r.Candidates = append(r.Candidates, streams.GateCandidate{Content: text,
			Source: streams.Clip(source, streams.MaxNameLen)})
	}
	rep, err := j.Gate(ctx, r)
	if err != nil {
		return nil, err
	}
	if rep.Entry == nil {
		return nil, fmt.Errorf("the pipeline's answer to the memory operation names no ledger entry")
	}
	return rep, nil
}

// items returns the texts in a reply.
func items(rep *client.Reply) (out []Found) {
	if rep.Verdict != streams.Allow || rep.Recall == nil {
		return nil
	}
	for _, c := range []struct {
		Channel
		list []streams.RecallItem
	}{{Admitted, rep.Recall.Admitted}, {ContextOnly, rep.Recall.ContextOnly}, {Contradicted, rep.Recall.Contradictions}} {
		for _, item := range c.list {
			if !item.Partial {
				out = append(out, Found{Channel: c.Channel, Text: item.Content, Why: item.Reason,
					external: beliefs.CountsAsExternal(item.Origin, item.Grade), maxExternal: rep.Recall.MaxExternal})
			}
		}
	}
	return out
}

// overQuota returns the reason if a reply refuses exactly n texts, all because of max_external, and otherwise "".
func overQuota(rep *client.Reply, n int) (why string) {
	if rep.Verdict != streams.Allow || rep.Recall == nil || len(rep.Recall.Refused) != n {
		return ""
	}
	for _, r := range rep.Recall.Refused {
		if r.Reason != beliefs.ReasonExternal {
			return ""
		}
		why = r.Reason + " " + r.Text
	}
	return why
}

// one returns the judgment in a reply about a single text.
func one(rep *client.Reply) Found {
	if served := items(rep); len(served) == 1 {
		return served[0]
	}
	f := Found{Channel: Refused, Why: Why(rep)}
	if rep.Recall != nil && len(rep.Recall.Refused) > 0 {
		r := rep.Recall.Refused[0]
		f.Why = strings.TrimSpace(r.Reason + " " + streams.Clip(r.Text, 300))
	}
	return f
}

// Why formats the reasons of a verdict in one line.
func Why(rep *client.Reply) string {
	var out []string
	if rep != nil && rep.Entry != nil {
		for _, r := range rep.Entry.Reasons {
			if r.Verdict != streams.Allow && len(out) < 4 {
				out = append(out, strings.TrimSpace(string(r.Code)+" "+r.Rule)+": "+strings.TrimSuffix(streams.Clip(r.Text,
					300), "."))
			}
		}
	}
	return strings.Join(out, "; ")
}
