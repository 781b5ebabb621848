package rules

import (
	"fmt"

	"lazaret/pkg/position"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// Prepared is a decoded entry with its rule inputs, so that the entry can be evaluated several times without decoding
// it again. A Prepared is not safe for concurrent use.
type Prepared struct {
	Entry  *streams.Entry
	inputs []*signals.Input
}

// Prepare decodes an entry. If rules are not evaluated on such entries, it returns an empty Prepared.
func Prepare(e *streams.Entry) (*Prepared, error) {
	inputs, err := signals.Read(e)
	if err != nil {
		return nil, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	return &Prepared{Entry: e, inputs: inputs}, nil
}

// Empty reports whether the entry is one on which rules are not evaluated.
func (p *Prepared) Empty() bool { return len(p.inputs) == 0 }

// EvalPrepared is like Eval, for an entry that Prepare has decoded.
func (ev *Evaluator) EvalPrepared(st index.Store, p *Prepared) (Result, error) {
	return ev.judge(st, p.Entry, p.inputs, nil)
}

// Exhaustive returns the same evaluator without its index. The returned evaluator evaluates every rule for an entry's
// kind of event. Tests compare its results with those of the index.
func (ev *Evaluator) Exhaustive() *Evaluator {
	c := *ev
	c.exhaustive = true
	return &c
}

// Text returns the text of the entry's first input: its content, or else the summary of its decision, the query of its
// recall, or the name of its tool. The text is untrusted, like the entry.
func (p *Prepared) Text() string {
	if len(p.inputs) == 0 {
		return ""
	}
	in := p.inputs[0]
	for _, s := range []string{in.Content.Text, in.Decision.Summary, in.Recall.Query} {
		if s != "" {
			return s
		}
	}
	return in.Event.Tool
}
