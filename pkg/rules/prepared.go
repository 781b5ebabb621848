package rules

import (
	"fmt"

	"lazaret/pkg/signals"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// Prepared is an entry that is read: what rules see of it is worked out, so
// that it can be judged again and again without decoding it. One goroutine at a
// time may judge it.
type Prepared struct {
	Entry  *streams.Entry
	inputs []*signals.Input
}

// Prepare reads an entry. An entry that rules do not see gives an empty Prepared.
func Prepare(e *streams.Entry) (*Prepared, error) {
	inputs, err := signals.Read(e)
	if err != nil {
		return nil, fmt.Errorf("ledger entry %d: %w", e.Seq, err)
	}
	return &Prepared{Entry: e, inputs: inputs}, nil
}

// Empty reports whether rules see nothing of the entry.
func (p *Prepared) Empty() bool { return len(p.inputs) == 0 }

// EvalPrepared is Eval of an entry that is read.
func (ev *Evaluator) EvalPrepared(st index.Store, p *Prepared) (Result, error) {
	return ev.judge(st, p.Entry, p.inputs, nil)
}

// Exhaustive returns the same evaluator without its index. It evaluates every rule of an
// entry's kind. The index is compared with it.
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
