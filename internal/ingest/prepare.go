package ingest

import (
	"lazaret/internal/stage"
	"lazaret/streams"
)

// prepared is the result of Prepare: the event of a message or the error of parsing it, and the analyses of an
// observation's texts.
type prepared struct {
	event  streams.Event
	err    error
	blocks []analyzed // of each block of an observation
}

// Prepare implements [stage.Preparer].
func (f *Fold) Prepare(m *stage.Message) any {
	if m.BadSubject != nil || m.Bad != nil || m.Address.Kind == streams.KindCtl {
		return nil
	}
	p := new(prepared)
	p.event, p.err = streams.ParseEvent(m.Address, m.Header.Get(streams.HeaderCloudEventID), m.Data, f.maxSize)
	if o, ok := p.event.(*streams.Observation); ok && p.err == nil {
		for _, b := range blocksOf(o) {
			var a analyzed
			if b.Text != "" {
				a = f.analyses.of(b.Text)
			}
			p.blocks = append(p.blocks, a)
		}
	}
	return p
}

// prepared returns the result of Prepare for a message. It calls Prepare if the stage has not done so.
func (f *Fold) prepared(m *stage.Message) *prepared {
	if p, ok := m.Prepared.(*prepared); ok {
		return p
	}
	p, _ := f.Prepare(m).(*prepared)
	return p
}

// blocksOf returns the blocks of an observation, or its content as a single block.
func blocksOf(o *streams.Observation) []streams.Block {
	if o.Content != "" {
		return []streams.Block{{Text: o.Content}}
	}
	return o.Blocks
}
