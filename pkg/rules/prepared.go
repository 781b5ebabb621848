package rules

import (
	"fmt"

	"lazaret/pkg/position"
	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// Prepared is a decoded entry with its rule inputs, so that it can be evaluated several times. It
// is not safe for concurrent use.
type Prepared struct {
	Entry  *streams.Entry
	inputs []*signals.Input
}

// Prepare decodes an entry. For an entry that rules do not see it returns an empty Prepared.
func Prepare(e *streams.Entry) (*Prepared, error) {
	inputs, err := signals.Read(e)
	if err != nil {
		return nil, fmt.Errorf("ledger entry %s: %w", position.Text(e.Position()), err)
	}
	return &Prepared{Entry: e, inputs: inputs}, nil
}

// Empty reports whether rules do not see the entry.
func (p *Prepared) Empty() bool { return len(p.inputs) == 0 }

// EvalPrepared is like Eval, for a prepared entry.
func (ev *Evaluator) EvalPrepared(st index.Store, p *Prepared) (Result, error) {
	return ev.judge(st, p.Entry, p.inputs, nil)
}

// Exhaustive returns the same evaluator without its index. It evaluates every rule for an entry's
// kind of event. Tests compare the index with it.
func (ev *Evaluator) Exhaustive() *Evaluator {
	c := *ev
	c.exhaustive = true
	return &c
}

// Text returns the text of the entry's first input: its content, or else the summary of its
// decision, the query of its recall, or the name of its tool. The text is no more
// trustworthy than the entry.
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
